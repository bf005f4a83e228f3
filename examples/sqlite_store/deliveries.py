"""Deliveries in SQLite: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from meetcore.domain.deliveries import HELD_FOR, Attempt, Delivery
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.clock import Clock
from meetcore.ports.deliveries import Claimed, ClaimedView
from meetcore.ports.lease import Lease

from . import rows
from .connection import Connection
from .endpoints import load_endpoint
from .outbox import hold_waiting

__all__ = ["SqliteDeliveryRepository"]

# What is due at active endpoints, the longest due first, with all that a post needs.
_DUE = """
SELECT d.account_id, d.id AS delivery_id, d.event_id, d.event_kind, w.url, w.secret, e.payload AS body
FROM deliveries d
JOIN endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id
JOIN events e ON e.account_id = d.account_id AND e.id = d.event_id
WHERE d.status = 'pending' AND d.next_attempt_at <= :now AND w.state = 'active'
ORDER BY d.next_attempt_at, d.id LIMIT :limit
"""

# Takes one: until the lease runs out it is due to nobody.
_CLAIM = """
UPDATE deliveries SET lease_token = :token, next_attempt_at = :until
WHERE account_id = :account_id AND id = :delivery_id
"""

# A delivery, for the bearer of its claim only.
_LOAD_CLAIMED = """
SELECT * FROM deliveries WHERE account_id = :account_id AND id = :id AND lease_token = :token
"""

# An attempt, kept once under its number.
_WRITE_ATTEMPT = """
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error,
    response_excerpt, address)
VALUES (:account_id, :delivery_id, :number, :at, :duration_ms, :status_code, :error, :response_excerpt,
    :address)
ON CONFLICT DO NOTHING
"""

# What became of the delivery. The claim ends.
_WRITE_DELIVERY = """
UPDATE deliveries SET status = :status, attempts_made = :attempts_made, next_attempt_at = :next_attempt_at,
    held_at = :held_at, lease_token = NULL
WHERE account_id = :account_id AND id = :id
"""

# What became of the endpoint. What its owner may update meanwhile is left alone.
_WRITE_ENDPOINT = """
UPDATE endpoints SET state = :state, consecutive_failures = :consecutive_failures, disabled_at = :disabled_at
WHERE account_id = :account_id AND id = :id
"""

# Gives up what was held for too long.
_EXPIRE = """
UPDATE deliveries SET status = 'expired', held_at = NULL WHERE status = 'held' AND held_at <= :since
"""

# Makes due what is held at an active endpoint, and holds what is due at an inactive one. A store with
# more than one writer needs this: an event and a change of its endpoint may miss each other there.
_RELEASE = """
UPDATE deliveries SET status = 'pending', held_at = NULL, next_attempt_at = :now
WHERE status = 'held' AND (account_id, endpoint_id) IN (
    SELECT account_id, id FROM endpoints WHERE state = 'active')
"""
_HOLD = """
UPDATE deliveries SET status = 'held', held_at = :now, next_attempt_at = NULL
WHERE status = 'pending' AND next_attempt_at <= :now AND (account_id, endpoint_id) IN (
    SELECT account_id, id FROM endpoints WHERE state <> 'active')
"""


class SqliteDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, the longest due first."""
        now = self._clock.now()
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        due = await self._connection.fetch(_DUE, {"now": now, "limit": limit})
        for row in due:
            await self._connection.change(_CLAIM, row | bearer)
        return [rows.record(Claimed, row) for row in due]

    async def load_claimed(self, account_id: UUID, delivery_id: UUID, token: UUID) -> ClaimedView | None:
        """The delivery with its endpoint, if the claim is still the bearer's."""
        bearer = {"account_id": account_id, "id": delivery_id, "token": token}
        row = await self._connection.fetch_one(_LOAD_CLAIMED, bearer)
        if row is None:
            return None
        delivery = rows.record(Delivery, row)
        endpoint = await load_endpoint(self._connection, account_id, delivery.endpoint_id)
        return None if endpoint is None else ClaimedView(delivery, endpoint, self._clock.now())

    async def save_attempt(self, delivery: Delivery, endpoint: Endpoint, attempt: Attempt) -> None:
        """Record an attempt and what it did; ends the claim."""
        account_id = delivery.account_id
        about = {"account_id": account_id, "delivery_id": delivery.id, "number": delivery.attempts_made}
        await self._connection.change(_WRITE_ATTEMPT, rows.fields_of(attempt) | about)
        await self._connection.change(_WRITE_DELIVERY, rows.fields_of(delivery))
        await self._connection.change(_WRITE_ENDPOINT, rows.fields_of(endpoint))
        if not endpoint.is_active:
            await hold_waiting(self._connection, account_id, endpoint.id, self._clock.now())

    async def sweep_held(self) -> int:
        """Expire what was held for too long, release what is held at active endpoints."""
        now = self._clock.now()
        await self._connection.change(_EXPIRE, {"since": now - HELD_FOR})
        released = await self._connection.change(_RELEASE, {"now": now})
        await self._connection.change(_HOLD, {"now": now})
        return released
