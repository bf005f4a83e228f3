"""Deliveries on their way: claimed under a lease, posted by somebody else, recorded.

The lease is a due time pushed into the future: a worker that dies leaves a delivery that becomes
due again. Recording is fenced by the claim's token. Both go in batches, because a worker has
hundreds of posts in flight and a transaction for each would be most of the work.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.deliveries import Attempt, Delivery, ReleasePace
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.lease import Lease

__all__ = ["ClaimLimits", "Claimed", "ClaimedView", "DeliveryRepository", "Recorded"]


@frozen
class ClaimLimits:
    """How much may be taken: by this claim, and in flight at one endpoint and for one account in all.

    What is in flight is counted over all workers.
    """

    total: int
    per_endpoint: int = 8
    per_account: int = 125


@frozen
class Claimed:
    """A delivery to post now: where to, what, and the secret to sign with; recorded with its token."""

    account_id: UUID
    delivery_id: UUID
    event_id: UUID
    event_kind: str
    url: str
    secret: str = field(repr=False)
    body: bytes = field(repr=False)
    token: UUID = field(repr=False)


@frozen
class ClaimedView:
    """A claimed delivery and its endpoint as they are now, both locked; `now` is the store's time."""

    delivery: Delivery
    endpoint: Endpoint
    now: datetime


@frozen
class Recorded:
    """What an attempt did to its delivery."""

    delivery: Delivery
    attempt: Attempt


class DeliveryRepository(Protocol):
    """The outbox as the worker sees it."""

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, as many as the limits leave room for.

        The longest due first at one endpoint; among accounts the one with the least in flight first.
        What has no room is passed over without keeping others from their turn. No two callers get
        the same one while the lease lasts.
        """
        ...

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        """Those deliveries, with their endpoints, whose claim is still the bearer's; in any order."""
        ...

    async def save_attempts(self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint]) -> int:
        """Record attempts, what they did to their deliveries, and the endpoints that they changed.

        Ends the claims. Whatever else waits at an endpoint that is inactive now is held; posts in
        flight keep their claim.

        Args:
            recorded: each delivery once, loaded in this transaction.
            endpoints: each endpoint of these deliveries once, in its last state.

        Returns:
            How many deliveries may be claimed now that could not be before: worth a look.
        """
        ...

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        """Release the next portion of what an endpoint holds, if it is active and the last one is through.

        Returns:
            How many deliveries were released.
        """
        ...

    async def sweep(self, pace: ReleasePace) -> int:
        """Mend what nobody else will: the held, the expired, and what dead workers left behind.

        Releases the next portion at every active endpoint that holds anything, and gives up what was
        held for too long.

        Returns:
            How many deliveries may be claimed, now or soon, that could not be before.
        """
        ...
