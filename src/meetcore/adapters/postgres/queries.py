"""Reads in PostgreSQL: one statement each, outside any transaction."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.endpoints import ENDPOINT_COLUMNS
from meetcore.adapters.postgres.meetings import MEETING_COLUMNS
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.meetings import Meeting
from meetcore.ports.cipher import Cipher
from meetcore.ports.queries import AccountCard, Caller

__all__ = ["KEY_COLUMNS", "PostgresQueries"]

KEY_COLUMNS = """
    k.id AS key_id, k.account_id, k.scopes, k.daily_cap, k.created_at AS key_created_at, k.expires_at, k.revoked_at"""

# The key of a digest with its account: what authentication needs, and all that GET /me shows.
_FIND_CALLER = f"""
SELECT {KEY_COLUMNS}, a.user_id, a.email, a.full_name, a.balance
FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.digest = %(digest)s
"""

# One of an account's meetings.
_FIND_MEETING = f"""
SELECT m.account_id, {MEETING_COLUMNS} FROM meetings m WHERE m.account_id = %(account_id)s AND m.id = %(id)s
"""

# The meeting that a provider speaks of.
_FIND_AT_PROVIDER = f"""
SELECT m.account_id, {MEETING_COLUMNS} FROM meetings m
WHERE m.provider = %(provider)s AND m.provider_meeting_id = %(provider_meeting_id)s
"""

# Whoever registered a URL.
_FIND_BY_URL = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w WHERE w.url_key = %(url_key)s
"""

# One of an account's webhook endpoints.
_FIND_ENDPOINT = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.id = %(id)s
"""


class PostgresQueries:
    """What is asked often and must be cheap."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self._pool = pool
        self._cipher = cipher

    async def find_caller(self, key_digest: bytes) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account."""
        row = await self._one(_FIND_CALLER, {"digest": key_digest})
        if row is None:
            return None
        account = AccountCard(
            row["account_id"], row["user_id"], row["email"], row["full_name"], row["balance"]
        )
        return Caller(rows.key(row), account)

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state."""
        row = await self._one(_FIND_MEETING, {"account_id": account_id, "id": meeting_id})
        return None if row is None else rows.meeting(row, self._cipher)

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own."""
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._one(_FIND_AT_PROVIDER, parameters)
        return None if row is None else rows.meeting(row, self._cipher)

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint, its secret opened."""
        row = await self._one(_FIND_ENDPOINT, {"account_id": account_id, "id": endpoint_id})
        return None if row is None else rows.endpoint(row, self._cipher)

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL."""
        with translated():
            async with self._pool.connection() as connection:
                cursor = await connection.execute(_FIND_BY_URL, {"url_key": url_key})
                return [rows.endpoint(row, self._cipher).secret for row in await cursor.fetchall()]

    async def ping(self) -> None:
        """Ask the database for a sign of life."""
        await self._one("SELECT 1 AS alive", {})

    async def _one(self, query: str, parameters: dict[str, Any]) -> rows.Row | None:
        with translated():
            async with self._pool.connection() as connection:
                cursor = await connection.execute(query, parameters)
                return await cursor.fetchone()
