"""Webhook endpoints in PostgreSQL. Secrets are sealed, bound to account and endpoint."""

from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.errors import NotFound
from meetcore.ports.cipher import Cipher

__all__ = ["ENDPOINT_COLUMNS", "PostgresEndpointRepository"]

ENDPOINT_COLUMNS = """
    w.id AS endpoint_id, w.account_id, w.url, w.url_key, w.description, w.event_types, w.state,
    w.consecutive_failures, w.disabled_at, w.created_by, w.created_at AS endpoint_created_at, w.secret"""

# Takes the account's lock and tells waiting readers to read again.
_LOCK = "UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s RETURNING id"

# The endpoint registered under a normalised URL.
_FIND_BY_URL = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.url_key = %(url_key)s
"""

# Registers an endpoint. The unique key on the URL is the last word on "once per account".
_ADD = """
INSERT INTO webhook_endpoints (account_id, id, url, url_key, description, event_types, state, consecutive_failures,
    disabled_at, created_by, created_at, secret)
VALUES (%(account_id)s, %(id)s, %(url)s, %(url_key)s, %(description)s, %(event_types)s, %(state)s,
    %(consecutive_failures)s, %(disabled_at)s, %(created_by)s, %(created_at)s, %(secret)s)
"""

# An endpoint, locked against deliveries that record their outcome.
_LOAD = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE
"""

# Writes an endpoint. Its waiting deliveries follow: held when it is inactive, due when it is active.
_SAVE = """
WITH endpoint AS (
    UPDATE webhook_endpoints SET description = %(description)s, event_types = %(event_types)s, state = %(state)s,
        consecutive_failures = %(consecutive_failures)s, disabled_at = %(disabled_at)s, secret = %(secret)s
    WHERE account_id = %(account_id)s AND id = %(id)s
), held AS (
    UPDATE deliveries SET status = 'held', held_at = clock_timestamp(), due_at = NULL
    WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status = 'pending' AND NOT %(is_active)s
), released AS (
    UPDATE deliveries SET status = 'pending', due_at = clock_timestamp(), held_at = NULL
    WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status = 'held' AND %(is_active)s
    RETURNING 1
)
SELECT count(*) AS due FROM released
"""


class PostgresEndpointRepository:
    """Webhook endpoints of an account, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def lock_account(self, account_id: UUID) -> None:
        """Take the account's lock."""
        cursor = await self._connection.execute(_LOCK, {"account_id": account_id})
        if await cursor.fetchone() is None:
            raise NotFound("No account with this id.")

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        """The endpoint registered under a normalised URL."""
        cursor = await self._connection.execute(_FIND_BY_URL, {"account_id": account_id, "url_key": url_key})
        row = await cursor.fetchone()
        return None if row is None else rows.endpoint(row, self._cipher)

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller holds the account's lock and has looked for the URL."""
        await self._connection.execute(
            _ADD,
            self._parameters(endpoint)
            | {
                "url": endpoint.url,
                "url_key": endpoint.url_key,
                "created_by": endpoint.created_by,
                "created_at": endpoint.created_at,
            },
        )

    async def load(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint and lock it against deliveries that record their outcome."""
        cursor = await self._connection.execute(_LOAD, {"account_id": account_id, "id": endpoint_id})
        row = await cursor.fetchone()
        return None if row is None else rows.endpoint(row, self._cipher)

    async def save(self, endpoint: Endpoint) -> int:
        """Write what an update changed; tells how many deliveries became due by it."""
        cursor = await self._connection.execute(_SAVE, self._parameters(endpoint))
        row = await cursor.fetchone()
        return 0 if row is None else int(row["due"])

    def _parameters(self, endpoint: Endpoint) -> rows.Row:
        context = rows.endpoint_context(endpoint.account_id, endpoint.id)
        return {
            "account_id": endpoint.account_id,
            "id": endpoint.id,
            "description": endpoint.description,
            "event_types": [kind.value for kind in endpoint.event_types],
            "state": endpoint.state.value,
            "is_active": endpoint.is_active,
            "consecutive_failures": endpoint.consecutive_failures,
            "disabled_at": endpoint.disabled_at,
            "secret": self._cipher.seal(endpoint.secret.encode(), context),
        }
