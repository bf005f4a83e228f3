"""The operators' records: accounts, keys, hosts."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

import psycopg

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.meetings.rows import HOST
from meetcore.adapters.postgres.repository import Reads, Repository, load_statements
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.requests import keys, views

API_KEY = Columns(keys.ApiKey, "k", "key_")
ACCOUNT = Columns(views.StoredAccount, "a", "account_")
_NEW_ACCOUNT = Columns(views.NewAccount, "a", "account_")

SQL = load_statements(__file__, ACCOUNT=ACCOUNT, API_KEY=API_KEY, HOST=HOST, NEW_ACCOUNT=_NEW_ACCOUNT)


class PostgresRegistry(Reads):
    """Accounts, keys and hosts, read."""

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[views.StoredAccount]:
        statement = SQL["list_accounts"] if email is None else SQL["list_accounts_of_email"]
        return await self._list(ACCOUNT, statement, email=email, limit=limit)

    async def find_account(self, account_id: UUID) -> views.StoredAccount:
        return await self._get(ACCOUNT, "account", SQL["find_account"], id=account_id)

    async def list_keys(self, account_id: UUID | None) -> Sequence[keys.ApiKey]:
        statement = SQL["list_keys"] if account_id is None else SQL["list_keys_of_account"]
        return await self._list(API_KEY, statement, account_id=account_id)

    async def list_hosts(self) -> Sequence[Host]:
        return await self._list(HOST, SQL["list_hosts"])


class PostgresRegistryRepository(Repository):
    """Accounts, keys and hosts, changed."""

    async def add_account(self, account: views.NewAccount) -> None:
        parameters = _NEW_ACCOUNT.parameters(account) | {"email": account.email}
        await self._one(SQL["take_email"], parameters)
        known = await self._one(SQL["account_of_email"], parameters)
        if known is not None and known["id"] != account.id:
            raise Conflict("An account has this e-mail address already.", known["id"])
        await self._run(SQL["add_account"], parameters)

    async def load_account(self, account_id: UUID) -> views.StoredAccount:
        return await self._get(ACCOUNT, "account", SQL["load_account"], id=account_id)

    async def suspend_account(
        self, account_id: UUID, at: datetime, reason: str | None = None
    ) -> views.StoredAccount:
        return await self._get(ACCOUNT, "account", SQL["suspend"], id=account_id, at=at, reason=reason)

    async def resume_account(self, account_id: UUID) -> views.StoredAccount:
        return await self._get(ACCOUNT, "account", SQL["resume"], id=account_id)

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        if not await self._changed(SQL["set_low"], id=account_id, low=credits):
            raise NotFound("No account with this id.")

    async def set_statements_mailed(self, account_id: UUID, month: date | None) -> None:
        if not await self._changed(SQL["set_statements_mailed"], id=account_id, month=month):
            raise NotFound("No account with this id.")

    async def find_statements_due(self, month: date, limit: int) -> Sequence[UUID]:
        rows = await self._all(SQL["find_statements_due"], month=month, limit=limit)
        return [row["id"] for row in rows]

    async def add_key(self, key: keys.ApiKey, key_digest: bytes) -> None:
        try:
            await self._run(SQL["add_key"], API_KEY.parameters(key), digest=key_digest)
        except psycopg.errors.ForeignKeyViolation as error:
            raise NotFound("No account with this id.") from error

    async def count_working_keys(self, account_id: UUID, now: datetime) -> int:
        row = await self._one(SQL["count_working_keys"], account_id=account_id, now=now)
        assert row is not None
        found: int = row["found"]
        return found

    async def load_key(self, key_id: UUID) -> keys.ApiKey:
        await self._run(SQL["lock_keys_account"], id=key_id)
        return await self._get(API_KEY, "key", SQL["load_key"], id=key_id)

    async def revoke_key(self, key_id: UUID, at: datetime) -> keys.ApiKey:
        return await self._get(API_KEY, "key", SQL["revoke"], id=key_id, at=at)

    async def save_key_end(self, key: keys.ApiKey) -> None:
        await self._run(SQL["save_key_end"], API_KEY.parameters(key))

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> keys.ApiKey:
        return await self._get(API_KEY, "key", SQL["set_cap"], id=key_id, cap=daily_cap)

    async def add_host(self, host: Host, at: datetime) -> None:
        parameters = {
            "id": host.id,
            "user": host.provider_user_id,
            "capacity": host.capacity,
            "max_concurrent": host.max_concurrent,
            "at": at,
        }
        if await self._one(SQL["add_host"], parameters):
            return
        known = await self._one(SQL["host_of_user"], parameters)
        raise Conflict("This provider user is a host already.", known["id"] if known else host.id)

    async def load_host(self, host_id: UUID) -> Host:
        return await self._get(HOST, "host", SQL["load_host"], id=host_id)

    async def set_host_active(self, host_id: UUID, *, is_active: bool) -> Host:
        return await self._get(HOST, "host", SQL["set_host_active"], id=host_id, is_active=is_active)
