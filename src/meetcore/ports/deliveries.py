"""Deliveries on their way: claimed under a lease, posted by somebody else, recorded.

The lease is a due time pushed into the future: a worker that dies leaves a delivery that becomes
due again. Recording is fenced by the claim's token.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.deliveries import Attempt, Delivery
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.lease import Lease

__all__ = ["Claimed", "ClaimedView", "DeliveryRepository"]


@frozen
class Claimed:
    """A delivery to post now: where to, what, and the secret to sign with."""

    account_id: UUID
    delivery_id: UUID
    event_id: UUID
    event_kind: str
    url: str
    secret: str = field(repr=False)
    body: bytes = field(repr=False)


@frozen
class ClaimedView:
    """A claimed delivery and its endpoint as they are now, both locked; `now` is the store's time."""

    delivery: Delivery
    endpoint: Endpoint
    now: datetime


class DeliveryRepository(Protocol):
    """The outbox as the worker sees it."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, the longest due first.

        No two callers get the same one while the lease lasts.
        """
        ...

    async def load_claimed(self, account_id: UUID, delivery_id: UUID, token: UUID) -> ClaimedView | None:
        """The delivery with its endpoint, if the claim is still the bearer's."""
        ...

    async def save_attempt(self, delivery: Delivery, endpoint: Endpoint, attempt: Attempt) -> None:
        """Record an attempt and what it did; ends the claim."""
        ...

    async def sweep_held(self) -> int:
        """Release what is held at endpoints that are active, expire what was held for too long.

        Returns:
            How many deliveries became due.
        """
        ...
