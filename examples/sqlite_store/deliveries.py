"""Deliveries in SQLite: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from meetcore.domain.deliveries import HELD_FOR, Delivery, ReleasePace
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.clock import Clock
from meetcore.ports.deliveries import Claimed, ClaimedView, ClaimLimits, Recorded
from meetcore.ports.lease import Lease

from . import rows
from .connection import Connection
from .endpoints import load_endpoint
from .outbox import hold_waiting

__all__ = ["SqliteDeliveryRepository"]

# What is due at active endpoints and has room there and in its account, with all that a post needs: the
# account with the least in flight first. One writer at a time, so nobody takes the room meanwhile.
_DUE = """
WITH in_flight AS (
    SELECT account_id, endpoint_id, count(*) AS posts FROM deliveries
    WHERE status = 'pending' AND lease_token IS NOT NULL AND next_attempt_at > :now
    GROUP BY account_id, endpoint_id
), waiting AS (
    SELECT d.*, w.url, w.secret, row_number() OVER (
        PARTITION BY d.account_id, d.endpoint_id ORDER BY d.next_attempt_at, d.id
    ) + coalesce((SELECT posts FROM in_flight f
        WHERE f.account_id = d.account_id AND f.endpoint_id = d.endpoint_id), 0) AS seat
    FROM deliveries d JOIN endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id
    WHERE d.status = 'pending' AND d.next_attempt_at <= :now AND w.state = 'active'
), seated AS (
    SELECT waiting.*, row_number() OVER (
        PARTITION BY account_id ORDER BY next_attempt_at, id
    ) + coalesce((SELECT sum(posts) FROM in_flight f WHERE f.account_id = waiting.account_id), 0) AS turn
    FROM waiting WHERE seat <= :per_endpoint
), chosen AS (
    SELECT * FROM seated WHERE turn <= :per_account ORDER BY turn, next_attempt_at, id LIMIT :total
)
SELECT c.account_id, c.id AS delivery_id, c.event_id, c.event_kind, c.url, c.secret, e.payload AS body
FROM chosen c JOIN events e ON e.account_id = c.account_id AND e.id = c.event_id
ORDER BY c.next_attempt_at, c.id
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

# How many more may be due at an endpoint.
_WAITING_AT = """
SELECT count(*) AS waiting FROM deliveries
WHERE account_id = :account_id AND endpoint_id = :endpoint_id
    AND status = 'pending' AND next_attempt_at <= :now
"""

# Gives up what was held for too long.
_EXPIRE = """
UPDATE deliveries SET status = 'expired', held_at = NULL WHERE status = 'held' AND held_at <= :since
"""

# Endpoints that are active, hold something, and whose last portion is through.
_RELEASABLE = """
SELECT account_id, id FROM endpoints
WHERE state = 'active' AND (released_until IS NULL OR released_until <= :now)
    AND (:endpoint_id IS NULL OR (account_id = :account_id AND id = :endpoint_id))
    AND EXISTS (SELECT 1 FROM deliveries d
        WHERE d.account_id = endpoints.account_id AND d.endpoint_id = endpoints.id AND d.status = 'held')
"""

# The next portion of what an endpoint holds, the oldest first: ids sort by time.
_HELD = """
SELECT account_id, id FROM deliveries
WHERE account_id = :account_id AND endpoint_id = :id AND status = 'held' ORDER BY id LIMIT :portion
"""
_RELEASE = """
UPDATE deliveries SET status = 'pending', held_at = NULL, next_attempt_at = :due
WHERE account_id = :account_id AND id = :id
"""
_RELEASED_UNTIL = "UPDATE endpoints SET released_until = :until WHERE account_id = :account_id AND id = :id"

# Holds what is due at an inactive endpoint. A store with more than one writer needs this: an event and a
# change of its endpoint may miss each other there.
_HOLD = """
UPDATE deliveries SET status = 'held', held_at = :now, next_attempt_at = NULL, lease_token = NULL
WHERE status = 'pending' AND next_attempt_at <= :now AND (account_id, endpoint_id) IN (
    SELECT account_id, id FROM endpoints WHERE state <> 'active')
"""


class SqliteDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, as many as the limits leave room for."""
        now = self._clock.now()
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        due = await self._connection.fetch(_DUE, rows.fields_of(limits) | {"now": now})
        for row in due:
            await self._connection.change(_CLAIM, row | bearer)
        return [rows.record(Claimed, row | {"token": str(lease.token)}) for row in due]

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        """Those deliveries, with their endpoints, whose claim is still the bearer's."""
        views = []
        for one in claimed:
            bearer = {"account_id": one.account_id, "id": one.delivery_id, "token": one.token}
            row = await self._connection.fetch_one(_LOAD_CLAIMED, bearer)
            if row is not None:
                delivery = rows.record(Delivery, row)
                endpoint = await load_endpoint(self._connection, one.account_id, delivery.endpoint_id)
                if endpoint is not None:
                    views.append(ClaimedView(delivery, endpoint, self._clock.now()))
        return views

    async def save_attempts(self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint]) -> int:
        """Record attempts, what they did to their deliveries, and the endpoints that they changed."""
        for one in recorded:
            delivery = one.delivery
            about = {
                "account_id": delivery.account_id,
                "delivery_id": delivery.id,
                "number": delivery.attempts_made,
            }
            await self._connection.change(_WRITE_ATTEMPT, rows.fields_of(one.attempt) | about)
            await self._connection.change(_WRITE_DELIVERY, rows.fields_of(delivery))
        now, due = self._clock.now(), 0
        for endpoint in endpoints:
            await self._connection.change(_WRITE_ENDPOINT, rows.fields_of(endpoint))
            if endpoint.is_active:
                freed = sum(one.delivery.endpoint_id == endpoint.id for one in recorded)
                due += min(freed, await self._waiting_at(endpoint, now))
            else:
                await hold_waiting(self._connection, endpoint.account_id, endpoint.id, now)
        return due

    async def _waiting_at(self, endpoint: Endpoint, now: datetime) -> int:
        about = {"account_id": endpoint.account_id, "endpoint_id": endpoint.id, "now": now}
        row = await self._connection.fetch_one(_WAITING_AT, about)
        return 0 if row is None else int(row["waiting"])

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        """Release the next portion of what an endpoint holds, if it is active and the last one is through."""
        return await self._release(pace, account_id, endpoint_id)

    async def sweep(self, pace: ReleasePace) -> int:
        """Expire what was held for too long, hold and release what is not where it belongs."""
        now = self._clock.now()
        await self._connection.change(_EXPIRE, {"since": now - HELD_FOR})
        await self._connection.change(_HOLD, {"now": now})
        return await self._release(pace)

    async def _release(
        self, pace: ReleasePace, account_id: UUID | None = None, endpoint_id: UUID | None = None
    ) -> int:
        now, released = self._clock.now(), 0
        about = {"now": now, "account_id": account_id, "endpoint_id": endpoint_id}
        for endpoint in await self._connection.fetch(_RELEASABLE, about):
            await self._connection.change(_RELEASED_UNTIL, endpoint | {"until": now + pace.lasts})
            held = await self._connection.fetch(_HELD, endpoint | {"portion": pace.portion})
            for place, row in enumerate(held):
                await self._connection.change(_RELEASE, row | {"due": now + place * pace.every})
            released += len(held)
        return released
