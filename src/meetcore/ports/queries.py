"""Reads that change nothing and lock nothing: one statement each."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.deliveries import Attempt, Delivery, DeliveryStatus
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.keys import ApiKey
from meetcore.domain.meetings import Meeting

__all__ = ["MAX_PAGE", "AccountCard", "Caller", "DeliveryHistory", "Queries"]

MAX_PAGE = 1000
"""The most that a caller may ask of a list at once."""


@frozen
class AccountCard:
    """Whose account it is, and its balance in credits."""

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    balance: int


@frozen
class Caller:
    """A key and its account, read in one statement."""

    key: ApiKey
    account: AccountCard


@frozen
class DeliveryHistory:
    """A delivery and its attempts, the first one first, each without the address that was dialled."""

    delivery: Delivery
    attempts: tuple[Attempt, ...] = ()


class Queries(Protocol):
    """What is asked often and must be cheap."""

    async def find_caller(self, key_digest: bytes) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account."""
        ...

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state."""
        ...

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own, in any state and of any account."""
        ...

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint, its secret opened."""
        ...

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        """An account's webhook endpoints, the newest first, their secrets opened.

        Args:
            account_id: whose.
            limit: how many at most, up to `MAX_PAGE`.
            before: only those whose ids are less; the id may be of one that is gone.
        """
        ...

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        """The deliveries to an account's endpoint, the newest first.

        Args:
            account_id: whose.
            endpoint_id: to which.
            status: only those that stand so.
            limit: how many at most, up to `MAX_PAGE`.
            before: only those whose ids are less; the id may be of one that is gone.

        Returns:
            None when there is no such endpoint.
        """
        ...

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        """A delivery to an account's endpoint, as long as the endpoint is there."""
        ...

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL, of any account."""
        ...

    async def ping(self) -> None:
        """Ask the database for a sign of life.

        Raises:
            StoreAway: none came.
        """
        ...
