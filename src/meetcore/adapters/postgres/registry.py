"""The operator's records in PostgreSQL: accounts, keys, hosts."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

import psycopg

from meetcore.adapters.postgres.advisory_locks import ACCOUNT_EMAIL
from meetcore.adapters.postgres.callers import API_KEY
from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.adapters.postgres.hosts.free import HOST
from meetcore.adapters.postgres.repository import Reads, Repository
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.registry import NewAccount, StoredAccount

ACCOUNT = Columns(StoredAccount, "a", "account_")
_NEW_ACCOUNT = Columns(NewAccount, "a", "account_")

# Lets one transaction at a time open an account of an e-mail address. No unique index: accounts of releases that did
# not look may share one.
_TAKE_EMAIL = f"SELECT pg_advisory_xact_lock({ACCOUNT_EMAIL})"

# The account of an e-mail address.
_ACCOUNT_OF_EMAIL = "SELECT id FROM accounts WHERE lower(email) = lower(%(email)s) ORDER BY id LIMIT 1"

# Opens an account with empty funds; the low-credit event of an empty account counts as sent.
_ADD_ACCOUNT = f"""
INSERT INTO accounts ({_NEW_ACCOUNT.names}, is_low)
VALUES ({_NEW_ACCOUNT.values}, %(account_low_threshold)s > 0)
"""

# Ids rise with time, so that the newest account has the greatest.
_LIST_ACCOUNTS = f"SELECT {ACCOUNT.select} FROM accounts a ORDER BY a.id DESC LIMIT %(limit)s"

# The newest accounts of an e-mail address.
_LIST_ACCOUNTS_OF_EMAIL = f"""
SELECT {ACCOUNT.select} FROM accounts a WHERE lower(a.email) = lower(%(email)s) ORDER BY a.id DESC LIMIT %(limit)s
"""

# One account.
_FIND_ACCOUNT = f"SELECT {ACCOUNT.select} FROM accounts a WHERE a.id = %(id)s"

# One account under its lock.
_LOAD_ACCOUNT = f"SELECT {ACCOUNT.select} FROM accounts a WHERE a.id = %(id)s FOR NO KEY UPDATE"

# Notes which statement an account was mailed about last.
_SET_STATEMENTS_MAILED = (
    "UPDATE accounts SET statements_mailed = %(month)s, version = version + 1 WHERE id = %(id)s"
)

# Accounts that are to be mailed about a statement.
_FIND_STATEMENTS_DUE = """
SELECT id FROM accounts WHERE statements_mailed < %(month)s ORDER BY statements_mailed LIMIT %(limit)s
"""

# Suspends an account; a second call keeps the first time.
_SUSPEND = f"""
UPDATE accounts a SET suspended_at = COALESCE(a.suspended_at, %(at)s), version = a.version + 1 WHERE a.id = %(id)s
RETURNING {ACCOUNT.select}
"""

# Makes an account active.
_RESUME = f"""
UPDATE accounts a SET suspended_at = NULL, version = a.version + 1 WHERE a.id = %(id)s RETURNING {ACCOUNT.select}
"""

# Changes the threshold; the low-credit event of an account below the new one counts as sent, else as not.
_SET_LOW = """
UPDATE accounts SET low_threshold = %(low)s, is_low = balance - held < %(low)s, version = version + 1
WHERE id = %(id)s RETURNING id
"""

# Adds a key by its digest.
_ADD_KEY = f"""
INSERT INTO api_keys ({API_KEY.names}, digest) VALUES ({API_KEY.values}, %(digest)s)
"""

# Every key, the newest first.
_LIST_KEYS = f"SELECT {API_KEY.select} FROM api_keys k ORDER BY k.id DESC"

# The keys of one account, the newest first.
_LIST_KEYS_OF_ACCOUNT = f"""
SELECT {API_KEY.select} FROM api_keys k WHERE k.account_id = %(account_id)s ORDER BY k.id DESC
"""

# Takes the lock of a key's account and raises the version, so that waiting readers read again.
_LOCK_KEYS_ACCOUNT = """
UPDATE accounts a SET version = a.version + 1 FROM api_keys k WHERE k.id = %(id)s AND a.id = k.account_id
"""

# One key. Its account is locked by now.
_LOAD_KEY = f"SELECT {API_KEY.select} FROM api_keys k WHERE k.id = %(id)s"

# Ends a key, never later than before.
_SAVE_KEY_END = """
UPDATE api_keys SET expires_at = LEAST(expires_at, %(key_expires_at)s), revoked_at = LEAST(revoked_at, %(key_revoked_at)s)
WHERE id = %(key_id)s
"""

# Revokes a key; a second call keeps the first time.
_REVOKE = f"""
UPDATE api_keys k SET revoked_at = LEAST(k.revoked_at, %(at)s) WHERE k.id = %(id)s RETURNING {API_KEY.select}
"""

# Changes the daily cap of a key and of those that share it. They are locked in one order, as last uses are written.
_SET_CAP = f"""
WITH shared AS MATERIALIZED (
    SELECT k.id FROM api_keys one JOIN api_keys k ON k.account_id = one.account_id
        AND COALESCE(k.first_key_id, k.id) = COALESCE(one.first_key_id, one.id)
    WHERE one.id = %(id)s ORDER BY k.id FOR NO KEY UPDATE OF k
), changed AS (
    UPDATE api_keys k SET daily_cap = %(cap)s FROM shared WHERE k.id = shared.id RETURNING k.*
)
SELECT {API_KEY.select} FROM changed k WHERE k.id = %(id)s
"""

# Adds a host, unless its user is a host already.
_ADD_HOST = """
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at)
VALUES (%(id)s, %(user)s, %(capacity)s, %(max_concurrent)s, %(at)s) ON CONFLICT DO NOTHING RETURNING id
"""

# The host of a provider's user.
_HOST_OF_USER = "SELECT id FROM hosts WHERE provider_user_id = %(user)s"

# Every host, the smallest first.
_LIST_HOSTS = f"SELECT {HOST.select} FROM hosts h ORDER BY h.capacity, h.provider_user_id"

# One host, locked.
_LOAD_HOST = f"SELECT {HOST.select} FROM hosts h WHERE h.id = %(id)s FOR NO KEY UPDATE"

# Gives a host meetings, or no new ones.
_SET_HOST_ACTIVE = f"""
UPDATE hosts h SET is_active = %(is_active)s WHERE h.id = %(id)s RETURNING {HOST.select}
"""


class PostgresRegistry(Reads):
    """Accounts, keys and hosts, read."""

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[StoredAccount]:
        statement = _LIST_ACCOUNTS if email is None else _LIST_ACCOUNTS_OF_EMAIL
        return [ACCOUNT.read(row) for row in await self._all(statement, {"email": email, "limit": limit})]

    async def find_account(self, account_id: UUID) -> StoredAccount:
        return _account(await self._one(_FIND_ACCOUNT, {"id": account_id}))

    async def list_keys(self, account_id: UUID | None) -> Sequence[ApiKey]:
        statement = _LIST_KEYS if account_id is None else _LIST_KEYS_OF_ACCOUNT
        return [API_KEY.read(row) for row in await self._all(statement, {"account_id": account_id})]

    async def list_hosts(self) -> Sequence[Host]:
        return [HOST.read(row) for row in await self._all(_LIST_HOSTS, {})]


class PostgresRegistryRepository(Repository):
    """Accounts, keys and hosts, changed."""

    async def add_account(self, account: NewAccount) -> None:
        parameters = _NEW_ACCOUNT.parameters(account) | {"email": account.email}
        await self._one(_TAKE_EMAIL, parameters)
        known = await self._one(_ACCOUNT_OF_EMAIL, parameters)
        if known is not None and known["id"] != account.id:
            raise Conflict("An account has this e-mail address already.", known["id"])
        await self._connection.execute(_ADD_ACCOUNT, parameters)

    async def load_account(self, account_id: UUID) -> StoredAccount:
        return _account(await self._one(_LOAD_ACCOUNT, {"id": account_id}))

    async def suspend_account(self, account_id: UUID, at: datetime) -> StoredAccount:
        return _account(await self._one(_SUSPEND, {"id": account_id, "at": at}))

    async def resume_account(self, account_id: UUID) -> StoredAccount:
        return _account(await self._one(_RESUME, {"id": account_id}))

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        if not await self._changed(_SET_LOW, {"id": account_id, "low": credits}):
            raise NotFound("No account with this id.")

    async def set_statements_mailed(self, account_id: UUID, month: date | None) -> None:
        if not await self._changed(_SET_STATEMENTS_MAILED, {"id": account_id, "month": month}):
            raise NotFound("No account with this id.")

    async def find_statements_due(self, month: date, limit: int) -> Sequence[UUID]:
        rows = await self._all(_FIND_STATEMENTS_DUE, {"month": month, "limit": limit})
        return [row["id"] for row in rows]

    async def add_key(self, key: ApiKey, key_digest: bytes) -> None:
        try:
            await self._connection.execute(_ADD_KEY, API_KEY.parameters(key) | {"digest": key_digest})
        except psycopg.errors.ForeignKeyViolation as error:
            raise NotFound("No account with this id.") from error

    async def load_key(self, key_id: UUID) -> ApiKey:
        await self._connection.execute(_LOCK_KEYS_ACCOUNT, {"id": key_id})
        return _key(await self._one(_LOAD_KEY, {"id": key_id}))

    async def revoke_key(self, key_id: UUID, at: datetime) -> ApiKey:
        return _key(await self._one(_REVOKE, {"id": key_id, "at": at}))

    async def save_key_end(self, key: ApiKey) -> None:
        await self._connection.execute(_SAVE_KEY_END, API_KEY.parameters(key))

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        return _key(await self._one(_SET_CAP, {"id": key_id, "cap": daily_cap}))

    async def add_host(self, host: Host, at: datetime) -> None:
        parameters = {
            "id": host.id,
            "user": host.provider_user_id,
            "capacity": host.capacity,
            "max_concurrent": host.max_concurrent,
            "at": at,
        }
        if await self._one(_ADD_HOST, parameters):
            return
        known = await self._one(_HOST_OF_USER, parameters)
        raise Conflict("This provider user is a host already.", known["id"] if known else host.id)

    async def load_host(self, host_id: UUID) -> Host:
        return _host(await self._one(_LOAD_HOST, {"id": host_id}))

    async def disable_host(self, host_id: UUID) -> Host:
        return _host(await self._one(_SET_HOST_ACTIVE, {"id": host_id, "is_active": False}))

    async def enable_host(self, host_id: UUID) -> Host:
        return _host(await self._one(_SET_HOST_ACTIVE, {"id": host_id, "is_active": True}))


def _account(row: Row | None) -> StoredAccount:
    if row is None:
        raise NotFound("No account with this id.")
    return ACCOUNT.read(row)


def _key(row: Row | None) -> ApiKey:
    if row is None:
        raise NotFound("No key with this id.")
    return API_KEY.read(row)


def _host(row: Row | None) -> Host:
    if row is None:
        raise NotFound("No host with this id.")
    return HOST.read(row)
