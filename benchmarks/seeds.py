"""The seed of the benchmarks' databases: accounts with plenty of credits, a key each, and free hosts.

Both sides get the same. On the floor's side ids and digests follow from the account's number, so that
pgbench can compose them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import typed_settings
from attrs import frozen

from meetcore.adapters.settings import Settings
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import open_application
from meetcore.composition.ports import Part
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.ports.registry import NewAccount

__all__ = ["ACCOUNTS", "ID_LEAD", "SeededAccounts", "account_number", "furnish", "furnish_numbered", "wired"]

ACCOUNTS = 64
CREDITS = 10**12
HOSTS = ((100, 32), (300, 16), (1000, 16))
SCOPES = [Scope.MEETINGS_WRITE, Scope.MEETINGS_READ, Scope.CREDITS_READ]

ID_LEAD = "0192a3b4c5d67e8f"
"""The first half of every numbered id; the second half is sixteen decimal digits."""
DIGEST_LEAD = "a7" * 24
"""The first 24 bytes of every numbered digest; the rest is as in the id."""
_FIRST = 9_000_000_000_000_000


@frozen
class SeededAccounts:
    """The keys of a furnished database, and one account for the bare route."""

    keys: list[str]
    key_ids: set[UUID]
    account_id: UUID


def account_number(account: int) -> int:
    """The second half of the id of account 1, 2, …"""
    return _FIRST + account


@asynccontextmanager
async def wired(database_url: str, redis_url: str, secrets_key: str) -> AsyncIterator[Application]:
    """Our own adapters on a database, in this process."""
    secret = typed_settings.SecretStr
    settings = Settings(
        database_url=secret(database_url), rate_store_url=secret(redis_url), broker_url=secret(redis_url),
        secrets_key=secret(secrets_key),
    )  # fmt: skip
    async with open_application(settings, parts=[Part.API]) as application:
        yield application


async def furnish(application: Application) -> SeededAccounts:
    """Accounts as an operator makes them."""
    await _add_hosts(application)
    keys, key_ids, account_id = [], set(), UUID(int=0)
    for number in range(ACCOUNTS):
        account_id = (
            await application.administration.create_account(f"bench{number}@example.com", "Bench", CREDITS)
        ).id
        minted = await application.administration.create_key(account_id, SCOPES)
        keys.append(minted.text)
        key_ids.add(minted.key.id)
    return SeededAccounts(keys, key_ids, account_id)


async def furnish_numbered(application: Application) -> UUID:
    """The same with ids that pgbench can compose: an account, its user and its key share one.

    Returns:
        The first account.
    """
    await _add_hosts(application)
    now = application.runtime.now()
    for number in range(1, ACCOUNTS + 1):
        digits = account_number(number)
        id_ = UUID(f"{ID_LEAD}{digits}")
        account = NewAccount(id_, id_, f"bench{number}@example.com", "Bench", 100, now)
        async with application.ports.store.begin() as tx:
            await tx.registry.add_account(account)
            await tx.registry.add_key(
                ApiKey(id_, id_, tuple(SCOPES), None, now), bytes.fromhex(f"{DIGEST_LEAD}{digits}")
            )
        await application.administration.top_up(id_, CREDITS)
    return UUID(f"{ID_LEAD}{account_number(1)}")


async def _add_hosts(application: Application) -> None:
    for capacity, count in HOSTS:
        for number in range(count):
            await application.administration.hosts.add(f"host-{capacity}-{number}", capacity)
