"""Deliveries that no other process moves on, in PostgreSQL: the held, the expired, the throttled, the orphaned.

Each statement finds its rows by an index made for them, however many deliveries there are, and changes them by their primary
key. Nothing is posted or claimed here.
"""

from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.rows import (
    EXPIRE,
    HELD,
    RECOVER,
    RECOVERABLE,
    RELEASED,
    given_up,
)
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.webhooks.deliveries import HELD_FOR, ReleasePace
from meetcore.ports.deliveries import GiveUpReason, Swept

SWEPT_AT_ONCE = 1_000

# The next portion of what is held at the endpoints `at`, the oldest first and one by one, where the portion before
# is through. An inactive one keeps all of it; a locked one comes in the next round.
_RELEASE = f"""
free AS (
    SELECT account_id, id FROM webhook_endpoints
    WHERE (account_id, id) IN (SELECT account_id, endpoint_id FROM at) AND state = 'active'
        AND (released_until IS NULL OR released_until <= statement_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
), reactivated AS (
    UPDATE webhook_endpoints w
    SET released_until = statement_timestamp() + %(portion)s * %(every_s)s * interval '1 second'
    FROM free WHERE w.account_id = free.account_id AND w.id = free.id
    RETURNING w.account_id, w.id
), following AS MATERIALIZED (
    SELECT r.account_id, held.id, held.number FROM reactivated r CROSS JOIN LATERAL (
        SELECT p.id, row_number() OVER (ORDER BY p.id) AS number FROM deliveries p
        WHERE p.account_id = r.account_id AND p.endpoint_id = r.id AND p.status = '{HELD}'
        ORDER BY p.id LIMIT %(portion)s) AS held
), released AS (
    UPDATE deliveries d SET status = '{RELEASED}', held_at = NULL,
        due_at = statement_timestamp() + (f.number - 1) * %(every_s)s * interval '1 second'
    FROM following f WHERE d.account_id = f.account_id AND d.id = f.id AND d.held_at IS NOT NULL
    RETURNING 1
)
SELECT count(*) AS due FROM released"""

# Releases the first portion at one endpoint, if anything is held there.
_RELEASE_ONE = f"""
WITH at AS (
    SELECT account_id, endpoint_id FROM deliveries
    WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status = '{HELD}' LIMIT 1
), {_RELEASE}
"""

# Holds what failed or expired at an endpoint since an instant, for release; what failed first before the rest. The
# bound of rows keeps the lock of the endpoint short.
_RECOVER = f"""
UPDATE deliveries d SET {RECOVER}
FROM (
    SELECT f.account_id, f.id FROM deliveries f
    WHERE f.account_id = %(account_id)s AND f.endpoint_id = %(id)s AND f.failed_at >= %(since)s
        AND f.status IN ({RECOVERABLE})
        AND EXISTS (SELECT FROM events e WHERE e.account_id = f.account_id AND e.id = f.event_id)
    ORDER BY f.failed_at LIMIT %(most)s FOR NO KEY UPDATE OF f SKIP LOCKED
) AS failed
WHERE d.account_id = failed.account_id AND d.id = failed.id
"""

# Gives up what was held for too long.
_EXPIRE = f"""
UPDATE deliveries d SET {EXPIRE}
FROM (
    SELECT account_id, id FROM deliveries
    WHERE status = '{HELD}' AND held_at <= statement_timestamp() - %(held_s)s * interval '1 second'
    ORDER BY held_at LIMIT %(portion)s FOR UPDATE SKIP LOCKED
) AS old
WHERE d.account_id = old.account_id AND d.id = old.id
RETURNING d.account_id, d.id AS delivery_id, d.endpoint_id, d.event_id
"""

# Releases the next portion at every active endpoint that anything is held at, found by a loose scan of the index:
# what is left of a reactivation, and what a race between an event and a change of its endpoint set aside.
_RELEASE_ALL = f"""
WITH RECURSIVE at AS (
    (SELECT account_id, endpoint_id FROM deliveries WHERE status = '{HELD}'
     ORDER BY account_id, endpoint_id LIMIT 1)
    UNION ALL
    SELECT next.account_id, next.endpoint_id FROM at CROSS JOIN LATERAL (
        SELECT account_id, endpoint_id FROM deliveries
        WHERE status = '{HELD}' AND (account_id, endpoint_id) > (at.account_id, at.endpoint_id)
        ORDER BY account_id, endpoint_id LIMIT 1) AS next
), {_RELEASE}
"""

# Each endpoint that anything is throttled at, by a loose scan. Where no post is in flight any more, the next come out:
# the process that throttled them crashed, or the endpoint has been idle since.
_RELEASE_THROTTLED = """
WITH RECURSIVE throttled_at AS (
    (SELECT account_id, endpoint_id FROM deliveries WHERE is_throttled ORDER BY account_id, endpoint_id LIMIT 1)
    UNION ALL
    SELECT next.account_id, next.endpoint_id FROM throttled_at CROSS JOIN LATERAL (
        SELECT account_id, endpoint_id FROM deliveries
        WHERE is_throttled AND (account_id, endpoint_id) > (throttled_at.account_id, throttled_at.endpoint_id)
        ORDER BY account_id, endpoint_id LIMIT 1) AS next
), following AS MATERIALIZED (
    SELECT t.account_id, throttled.id FROM throttled_at t CROSS JOIN LATERAL (
        SELECT p.id FROM deliveries p
        WHERE p.account_id = t.account_id AND p.endpoint_id = t.endpoint_id AND p.is_throttled
        ORDER BY p.due_at LIMIT 1) AS throttled
    WHERE NOT EXISTS (
        SELECT FROM deliveries b
        WHERE b.account_id = t.account_id AND b.endpoint_id = t.endpoint_id AND b.lease_token IS NOT NULL
            AND b.due_at > statement_timestamp())
), released AS (
    UPDATE deliveries d SET is_throttled = false FROM following f
    WHERE d.account_id = f.account_id AND d.id = f.id AND d.is_throttled
    RETURNING 1
)
SELECT count(*) AS due FROM released
"""

# Drops what waits for an endpoint that is no more: written while it was being removed.
_DROP_ORPHANS = """
DELETE FROM deliveries d
USING (
    SELECT account_id, id FROM deliveries
    WHERE NOT is_throttled AND due_at <= statement_timestamp() - interval '5 seconds'
    ORDER BY due_at LIMIT %(portion)s FOR UPDATE SKIP LOCKED
) AS old
WHERE d.account_id = old.account_id AND d.id = old.id
    AND NOT EXISTS (SELECT FROM webhook_endpoints w WHERE w.account_id = d.account_id AND w.id = d.endpoint_id)
"""


class DeliverySweep(Repository):
    """Deliveries that no other process moves on."""

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        return await self._due(_RELEASE_ONE, _paced(pace) | {"account_id": account_id, "id": endpoint_id})

    async def recover(self, account_id: UUID, endpoint_id: UUID, since: datetime, most: int) -> int:
        named = {"account_id": account_id, "id": endpoint_id, "since": since, "most": most}
        return (await self._connection.execute(_RECOVER, named)).rowcount

    async def sweep(self, pace: ReleasePace) -> Swept:
        portion = {"portion": SWEPT_AT_ONCE}
        expired = await self._all(_EXPIRE, portion | {"held_s": HELD_FOR.total_seconds()})
        await self._connection.execute(_DROP_ORPHANS, portion)
        due = await self._due(_RELEASE_ALL, _paced(pace)) + await self._due(_RELEASE_THROTTLED, {})
        return Swept(due, given_up(expired, GiveUpReason.HELD_TOO_LONG))


def _paced(pace: ReleasePace) -> Row:
    return {"portion": pace.portion, "every_s": pace.every.total_seconds()}
