"""Deliveries on their way: claimed under a lease, posted by a worker, recorded.

The lease is a due time pushed into the future: a worker that dies leaves a delivery that becomes
due again. Recording is fenced by the claim's token. Both go in batches, because a worker has
hundreds of posts in flight and a transaction for each would be most of the work.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.webhooks.deliveries import Attempt, Delivery, ReleasePace
from meetcore.domain.webhooks.destinations import HostFailures
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.lease import Lease

__all__ = [
    "ClaimLimits", "Claimed", "ClaimedBatch", "ClaimedView", "DeliveryRepository", "GiveUpReason", "GivenUp",
    "Recorded", "RecordedHost", "Saved", "Swept",
]  # fmt: skip


_FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)


@frozen
class ClaimLimits:
    """How much may be taken by this claim, and be in flight at an endpoint, for an account and at a host.

    What is in flight is counted over all workers. An endpoint whose latest attempt failed has `per_failing`
    in flight until one succeeds: each post to a receiver that hangs takes a place for long. At a destination
    host posts of all accounts count together: `per_host` in flight, `per_host_per_s` taken in any second by
    the store's clock. Events made before `events_since` are past their retention.
    """

    total: int = 500
    per_endpoint: int = 8
    per_account: int = 125
    per_host: int = 16
    per_host_per_s: int = 50
    per_failing: int = 1
    events_since: datetime = _FIRST_INSTANT

    @property
    def per_host_of_account(self) -> int:
        """Posts in flight at a host of one account: half of all, so that it keeps no other account out."""
        return (self.per_host + 1) // 2


@frozen
class Claimed:
    """A delivery to post now: where to, what, and the secret to sign with; recorded with its token.

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
    """What a claim took, and what it gave up instead."""

    claimed: Sequence[Claimed] = ()
    given_up: Sequence[GivenUp] = ()


@frozen
class Swept:
    """How many deliveries may be claimed, now or soon, that could not be before, and what was given up."""

    due: int = 0
    given_up: Sequence[GivenUp] = ()


@frozen
class ClaimedView:
    """A claimed delivery, its endpoint and the failures at its host as they are now, all locked.

    `now` is the store's time.
    """

    delivery: Delivery
    endpoint: Endpoint
    host: HostFailures
    now: datetime


@frozen
class Recorded:
    """What an attempt did to its delivery."""

    delivery: Delivery
    attempt: Attempt


@frozen
class RecordedHost:
    """What attempts did to the count of failures at a host; `is_failing` where they made it 20 in a row."""

    failures: HostFailures
    is_failing: bool = False


@frozen
class Saved:
    """What followed from attempts: how many deliveries may be claimed now that could not be before.

    And the endpoints that a failing host disabled although they were not among those that were saved.
    """

    due: int = 0
    disabled: Sequence[Endpoint] = ()


class DeliveryRepository(Protocol):
    """The outbox as the worker sees it."""

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> ClaimedBatch:
        """Take deliveries that are due at active endpoints, as many as the limits leave room for.

        The longest due first at one endpoint; among accounts the one with the least in flight first.
        What has no room is passed over without keeping others from their turn; what its host has no room for
        is due again later, as far behind as there is before it. No two callers get the same one while the
        lease lasts. One whose event is past its retention is given up instead. One whose last claim ended
        without a record, at an endpoint whose latest attempt failed, is due again after the time of a lease.
        """

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        """Those deliveries, in any order, whose claim is still the bearer's; endpoints have no secrets."""

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> Saved:  # fmt: skip
        """Record attempts, what they did to their deliveries, and the endpoints and hosts that they changed.

        Ends the claims. At a host that is failing every other endpoint of the account goes through
        `domain.webhooks.endpoints.disable_with_host`. Whatever else waits at an endpoint that is inactive now
        is held; posts in flight keep their claim.

        Args:
            recorded: each delivery once, loaded in this transaction.
            endpoints: each endpoint of these deliveries once, in its last state.
            recovered: those of them that had failed and have not now: what waits there may be claimed again.
            hosts: each host of these endpoints once, with its account.
        """

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        """Release the next portion of what an endpoint holds, if it is active and the last one is through.

        Returns:
            How many deliveries were released.
        """

    async def recover(self, account_id: UUID, endpoint_id: UUID, since: datetime, most: int) -> int:
        """Recover what failed or expired at an endpoint at this instant or later, the first to fail first.

        It is held, to be released. What has no event any more stays as it is. The caller has locked the
        endpoint, so that no two recoveries take the same.

        Returns:
            How many deliveries were recovered, `most` at most.
        """
        ...

    async def sweep(self, pace: ReleasePace) -> Swept:
        """Release held deliveries, expire old ones and recover those of crashed workers.

        Releases the next portion at every active endpoint that holds anything, and gives up what was
        held for too long.
        """
