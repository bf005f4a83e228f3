"""Webhook endpoints in SQLite."""

from uuid import UUID

from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.store import PostingView

from . import rows
from .connection import Connection
from .ledger import load_funds
from .outbox import hold_waiting, write_delivery, write_event

__all__ = ["SqliteEndpointRepository", "load_endpoint"]

# One of an account's endpoints.
_LOAD = "SELECT * FROM endpoints WHERE account_id = :account_id AND id = :id"

# The endpoint that an account registered under a normalised URL.
_FIND_BY_URL = "SELECT * FROM endpoints WHERE account_id = :account_id AND url_key = :url_key"

# How many endpoints an account has.
_COUNT = "SELECT count(*) AS endpoints FROM endpoints WHERE account_id = :account_id"

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

# Forgets an endpoint, and what waits for it with what was tried of that. What is final stays.
_REMOVE = "DELETE FROM endpoints WHERE account_id = :account_id AND id = :id"
_DELETE_HOST_FAILURES = """
DELETE FROM host_failures WHERE account_id = :account_id AND NOT EXISTS (
    SELECT 1 FROM endpoints w WHERE w.account_id = host_failures.account_id AND w.host = host_failures.host)
"""
_REMOVE_ATTEMPTS = """
DELETE FROM delivery_attempts WHERE account_id = :account_id AND delivery_id IN (
    SELECT id FROM deliveries
    WHERE account_id = :account_id AND endpoint_id = :id AND status IN ('pending', 'held'))
"""
_REMOVE_WAITING = """
DELETE FROM deliveries WHERE account_id = :account_id AND endpoint_id = :id AND status IN ('pending', 'held')
"""

# One of an endpoint's deliveries.
_LOAD_DELIVERY = """
SELECT * FROM deliveries WHERE account_id = :account_id AND endpoint_id = :endpoint_id AND id = :id
"""

# Whether an event is still there.
_HAS_EVENT = "SELECT id FROM events WHERE account_id = :account_id AND id = :event_id"


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

    async def count(self, account_id: UUID) -> int:
        """How many endpoints the account has."""
        row = await self._connection.fetch_one(_COUNT, {"account_id": account_id})
        return 0 if row is None else int(row["endpoints"])

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller has looked for the URL."""
        await self._connection.change(_ADD, rows.fields_of(endpoint))

    async def load(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint."""
        return await load_endpoint(self._connection, account_id, endpoint_id)

    async def save(self, endpoint: Endpoint) -> None:
        """Write what an update changed. What waits at an endpoint that is inactive now is held."""
        await self._connection.change(_SAVE, rows.fields_of(endpoint))
        if not endpoint.is_active:
            await hold_waiting(self._connection, endpoint.account_id, endpoint.id, self._clock.now())

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        """Delete an endpoint and its waiting deliveries."""
        named = {"account_id": account_id, "id": endpoint_id}
        if await self._connection.change(_REMOVE, named) == 0:
            return False
        await self._connection.change(_REMOVE_ATTEMPTS, named)
        await self._connection.change(_REMOVE_WAITING, named)
        await self._connection.change(_DELETE_HOST_FAILURES, {"account_id": account_id})
        return True

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        """Read an endpoint, and one of its deliveries if it is named."""
        endpoint = await self.load(account_id, endpoint_id)
        if endpoint is None:
            return None
        if delivery_id is None:
            return PostingView(endpoint, None, self._clock.now())
        named = {"account_id": account_id, "endpoint_id": endpoint_id, "id": delivery_id}
        row = await self._connection.fetch_one(_LOAD_DELIVERY, named)
        return None if row is None else PostingView(endpoint, rows.record(Delivery, row), self._clock.now())

    async def post_event(self, event: Event, delivery: Delivery) -> None:
        """Write an event and one delivery of it."""
        await write_event(self._connection, event)
        await write_delivery(self._connection, delivery)

    async def post_again(self, delivery: Delivery) -> bool:
        """Write another delivery of an event that is written."""
        if await self._connection.fetch_one(_HAS_EVENT, rows.fields_of(delivery)) is None:
            return False
        await write_delivery(self._connection, delivery)
        return True
