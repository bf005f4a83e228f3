"""Deliveries in PostgreSQL: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections.abc import Sequence
from uuid import UUID

import structlog

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.endpoints import ENDPOINT_COLUMNS
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.deliveries import HELD_FOR, Attempt, Delivery
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.cipher import Cipher, CipherRefused
from meetcore.ports.deliveries import Claimed, ClaimedView
from meetcore.ports.lease import Lease

__all__ = ["PostgresDeliveryRepository"]

log = structlog.get_logger("meetcore.postgres")

# Takes the longest due deliveries at active endpoints; a row that another worker is taking is
# passed over. Until the lease runs out the delivery is due to nobody.
_CLAIM = """
WITH due AS (
    SELECT d.account_id, d.id, d.due_at FROM deliveries d
    JOIN webhook_endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id AND w.state = 'active'
    WHERE d.status = 'pending' AND d.due_at <= clock_timestamp()
    ORDER BY d.due_at LIMIT %(limit)s FOR UPDATE OF d SKIP LOCKED
), claimed AS (
    UPDATE deliveries d
    SET lease_token = %(token)s, due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE d.account_id = due.account_id AND d.id = due.id
    RETURNING d.account_id, d.id, d.endpoint_id, d.event_id, d.event_kind, due.due_at AS was_due_at
)
SELECT c.account_id, c.id AS delivery_id, c.endpoint_id, c.event_id, c.event_kind, w.url, w.secret, e.payload
FROM claimed c
JOIN webhook_endpoints w ON w.account_id = c.account_id AND w.id = c.endpoint_id
JOIN events e ON e.account_id = c.account_id AND e.id = c.event_id
ORDER BY c.was_due_at
"""

# A claimed delivery with its endpoint, both locked, the endpoint first so that no two attempts at
# one endpoint wait for each other crosswise.
_LOAD = f"""
WITH endpoint AS MATERIALIZED (
    SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w
    WHERE w.account_id = %(account_id)s AND w.id = (
        SELECT endpoint_id FROM deliveries WHERE account_id = %(account_id)s AND id = %(id)s)
    FOR NO KEY UPDATE
)
SELECT endpoint.*, d.id AS delivery_id, d.event_id, d.event_kind, d.status AS delivery_status, d.attempts_made,
       d.due_at, d.held_at, d.created_at AS delivery_created_at, clock_timestamp() AS now
FROM endpoint JOIN deliveries d ON d.account_id = %(account_id)s AND d.id = %(id)s
WHERE d.lease_token = %(token)s
FOR UPDATE OF d
"""

# Records an attempt, what became of the delivery and of the endpoint, whose other waiting
# deliveries are held when this attempt made it inactive.
_SAVE = """
WITH attempt AS (
    INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error,
        response_excerpt, address)
    VALUES (%(account_id)s, %(id)s, %(attempts_made)s, %(at)s, %(duration_ms)s, %(status_code)s, %(error)s,
        %(response_excerpt)s, %(address)s)
    ON CONFLICT DO NOTHING
), delivery AS (
    UPDATE deliveries SET status = %(status)s, attempts_made = %(attempts_made)s, due_at = %(due_at)s,
        held_at = %(held_at)s, lease_token = NULL
    WHERE account_id = %(account_id)s AND id = %(id)s
), held AS (
    UPDATE deliveries SET status = 'held', held_at = clock_timestamp(), due_at = NULL
    WHERE account_id = %(account_id)s AND endpoint_id = %(endpoint_id)s AND status = 'pending' AND id <> %(id)s
        AND NOT %(is_active)s
)
UPDATE webhook_endpoints SET state = %(state)s, consecutive_failures = %(consecutive_failures)s,
    disabled_at = %(disabled_at)s
WHERE account_id = %(account_id)s AND id = %(endpoint_id)s
"""

# Mends what a race between an event and a change of its endpoint left: held at an active endpoint,
# or waiting at an inactive one. Gives up what was held for too long: one instant decides for both parts.
_SWEEP = """
WITH expired AS (
    UPDATE deliveries SET status = 'expired', held_at = NULL
    WHERE status = 'held' AND held_at <= statement_timestamp() - %(held_s)s * interval '1 second'
), released AS (
    UPDATE deliveries d SET status = 'pending', due_at = clock_timestamp(), held_at = NULL
    FROM webhook_endpoints w
    WHERE d.status = 'held' AND d.held_at > statement_timestamp() - %(held_s)s * interval '1 second'
        AND w.account_id = d.account_id AND w.id = d.endpoint_id AND w.state = 'active'
    RETURNING 1
), waiting AS (
    UPDATE deliveries d SET status = 'held', held_at = clock_timestamp(), due_at = NULL
    FROM webhook_endpoints w
    WHERE d.status = 'pending' AND d.due_at <= clock_timestamp()
        AND w.account_id = d.account_id AND w.id = d.endpoint_id AND w.state <> 'active'
)
SELECT count(*) AS due FROM released
"""


class PostgresDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, the longest due first.

        One whose secret or payload does not open is logged and left to its lease, so that a key that
        went missing stops what was sealed under it and nothing else.
        """
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        cursor = await self._connection.execute(_CLAIM, parameters)
        claimed = []
        for row in await cursor.fetchall():
            try:
                claimed.append(self._claimed(row))
            except CipherRefused:
                log.exception("delivery does not open", delivery_id=str(row["delivery_id"]))
        return claimed

    async def load_claimed(self, account_id: UUID, delivery_id: UUID, token: UUID) -> ClaimedView | None:
        """The delivery with its endpoint, if the claim is still the bearer's."""
        parameters = {"account_id": account_id, "id": delivery_id, "token": token}
        cursor = await self._connection.execute(_LOAD, parameters)
        row = await cursor.fetchone()
        if row is None:
            return None
        return ClaimedView(rows.delivery(row), rows.endpoint(row, self._cipher), row["now"])

    async def save_attempt(self, delivery: Delivery, endpoint: Endpoint, attempt: Attempt) -> None:
        """Record an attempt and what it did; ends the claim."""
        parameters = {
            "account_id": delivery.account_id,
            "id": delivery.id,
            "status": delivery.status.value,
            "attempts_made": delivery.attempts_made,
            "due_at": delivery.next_attempt_at,
            "held_at": delivery.held_at,
            "at": attempt.at,
            "duration_ms": attempt.duration_ms,
            "status_code": attempt.status_code,
            "error": attempt.error,
            "response_excerpt": attempt.response_excerpt,
            "address": attempt.address,
            "endpoint_id": endpoint.id,
            "state": endpoint.state.value,
            "is_active": endpoint.is_active,
            "consecutive_failures": endpoint.consecutive_failures,
            "disabled_at": endpoint.disabled_at,
        }
        await self._connection.execute(_SAVE, parameters)

    async def sweep_held(self) -> int:
        """Release what is held at active endpoints, expire what was held for too long."""
        cursor = await self._connection.execute(_SWEEP, {"held_s": HELD_FOR.total_seconds()})
        row = await cursor.fetchone()
        return 0 if row is None else int(row["due"])

    def _claimed(self, row: rows.Row) -> Claimed:
        account_id, event_id = row["account_id"], row["event_id"]
        secret = self._cipher.open(row["secret"], rows.endpoint_context(account_id, row["endpoint_id"]))
        body = self._cipher.open(row["payload"], rows.event_context(account_id, event_id))
        return Claimed(
            account_id, row["delivery_id"], event_id, row["event_kind"], row["url"], secret.decode(), body
        )
