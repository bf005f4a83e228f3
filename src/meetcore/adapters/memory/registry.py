"""The operator's records in memory: accounts, keys, hosts."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import Account, ConstraintBroken, MemoryState, Tables, account_of
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money.ledger import open_account
from meetcore.domain.requests.accounts import email_key
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.registry import NewAccount, StoredAccount


class MemoryRegistry:
    """Accounts, keys and hosts, read."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[StoredAccount]:
        every = self._state.committed.accounts.values()
        own = [one for one in every if email is None or email_key(one.card.email) == email_key(email)]
        return sorted(map(stored, own), key=lambda account: account.id, reverse=True)[:limit]

    async def find_account(self, account_id: UUID) -> StoredAccount:
        return stored(account_of(self._state.committed, account_id))

    async def list_keys(self, account_id: UUID | None) -> Sequence[ApiKey]:
        keys = self._state.committed.keys.values()
        matching = [key for key in keys if account_id is None or key.account_id == account_id]
        return sorted(matching, key=lambda key: key.id, reverse=True)

    async def list_hosts(self) -> Sequence[Host]:
        hosts = self._state.committed.hosts.values()
        return sorted(hosts, key=lambda host: (host.capacity, host.provider_user_id))


class MemoryRegistryRepository:
    """Accounts, keys and hosts, changed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add_account(self, account: NewAccount) -> None:
        tables = self._tables
        if account.id in tables.accounts:
            raise ConstraintBroken(f"account {account.id} is open already")
        for known in tables.accounts.values():
            if email_key(known.card.email) == email_key(account.email):
                raise Conflict("An account has this e-mail address already.", known.card.id)
        funds = open_account(account.id, account.low_threshold)
        tables.accounts[account.id] = Account(account, funds)

    async def load_account(self, account_id: UUID) -> StoredAccount:
        return stored(account_of(self._tables, account_id))

    async def suspend_account(self, account_id: UUID, at: datetime) -> StoredAccount:
        tables = self._tables
        account = account_of(tables, account_id)
        tables.accounts[account_id] = evolve(account, suspended_at=account.suspended_at or at)
        return stored(tables.accounts[account_id])

    async def resume_account(self, account_id: UUID) -> StoredAccount:
        tables = self._tables
        tables.accounts[account_id] = evolve(account_of(tables, account_id), suspended_at=None)
        return stored(tables.accounts[account_id])

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        tables = self._tables
        account = account_of(tables, account_id)
        is_low = account.funds.available < credits
        funds = evolve(account.funds, low_threshold=credits, is_low=is_low)
        tables.accounts[account_id] = evolve(account, funds=funds)

    async def set_statements_mailed(self, account_id: UUID, month: date | None) -> None:
        account = account_of(self._tables, account_id)
        self._tables.accounts[account_id] = evolve(account, statements_mailed=month)

    async def find_statements_due(self, month: date, limit: int) -> Sequence[UUID]:
        due = [
            (account.statements_mailed, id_)
            for id_, account in self._tables.accounts.items()
            if account.statements_mailed is not None and account.statements_mailed < month
        ]
        return [id_ for _, id_ in sorted(due)][:limit]

    async def add_key(self, key: ApiKey, key_digest: bytes) -> None:
        tables = self._tables
        account_of(tables, key.account_id)
        if key.id in tables.keys or key_digest in tables.key_of_digest:
            raise ConstraintBroken("the key is kept already")
        tables.keys[key.id] = key
        tables.key_of_digest[key_digest] = key.id

    async def load_key(self, key_id: UUID) -> ApiKey:
        return _key_of(self._tables, key_id)

    async def revoke_key(self, key_id: UUID, at: datetime) -> ApiKey:
        tables = self._tables
        key = _key_of(tables, key_id)
        tables.keys[key_id] = evolve(key, revoked_at=_earlier(key.revoked_at, at))
        return tables.keys[key_id]

    async def save_key_end(self, key: ApiKey) -> None:
        known = _key_of(self._tables, key.id)
        self._tables.keys[key.id] = evolve(
            known,
            expires_at=_earlier(known.expires_at, key.expires_at),
            revoked_at=_earlier(known.revoked_at, key.revoked_at),
        )

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        keys, cap_key_id = self._tables.keys, _key_of(self._tables, key_id).cap_key_id
        for key in [key for key in keys.values() if key.cap_key_id == cap_key_id]:
            keys[key.id] = evolve(key, daily_cap=daily_cap)
        return keys[key_id]

    async def add_host(self, host: Host, at: datetime) -> None:
        tables = self._tables
        for known in tables.hosts.values():
            if known.provider_user_id == host.provider_user_id:
                raise Conflict("This provider user is a host already.", known.id)
        tables.hosts[host.id] = Host(host.id, host.provider_user_id, host.capacity, host.max_concurrent)

    async def load_host(self, host_id: UUID) -> Host:
        host = self._tables.hosts.get(host_id)
        if host is None:
            raise NotFound("No host with this id.")
        return host

    async def disable_host(self, host_id: UUID) -> Host:
        return await self._set_active(host_id, is_active=False)

    async def enable_host(self, host_id: UUID) -> Host:
        return await self._set_active(host_id, is_active=True)

    async def _set_active(self, host_id: UUID, *, is_active: bool) -> Host:
        host = evolve(await self.load_host(host_id), is_active=is_active)
        self._tables.hosts[host_id] = host
        return host


def stored(account: Account) -> StoredAccount:
    """An account as an operator sees it."""
    card, funds = account.card, account.funds
    return StoredAccount(
        card.id, card.user_id, card.email, card.full_name, card.created_at, account.suspended_at,
        funds.balance, funds.held, funds.low_threshold, account.statements_mailed,
    )  # fmt: skip


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _key_of(tables: Tables, key_id: UUID) -> ApiKey:
    key = tables.keys.get(key_id)
    if key is None:
        raise NotFound("No key with this id.")
    return key
