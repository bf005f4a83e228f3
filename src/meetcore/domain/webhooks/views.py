"""Views of endpoints, deliveries and events that the store reads and writes for a decision."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.webhooks import endpoints, events
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus

HEALTH_SAMPLE: Final = 200
"""The latest deliveries that count for the health of an endpoint."""

MAX_ATTEMPTS_READ: Final = 50
"""The latest failed attempts that are read of one delivery."""


@frozen
class ClaimLimits:
    """Bounds of one claim, and of posts in flight over all workers.

    An endpoint whose latest attempt failed has `per_failing` in flight until one succeeds: each post to a
    receiver that hangs takes a place for long. At a destination host posts of all accounts count together:
    `per_host` in flight, `per_host_per_s` taken in any second by the store's clock. Events older than
    `events_kept`, by that clock, are past their retention.
    """

    total: int = 500
    per_endpoint: int = 8
    per_account: int = 125
    per_host: int = 16
    per_host_per_s: int = 50
    per_failing: int = 1
    events_kept: timedelta = timedelta(days=9_999)

    @property
    def per_host_of_account(self) -> int:
        """Posts in flight at a host of one account: half of all, so that it blocks no other account."""
        return (self.per_host + 1) // 2


@frozen
class EndpointHealth:
    """An endpoint and its latest attempts: 95 in 100 end within `p95_ms`; `last_error` was the last."""

    endpoint: endpoints.Endpoint
    attempts: int = 0
    successes: int = 0
    p95_ms: int | None = None
    last_failure_at: datetime | None = None
    last_error: str | None = None

    @property
    def success_rate(self) -> float | None:
        """The share of successful attempts, from 0 to 1; `None` without attempts."""
        return self.successes / self.attempts if self.attempts else None


@frozen
class NewDeliveryView:
    """An endpoint to post to, locked; `now` is the store's time. `earlier` is a delivery to be sent again."""

    endpoint: endpoints.Endpoint
    earlier: Delivery | None
    now: datetime


@frozen
class Claimed:
    """A delivery to post now.

    `had_expired_lease` where an earlier claim ended without a record. `previous_secret` is the one before the
    last rotation while it still signs. `cause` is that of its event.
    """

    account_id: UUID
    delivery_id: UUID
    endpoint_id: UUID
    event_id: UUID
    event_kind: str
    url: str
    secret: str = field(repr=False)
    body: bytes = field(repr=False)
    token: UUID = field(repr=False)
    had_expired_lease: bool = False
    previous_secret: str | None = field(default=None, repr=False)
    cause: str | None = None


class GiveUpReason(StrEnum):
    """Why a delivery ended without a last attempt."""

    HELD_TOO_LONG = "held_too_long"
    PAST_RETENTION = "past_retention"


@frozen
class GivenUp:
    """A delivery that ended without a last attempt."""

    account_id: UUID
    delivery_id: UUID
    endpoint_id: UUID
    event_id: UUID
    reason: GiveUpReason


@frozen
class ClaimedBatch:
    """Deliveries that a claim took, those that it gave up, and how many it put off that no key opens."""

    claimed: Sequence[Claimed] = ()
    given_up: Sequence[GivenUp] = ()
    unreadable: int = 0


@frozen
class Swept:
    """How many deliveries a sweep made claimable, now or soon, and those that it gave up."""

    due: int = 0
    given_up: Sequence[GivenUp] = ()


@frozen
class ClaimedView:
    """A claimed delivery, its endpoint and its host's failures, locked; `now` is the store's time.

    `token` is that of the claim: a batch may have a lost one of the same delivery.
    """

    delivery: Delivery
    endpoint: endpoints.Endpoint
    host: endpoints.HostFailures
    now: datetime
    token: UUID = field(repr=False)


@frozen
class Recorded:
    """An attempt, and its delivery after it."""

    delivery: Delivery
    attempt: Attempt


@frozen
class RecordedHost:
    """The count of failures at a host after attempts; `is_failing` where they disable."""

    failures: endpoints.HostFailures
    is_failing: bool = False


@frozen
class Saved:
    """How many deliveries attempts made claimable, and other endpoints that a failing host disabled."""

    due: int = 0
    disabled: Sequence[endpoints.Endpoint] = ()


@frozen
class DeliveryHistory:
    """A delivery and its attempts, the first one first, each without the address that was dialled."""

    delivery: Delivery
    attempts: tuple[Attempt, ...] = ()


@frozen
class DeliveryFilter:
    """A choice of deliveries to an endpoint: made in [`made_from`, `made_before`), `None`: all.

    `about` is the id of a delivery, of its event, or of the meeting or the notes that the event is about. One
    by it or by `kind` covers the latest `MAX_DELIVERIES_LOOKED_AT` of those.
    """

    status: DeliveryStatus | None = None
    kind: StrEnum | None = None
    made_from: datetime | None = None
    made_before: datetime | None = None
    about: UUID | None = None


MAX_DELIVERIES_LOOKED_AT: Final = 20_000


@frozen
class EventFilter:
    """A choice of events, by the millisecond of their ids in [`made_from`, `made_before`), `None`: all."""

    made_from: datetime
    kind: events.EventKind | None = None
    made_before: datetime | None = None
