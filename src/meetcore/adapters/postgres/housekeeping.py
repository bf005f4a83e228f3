"""Forgetting in PostgreSQL, some thousand rows at a time."""

from datetime import date, datetime
from typing import Any

from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.domain.ids import first_id

PORTION = 5_000

# Forgets the oldest keys that are past their time; one whose work still runs is kept.
_PURGE_IDEMPOTENCY = """
DELETE FROM idempotency_keys WHERE ctid IN (
    SELECT ctid FROM idempotency_keys
    WHERE created_at < clock_timestamp() - %(older_than_s)s * interval '1 second' AND lease_until IS NULL
    ORDER BY created_at LIMIT %(portion)s)
"""

# Forgets the oldest events of providers that are done.
_PURGE_PROVIDER_EVENTS = """
DELETE FROM provider_events WHERE ctid IN (
    SELECT ctid FROM provider_events
    WHERE received_at < clock_timestamp() - %(older_than_s)s * interval '1 second' AND due_at IS NULL
    ORDER BY received_at LIMIT %(portion)s)
"""


# Forgets what accounts used of days that are over.
_PURGE_CREATIONS = """
DELETE FROM account_creations WHERE ctid IN (
    SELECT ctid FROM account_creations WHERE day < %(before)s ORDER BY day LIMIT %(portion)s)
"""

# Forgets mails that are over.
_PURGE_MAILS = """
DELETE FROM mails WHERE ctid IN (
    SELECT ctid FROM mails
    WHERE created_at < clock_timestamp() - %(older_than_s)s * interval '1 second' AND due_at IS NULL
    ORDER BY created_at LIMIT %(portion)s)
"""

# Forgets replaced secrets that do not sign any more.
_PURGE_PREVIOUS_SECRETS = """
UPDATE webhook_endpoints SET previous_secret = NULL, previous_secret_until = NULL
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM webhook_endpoints WHERE previous_secret_until < %(before)s
    ORDER BY previous_secret_until LIMIT %(portion)s FOR NO KEY UPDATE SKIP LOCKED))
"""

# Deletes the oldest requests that are past their retention. An id begins with the time of its request.
_PURGE_REQUESTS = """
DELETE FROM api_requests WHERE ctid IN (
    SELECT ctid FROM api_requests WHERE id < %(before)s ORDER BY id LIMIT %(portion)s)
"""


class PostgresHousekeeping:
    """Delete what has expired."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def purge_idempotency(self, older_than_s: float) -> int:
        return await self._purge(_PURGE_IDEMPOTENCY, {"older_than_s": older_than_s})

    async def purge_provider_events(self, older_than_s: float) -> int:
        return await self._purge(_PURGE_PROVIDER_EVENTS, {"older_than_s": older_than_s})

    async def purge_creations(self, before: date) -> int:
        return await self._purge(_PURGE_CREATIONS, {"before": before})

    async def purge_mails(self, older_than_s: float) -> int:
        return await self._purge(_PURGE_MAILS, {"older_than_s": older_than_s})

    async def purge_requests(self, before: datetime) -> int:
        return await self._purge(_PURGE_REQUESTS, {"before": first_id(before)})

    async def purge_previous_secrets(self, before: datetime) -> int:
        return await self._purge(_PURGE_PREVIOUS_SECRETS, {"before": before})

    async def _purge(self, query: str, older: dict[str, Any]) -> int:
        gone = 0
        while True:
            portion = await self._delete(query, older | {"portion": PORTION})
            gone += portion
            if portion < PORTION:
                return gone

    async def _delete(self, query: str, parameters: dict[str, Any]) -> int:
        with translated():
            async with self._pool.connection() as connection:
                cursor = await connection.execute(query, parameters)
                return cursor.rowcount
