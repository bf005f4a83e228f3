"""The operator's records in SQLite: accounts, keys, hosts."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money.ledger import open_account
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.registry import NewAccount, StoredAccount

from . import rows
from .connection import Database

__all__ = ["SqliteRegistry"]

T = TypeVar("T")

_ADD_ACCOUNT = """
INSERT INTO accounts (id, user_id, email, full_name, created_at, balance, held, low_threshold, is_low,
    entries, last_hash, last_at)
VALUES (:id, :user_id, :email, :full_name, :created_at, :balance, :held, :low_threshold, :is_low,
    :entries, :last_hash, :last_at)
"""

# Addresses are ASCII, and so is what lower() knows here.
_ACCOUNT_OF_EMAIL = "SELECT id FROM accounts WHERE lower(email) = lower(:email)"

# Ids rise with time, so that the newest account has the greatest.
_LIST_ACCOUNTS = """
SELECT * FROM accounts WHERE :email IS NULL OR lower(email) = lower(:email) ORDER BY id DESC LIMIT :limit
"""

_FIND_ACCOUNT = "SELECT * FROM accounts WHERE id = :id"

# Suspends an account; a second call keeps the first time.
_SUSPEND = "UPDATE accounts SET suspended_at = coalesce(suspended_at, :at) WHERE id = :id RETURNING *"

_RESUME = "UPDATE accounts SET suspended_at = NULL WHERE id = :id RETURNING *"

# Changes the threshold. The low-credit event of an account below the new one counts as sent, else as not.
_SET_LOW = """
UPDATE accounts SET low_threshold = :credits, is_low = (balance - held < :credits) WHERE id = :account_id
"""

# Keeps a key of an account that exists.
_ADD_KEY = """
INSERT INTO api_keys (id, account_id, digest, scopes, daily_cap, created_at, expires_at, revoked_at)
SELECT :id, id, :digest, :scopes, :daily_cap, :created_at, :expires_at, :revoked_at
FROM accounts WHERE id = :account_id
"""

# Ids rise with time, so that the newest key has the greatest.
_LIST_KEYS = """
SELECT * FROM api_keys WHERE :account_id IS NULL OR account_id = :account_id ORDER BY id DESC
"""

# Revokes a key; a second call never puts it off.
_REVOKE = """
UPDATE api_keys SET revoked_at = min(coalesce(revoked_at, :at), :at) WHERE id = :id RETURNING *
"""

_SET_CAP = "UPDATE api_keys SET daily_cap = :daily_cap WHERE id = :id RETURNING *"

_ADD_HOST = """
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, uses, is_active, created_at)
VALUES (:id, :provider_user_id, :capacity, :max_concurrent, 0, 1, :at)
"""

_HOST_OF_USER = "SELECT id FROM hosts WHERE provider_user_id = :provider_user_id"

_LIST_HOSTS = "SELECT * FROM hosts ORDER BY capacity, provider_user_id"

_SET_HOST_ACTIVE = "UPDATE hosts SET is_active = :is_active WHERE id = :id RETURNING *"

_NAMES = {Host: "host", ApiKey: "key", StoredAccount: "account"}


class SqliteRegistry:
    """Accounts, keys and hosts; each change is a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_account(self, account: NewAccount) -> None:
        """Open an active account with empty funds."""
        funds = rows.fields_of(open_account(account.id, account.low_threshold))
        async with self._database.transaction() as connection:
            known = await connection.fetch_one(_ACCOUNT_OF_EMAIL, {"email": account.email})
            if known is not None and UUID(known["id"]) != account.id:
                raise Conflict("An account has this e-mail address already.", UUID(known["id"]))
            await connection.change(_ADD_ACCOUNT, funds | rows.fields_of(account))

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[StoredAccount]:
        """The newest accounts, so many at most; with this e-mail address where given."""
        found = await self._database.reader.fetch(_LIST_ACCOUNTS, {"email": email, "limit": limit})
        return [rows.record(StoredAccount, row) for row in found]

    async def find_account(self, account_id: UUID) -> StoredAccount:
        """One account."""
        row = await self._database.reader.fetch_one(_FIND_ACCOUNT, {"id": account_id})
        if row is None:
            raise NotFound("No account with this id.")
        return rows.record(StoredAccount, row)

    async def suspend_account(self, account_id: UUID, at: datetime) -> StoredAccount:
        """Suspend an account; one that is suspended keeps its time."""
        return await self._change(StoredAccount, _SUSPEND, {"id": account_id, "at": at})

    async def resume_account(self, account_id: UUID) -> StoredAccount:
        """Make an account active."""
        return await self._change(StoredAccount, _RESUME, {"id": account_id})

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        """Change the threshold of `credit.low`; below the new one, the event counts as sent."""
        async with self._database.transaction() as connection:
            if not await connection.change(_SET_LOW, {"account_id": account_id, "credits": credits}):
                raise NotFound("No account with this id.")

    async def add_key(self, key: ApiKey, key_digest: bytes) -> None:
        """Keep a key by its digest."""
        async with self._database.transaction() as connection:
            if not await connection.change(_ADD_KEY, rows.fields_of(key) | {"digest": key_digest}):
                raise NotFound("No account with this id.")

    async def list_keys(self, account_id: UUID | None) -> Sequence[ApiKey]:
        """Every key, newest first; of one account where given."""
        found = await self._database.reader.fetch(_LIST_KEYS, {"account_id": account_id})
        return [rows.record(ApiKey, row) for row in found]

    async def revoke_key(self, key_id: UUID, at: datetime) -> ApiKey:
        """Revoke a key from `at` on; one that is revoked keeps its time."""
        return await self._change(ApiKey, _REVOKE, {"id": key_id, "at": at})

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        """Change a key's cap in credits a day; `None` removes it."""
        return await self._change(ApiKey, _SET_CAP, {"id": key_id, "daily_cap": daily_cap})

    async def add_host(self, host: Host, at: datetime) -> None:
        """Add a licensed host, active and unused."""
        wanted = rows.fields_of(host) | {"at": at}
        async with self._database.transaction() as connection:
            known = await connection.fetch_one(_HOST_OF_USER, wanted)
            if known is not None:
                raise Conflict("This provider user is a host already.", UUID(known["id"]))
            await connection.change(_ADD_HOST, wanted)

    async def list_hosts(self) -> Sequence[Host]:
        """Every host, smallest first."""
        return [rows.record(Host, row) for row in await self._database.reader.fetch(_LIST_HOSTS, {})]

    async def disable_host(self, host_id: UUID) -> Host:
        """Give a host no new meetings; those it has stay."""
        return await self._change(Host, _SET_HOST_ACTIVE, {"id": host_id, "is_active": False})

    async def enable_host(self, host_id: UUID) -> Host:
        """Let a host have new meetings again."""
        return await self._change(Host, _SET_HOST_ACTIVE, {"id": host_id, "is_active": True})

    async def _change(self, kind: type[T], statement: str, parameters: rows.Row) -> T:
        async with self._database.transaction() as connection:
            row = await connection.fetch_one(statement, parameters)
            if row is None:
                raise NotFound(f"No {_NAMES[kind]} with this id.")
            return rows.record(kind, row)
