"""A database and a Redis for a benchmark, with accounts, and the service on them."""

import asyncio
import base64
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import psycopg
from attrs import frozen

from benchmarks.processes import Program, running
from meetcore.adapters.embedded_postgres import EmbeddedPostgres
from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.settings import SecretStr, Settings
from meetcore.composition.application import Application, Part
from meetcore.composition.infrastructure import open_application
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.endpoints import register
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.signature import new_secret
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.webhooks.endpoints import add_endpoint
from tests.support import servers

__all__ = ["ACCOUNTS", "SERVER_VERSIONS", "Account", "Endpoint", "Place", "add_endpoints", "place", "seed"]

ACCOUNTS = 64
CREDITS = 10**12
_QUOTAS = ("quota_read", "quota_credit", "quota_write", "quota_page")
SERVER_VERSIONS: set[str] = set()
"""Of PostgreSQL, as the databases of this process had them."""

HOSTS = ((100, 32), (300, 16), (1000, 16))


@frozen
class Account:
    """An account with a key that may do everything."""

    id: UUID
    key_id: UUID
    key: str


@frozen
class Place:
    """A migrated database with the settings of the processes that work on it."""

    database_url: str
    given: Mapping[str, object]

    def settings(self, **more: Any) -> Settings:
        """The settings for the application in this process."""
        types = {each.name: each.type for each in attrs.fields(Settings)}
        values: dict[str, Any] = {
            name: SecretStr(str(value)) if types[name] is SecretStr else value
            for name, value in {**self.given, **more}.items()
        }
        return Settings(**values)

    @asynccontextmanager
    async def application(self, *parts: Part, **more: Any) -> AsyncIterator[Application]:
        """The service's application in this process."""
        async with open_application(self.settings(**more), parts=parts) as application:
            yield application

    def serve(self) -> AbstractContextManager[Program]:
        """`meetcore serve` as in production: counters and notifications in Redis, no worker inside."""
        return running("meetcore.cli.main", "serve", settings={**self.given, "drain_s": 0})

    def execute(self, *statements: str) -> None:
        """Execute statements, each by itself."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())


@contextmanager
def place() -> Iterator[Place]:
    """A new database with the schema, on the server that the environment names, else on one of our own."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meetcore-bench-")))
        directory.chmod(0o711)
        server = os.environ.get("MEETCORE_TEST_DATABASE_URL")
        server = server or stack.enter_context(EmbeddedPostgres(directory / "data"))
        url = stack.enter_context(_database(server))
        migrate(url)
        redis = stack.enter_context(servers.own_redis(directory))
        key = base64.urlsafe_b64encode(os.urandom(32)).decode()
        given: dict[str, object] = {
            "database_url": url, "rate_store_url": redis, "broker_url": redis, "secrets_key": key,
            "webhook_allowed_networks": "127.0.0.0/8",
        }  # fmt: skip
        yield Place(url, given | dict.fromkeys(_QUOTAS, 10**9))


@contextmanager
def _database(server: str) -> Iterator[str]:
    """A database whose commits wait for the disk, as in production."""
    name = f"meetcore_bench_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        SERVER_VERSIONS.add(str(connection.info.parameter_status("server_version")).split()[0])
    try:
        yield servers.with_path(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def seed(where: Place, accounts: int = ACCOUNTS) -> list[Account]:
    """Open accounts with plenty of credits and a key each, and add free hosts."""
    return asyncio.run(_seed(where, accounts))


async def _seed(where: Place, accounts: int) -> list[Account]:
    made = []
    async with where.application(Part.API) as application:
        administration = application.administration
        for capacity, count in HOSTS:
            for number in range(count):
                await administration.hosts.add(f"host-{capacity}-{number}", capacity)
        for number in range(accounts):
            account = await administration.create_account(f"bench{number}@example.com", "Bench", CREDITS)
            minted = await administration.keys.create(account.id, tuple(Scope))
            made.append(Account(account.id, minted.key.id, minted.text))
    return made


@frozen
class Endpoint:
    """An active endpoint of an account."""

    account_id: UUID
    id: UUID


async def add_endpoints(
    application: Application, accounts: Sequence[Account], paths: Sequence[str], hosts: Sequence[str]
) -> list[Endpoint]:
    """Register an endpoint for each path, as many for each account, spread over some hosts."""
    made, now = [], application.runtime.now()
    for number, path in enumerate(paths):
        account = accounts[number * len(accounts) // len(paths)]
        id_ = application.runtime.new_id(now)
        endpoint = register(
            id=id_, account_id=account.id,
            url=parse_webhook_url(f"https://{hosts[number % len(hosts)]}{path}?{id_}"),
            description=None, event_types=(EventKind.MEETING_CREATED,), created_by="bench", created_at=now,
            secret=new_secret(os.urandom(32)),
        )  # fmt: skip
        async with application.ports.store.begin() as tx:
            await add_endpoint(tx, endpoint, len(paths))
        made.append(Endpoint(account.id, id_))
    return made
