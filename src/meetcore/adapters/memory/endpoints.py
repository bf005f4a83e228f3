"""Webhook endpoints in memory."""

from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.outbox import hold_waiting, release_held
from meetcore.adapters.memory.state import ConstraintBroken, Tables, account_of
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.clock import Clock

__all__ = ["MemoryEndpointRepository"]


class MemoryEndpointRepository:
    """Webhook endpoints of an account, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def lock_account(self, account_id: UUID) -> None:
        """Make sure that the account exists; the transaction is the lock."""
        account_of(self._tables, account_id)

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        """The endpoint registered under a normalised URL."""
        for endpoint in self._tables.endpoints.values():
            if (endpoint.account_id, endpoint.url_key) == (account_id, url_key):
                return endpoint
        return None

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller has looked for the URL."""
        account_of(self._tables, endpoint.account_id)
        name = endpoint.account_id, endpoint.id
        if name in self._tables.endpoints or await self.find_by_url(endpoint.account_id, endpoint.url_key):
            raise ConstraintBroken("the URL is registered already")
        self._tables.endpoints[name] = endpoint

    async def load(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint."""
        return self._tables.endpoints.get((account_id, endpoint_id))

    async def save(self, endpoint: Endpoint) -> int:
        """Write what an update changed; tells how many deliveries became due by it."""
        name = endpoint.account_id, endpoint.id
        known = self._tables.endpoints.get(name)
        if known is None:
            return 0
        self._tables.endpoints[name] = evolve(
            known,
            description=endpoint.description,
            event_types=endpoint.event_types,
            state=endpoint.state,
            consecutive_failures=endpoint.consecutive_failures,
            disabled_at=endpoint.disabled_at,
            secret=endpoint.secret,
        )
        now = self._clock.now()
        if endpoint.is_active:
            return release_held(self._tables, endpoint, now)
        hold_waiting(self._tables, endpoint, now)
        return 0
