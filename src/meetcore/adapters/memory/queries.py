"""Reads in memory: what finished transactions left."""

from collections.abc import Sequence
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import MemoryState, Tables, meeting_at_provider
from meetcore.domain.deliveries import Delivery, DeliveryStatus
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.meetings import Meeting
from meetcore.ports.queries import AccountCard, Caller, DeliveryHistory

__all__ = ["MemoryQueries"]


class MemoryQueries:
    """What is asked often and must be cheap."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def find_caller(self, key_digest: bytes) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account."""
        tables = self._state.committed
        key_id = tables.key_of_digest.get(key_digest)
        if key_id is None:
            return None
        key = tables.keys[key_id]
        account = tables.accounts[key.account_id]
        card = account.card
        return Caller(
            key, AccountCard(card.id, card.user_id, card.email, card.full_name, account.funds.balance)
        )

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state."""
        stored = self._state.committed.meetings.get((account_id, meeting_id))
        return None if stored is None else stored.meeting

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own."""
        return meeting_at_provider(self._state.committed, provider, provider_meeting_id)

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint."""
        return self._state.committed.endpoints.get((account_id, endpoint_id))

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        """An account's webhook endpoints, the newest first."""
        found = [one for one in self._state.committed.endpoints.values() if one.account_id == account_id]
        found.sort(key=lambda one: one.id, reverse=True)
        return [one for one in found if before is None or one.id < before][:limit]

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        """The deliveries to an account's endpoint, the newest first."""
        tables = self._state.committed
        if (account_id, endpoint_id) not in tables.endpoints:
            return None
        found = [
            stored.delivery
            for stored in tables.deliveries.values()
            if (stored.delivery.account_id, stored.delivery.endpoint_id) == (account_id, endpoint_id)
            and (status is None or stored.delivery.status is status)
            and (before is None or stored.delivery.id < before)
        ]
        found.sort(key=lambda one: one.id, reverse=True)
        return [_history(tables, delivery) for delivery in found[:limit]]

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        """A delivery to an account's endpoint, as long as the endpoint is there."""
        tables = self._state.committed
        stored = tables.deliveries.get((account_id, delivery_id))
        if stored is None or stored.delivery.endpoint_id != endpoint_id:
            return None
        if (account_id, endpoint_id) not in tables.endpoints:
            return None
        return _history(tables, stored.delivery)

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL."""
        return [one.secret for one in self._state.committed.endpoints.values() if one.url_key == url_key]

    async def ping(self) -> None:
        """Memory is always there."""


def _history(tables: Tables, delivery: Delivery) -> DeliveryHistory:
    names = sorted(name for name in tables.attempts if name[:2] == (delivery.account_id, delivery.id))
    attempts = (evolve(tables.attempts[name], address=None, retry_after_s=None) for name in names)
    return DeliveryHistory(delivery, tuple(attempts))
