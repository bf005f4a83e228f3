"""Faults of the sender, which count against no endpoint: the delivery is put off and posted again.

A sender recognises some itself: no resolver, no authorities, no route, no descriptors. Others show in the
results only: an outdated list of authorities fails at every host, and so does a clock that is wrong. A
transport error is the sender's while more than half of the destination hosts, and more than half of the
accounts, have it as their latest result of the last minute. A host where something else has come back since
is not among them, and one that had failed before is left out: hosts of customers that are gone for good say
nothing, however many there are. No result delays the delivery to a host that accepts connections.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import frozen

PUT_OFF = timedelta(seconds=10)
"""When a delivery is posted again after a fault of the sender: after this, or up to half as long again."""

FAULT_OVER = timedelta(seconds=30)
"""A fault is over when it has put off nothing for so long: what it put off has been tried again by then."""

RESULTS_KEPT = timedelta(minutes=1)
"""How long the latest result of a host counts for the share of hosts that fail alike."""

MAX_CLOCK_OFFSET = timedelta(minutes=1)
"""How far the clock of a process may be from that of the store before certificates seem invalid by it."""

MIN_HOSTS: Final = 3
MIN_ACCOUNTS: Final = 2
"""Fewer hosts or accounts that fail alike say nothing about the sender."""

TRANSPORT_ERRORS: Final = frozenset({"dns_failed", "tls_failed", "connect_failed", "connect_timeout"})
"""The errors of `Attempt.error` that a fault of the sender can be the cause of."""


class SenderFault(StrEnum):
    """Why the sender could not post."""

    NO_RESOLVER = "no_resolver"
    NO_AUTHORITIES = "no_authorities"
    NO_ROUTE = "no_route"
    NO_RESOURCES = "no_resources"
    NO_KEY = "no_key"
    WRONG_CLOCK = "wrong_clock"
    HOSTS_FAIL_ALIKE = "hosts_fail_alike"


@frozen
class HostResult:
    """The latest result of a post to a host; `error` is `Attempt.error`."""

    account_id: UUID
    error: str | None
    at: datetime


def shared_error(latest: Collection[HostResult]) -> str | None:
    """Return the transport error that is the sender's, by the latest result at each host; `None` for none."""
    for error in TRANSPORT_ERRORS:
        failing = [one for one in latest if one.error == error]
        accounts = {one.account_id for one in failing} - {
            one.account_id for one in latest if one.error != error
        }
        if (
            len(failing) >= MIN_HOSTS
            and len(accounts) >= MIN_ACCOUNTS
            and 2 * len(failing) > len(latest)
            and 2 * len(accounts) > len({one.account_id for one in latest})
        ):
            return error
    return None


@frozen
class FaultPeriod:
    """A fault of the sender, from the first delivery that it put off to the latest."""

    fault: SenderFault
    began_at: datetime
    last_at: datetime
    put_off: int = 0
