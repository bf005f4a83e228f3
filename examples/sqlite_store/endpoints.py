"""Webhook endpoints in SQLite."""

from uuid import UUID

from meetcore.domain.endpoints import Endpoint
from meetcore.ports.clock import Clock

from . import rows
from .connection import Connection
from .ledger import load_funds
from .outbox import hold_waiting, release_held

__all__ = ["SqliteEndpointRepository", "load_endpoint"]

# One of an account's endpoints.
_LOAD = "SELECT * FROM endpoints WHERE account_id = :account_id AND id = :id"

# The endpoint that an account registered under a normalised URL.
_FIND_BY_URL = "SELECT * FROM endpoints WHERE account_id = :account_id AND url_key = :url_key"

# Registers an endpoint. The unique key on the URL has the last word on "once for each account".
_ADD = """
INSERT INTO endpoints (account_id, id, url, url_key, description, event_types, state, consecutive_failures,
    disabled_at, created_by, created_at, secret)
VALUES (:account_id, :id, :url, :url_key, :description, :event_types, :state, :consecutive_failures,
    :disabled_at, :created_by, :created_at, :secret)
"""

# What an update may change: never the URL, nor who registered it and when.
_SAVE = """
UPDATE endpoints SET description = :description, event_types = :event_types, state = :state,
    consecutive_failures = :consecutive_failures, disabled_at = :disabled_at, secret = :secret
WHERE account_id = :account_id AND id = :id
"""


async def load_endpoint(connection: Connection, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
    """One of an account's endpoints."""
    row = await connection.fetch_one(_LOAD, {"account_id": account_id, "id": endpoint_id})
    return None if row is None else rows.record(Endpoint, row)


class SqliteEndpointRepository:
    """Webhook endpoints of an account, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def lock_account(self, account_id: UUID) -> None:
        """Make sure that the account exists: the transaction is the lock."""
        await load_funds(self._connection, account_id)

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        """The endpoint registered under a normalised URL."""
        row = await self._connection.fetch_one(_FIND_BY_URL, {"account_id": account_id, "url_key": url_key})
        return None if row is None else rows.record(Endpoint, row)

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller has looked for the URL."""
        await self._connection.change(_ADD, rows.fields_of(endpoint))

    async def load(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint."""
        return await load_endpoint(self._connection, account_id, endpoint_id)

    async def save(self, endpoint: Endpoint) -> int:
        """Write what an update changed; tells how many deliveries became due by it."""
        await self._connection.change(_SAVE, rows.fields_of(endpoint))
        now = self._clock.now()
        if endpoint.is_active:
            return await release_held(self._connection, endpoint.account_id, endpoint.id, now)
        await hold_waiting(self._connection, endpoint.account_id, endpoint.id, now)
        return 0
