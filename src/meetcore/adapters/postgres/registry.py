"""The operator's records in PostgreSQL: accounts, keys, hosts. One statement each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.advisory_locks import ACCOUNT_EMAIL
from meetcore.adapters.postgres.callers import KEY_COLUMNS
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.adapters.postgres.rows import HOST_COLUMNS
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.registry import NewAccount, StoredAccount

__all__ = ["PostgresRegistry"]

# Lets one transaction at a time open an account of an e-mail address. No unique index: accounts of releases that did
# not look may share one.
_TAKE_EMAIL = f"SELECT pg_advisory_xact_lock({ACCOUNT_EMAIL})"

# The account of an e-mail address.
_ACCOUNT_OF_EMAIL = "SELECT id FROM accounts WHERE lower(email) = lower(%(email)s) ORDER BY id LIMIT 1"

# Opens an account with empty funds; the low-credit event of an empty account counts as sent.
_ADD_ACCOUNT = """
INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
VALUES (%(id)s, %(user_id)s, %(email)s, %(full_name)s, %(created_at)s, %(low)s, %(low)s > 0)
"""

_ACCOUNT_COLUMNS = "id, user_id, email, full_name, created_at, suspended_at, balance, held, low_threshold"

# Ids rise with time, so that the newest account has the greatest.
_LIST_ACCOUNTS = f"SELECT {_ACCOUNT_COLUMNS} FROM accounts ORDER BY id DESC LIMIT %(limit)s"

# The newest accounts of an e-mail address.
_LIST_ACCOUNTS_OF_EMAIL = f"""
SELECT {_ACCOUNT_COLUMNS} FROM accounts WHERE lower(email) = lower(%(email)s) ORDER BY id DESC LIMIT %(limit)s
"""

# One account.
_FIND_ACCOUNT = f"SELECT {_ACCOUNT_COLUMNS} FROM accounts WHERE id = %(id)s"

# Suspends an account; a second call keeps the first time.
_SUSPEND = f"""
UPDATE accounts SET suspended_at = COALESCE(suspended_at, %(at)s), version = version + 1 WHERE id = %(id)s
RETURNING {_ACCOUNT_COLUMNS}
"""

# Makes an account active.
_RESUME = f"""
UPDATE accounts SET suspended_at = NULL, version = version + 1 WHERE id = %(id)s RETURNING {_ACCOUNT_COLUMNS}
"""

# Changes the threshold; the low-credit event of an account below the new one counts as sent, else as not.
_SET_LOW = """
UPDATE accounts SET low_threshold = %(low)s, is_low = balance - held < %(low)s, version = version + 1
WHERE id = %(id)s RETURNING id
"""

# Adds a key by its digest.
_ADD_KEY = """
INSERT INTO api_keys (id, account_id, digest, scopes, daily_cap, created_at, expires_at, revoked_at)
VALUES (%(id)s, %(account_id)s, %(digest)s, %(scopes)s, %(daily_cap)s, %(created_at)s, %(expires_at)s,
    %(revoked_at)s)
"""

# Every key, the newest first.
_LIST_KEYS = f"SELECT {KEY_COLUMNS} FROM api_keys k ORDER BY k.id DESC"

# The keys of one account, the newest first.
_LIST_KEYS_OF_ACCOUNT = f"""
SELECT {KEY_COLUMNS} FROM api_keys k WHERE k.account_id = %(account_id)s ORDER BY k.id DESC
"""

# Revokes a key; a second call keeps the first time.
_REVOKE = f"""
UPDATE api_keys k SET revoked_at = LEAST(k.revoked_at, %(at)s) WHERE k.id = %(id)s RETURNING {KEY_COLUMNS}
"""

# Changes the daily cap of a key.
_SET_CAP = f"""
UPDATE api_keys k SET daily_cap = %(cap)s WHERE k.id = %(id)s RETURNING {KEY_COLUMNS}
"""

# Adds a host, unless its user is a host already.
_ADD_HOST = """
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at)
VALUES (%(id)s, %(user)s, %(capacity)s, %(max_concurrent)s, %(at)s) ON CONFLICT DO NOTHING RETURNING id
"""

# The host of a provider's user.
_HOST_OF_USER = "SELECT id FROM hosts WHERE provider_user_id = %(user)s"

# Every host, the smallest first.
_LIST_HOSTS = f"SELECT {HOST_COLUMNS} FROM hosts h ORDER BY h.capacity, h.provider_user_id"

# Gives a host meetings, or no new ones.
_SET_HOST_ACTIVE = f"""
UPDATE hosts h SET is_active = %(is_active)s WHERE h.id = %(id)s RETURNING {HOST_COLUMNS}
"""


class PostgresRegistry:
    """Accounts, keys and hosts."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add_account(self, account: NewAccount) -> None:
        """Open an active account with empty funds."""
        parameters = {
            "id": account.id,
            "user_id": account.user_id,
            "email": account.email,
            "full_name": account.full_name,
            "created_at": account.created_at,
            "low": account.low_threshold,
        }
        with translated():
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(_TAKE_EMAIL, parameters)
                known = await (await connection.execute(_ACCOUNT_OF_EMAIL, parameters)).fetchone()
                if known is not None and known["id"] != account.id:
                    raise Conflict("An account has this e-mail address already.", known["id"])
                await connection.execute(_ADD_ACCOUNT, parameters)

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[StoredAccount]:
        """The newest accounts, so many at most; with this e-mail address where given."""
        statement = _LIST_ACCOUNTS if email is None else _LIST_ACCOUNTS_OF_EMAIL
        return [_account(row) for row in await self._all(statement, {"email": email, "limit": limit})]

    async def find_account(self, account_id: UUID) -> StoredAccount:
        """One account."""
        return _one_account(await self._all(_FIND_ACCOUNT, {"id": account_id}))

    async def suspend_account(self, account_id: UUID, at: datetime) -> StoredAccount:
        """Suspend an account; one that is suspended keeps its time."""
        return _one_account(await self._all(_SUSPEND, {"id": account_id, "at": at}))

    async def resume_account(self, account_id: UUID) -> StoredAccount:
        """Make an account active."""
        return _one_account(await self._all(_RESUME, {"id": account_id}))

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        """Change the threshold of `credit.low`."""
        if not await self._all(_SET_LOW, {"id": account_id, "low": credits}):
            raise NotFound("No account with this id.")

    async def add_key(self, key: ApiKey, key_digest: bytes) -> None:
        """Keep a key by its digest."""
        parameters = {
            "id": key.id,
            "account_id": key.account_id,
            "digest": key_digest,
            "scopes": [scope.value for scope in key.scopes],
            "daily_cap": key.daily_cap,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
        }
        try:
            await self._all(_ADD_KEY, parameters)
        except psycopg.errors.ForeignKeyViolation as error:
            raise NotFound("No account with this id.") from error

    async def list_keys(self, account_id: UUID | None) -> Sequence[ApiKey]:
        """Every key, newest first; of one account where given."""
        statement = _LIST_KEYS if account_id is None else _LIST_KEYS_OF_ACCOUNT
        return [rows.key(row) for row in await self._all(statement, {"account_id": account_id})]

    async def revoke_key(self, key_id: UUID, at: datetime) -> ApiKey:
        """Revoke a key from `at` on; one that is revoked keeps its time."""
        return self._key(await self._all(_REVOKE, {"id": key_id, "at": at}))

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        """Change a key's cap in credits a day; `None` removes it."""
        return self._key(await self._all(_SET_CAP, {"id": key_id, "cap": daily_cap}))

    async def add_host(self, host: Host, at: datetime) -> None:
        """Add a licensed host."""
        parameters = {
            "id": host.id,
            "user": host.provider_user_id,
            "capacity": host.capacity,
            "max_concurrent": host.max_concurrent,
            "at": at,
        }
        if await self._all(_ADD_HOST, parameters):
            return
        known = await self._all(_HOST_OF_USER, parameters)
        raise Conflict("This provider user is a host already.", known[0]["id"] if known else host.id)

    async def list_hosts(self) -> Sequence[Host]:
        """Every host, smallest first."""
        return [rows.host(row) for row in await self._all(_LIST_HOSTS, {})]

    async def disable_host(self, host_id: UUID) -> Host:
        """Give a host no new meetings; those it has stay."""
        return await self._set_active(host_id, is_active=False)

    async def enable_host(self, host_id: UUID) -> Host:
        """Let a host have new meetings again."""
        return await self._set_active(host_id, is_active=True)

    async def _set_active(self, host_id: UUID, *, is_active: bool) -> Host:
        found = await self._all(_SET_HOST_ACTIVE, {"id": host_id, "is_active": is_active})
        if not found:
            raise NotFound("No host with this id.")
        return rows.host(found[0])

    @staticmethod
    def _key(found: list[rows.Row]) -> ApiKey:
        if not found:
            raise NotFound("No key with this id.")
        return rows.key(found[0])

    async def _all(self, query: str, parameters: dict[str, Any]) -> list[rows.Row]:
        with translated():
            async with self._pool.connection() as connection:
                cursor = await connection.execute(query, parameters)
                return await cursor.fetchall() if cursor.description is not None else []


def _account(row: rows.Row) -> StoredAccount:
    return StoredAccount(**row)


def _one_account(found: list[rows.Row]) -> StoredAccount:
    if not found:
        raise NotFound("No account with this id.")
    return _account(found[0])
