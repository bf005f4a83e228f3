"""Recording of the driver: the statements that one `POST /meetings` sends, with their parameters.

Taken from the running service and not from its source, so that the floor follows its changes.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
from attrs import frozen

from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.postgres.connection import Connection
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.composition.application import Application
from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.requests.keys import Scope, digest
from meetcore.ports.video_provider import ProviderOrder

__all__ = ["Creation", "Statement", "record_creation"]


@frozen
class Statement:
    """A statement as sent, and the names of the columns returned."""

    text: str
    parameters: Mapping[str, Any]
    columns: tuple[str, ...] = ()


@frozen
class Creation:
    """One creation: its account, its key, and its statements."""

    account_id: UUID
    key_id: UUID
    digest: bytes
    idempotency_key: UUID
    statements: list[Statement]


async def record_creation(application: Application, database_url: str, account_id: UUID) -> Creation:
    """Create one meeting through the API app, in this process, and record its statements.

    It uses a new key, which is kept. The account changes after it was read and during the call to the
    provider: both ways of reserving and of finishing are recorded, the short one and the one after it.

    Raises:
        RuntimeError: the meeting was not made.
    """
    runtime, base_url = application.runtime, application.policy.base_url
    start_at = datetime.now(UTC) + timedelta(days=100)
    wanted = {
        "title": "Weekly planning", "date": f"{start_at:%Y-%m-%d}", "start_time": "09:00",
        "pricing_tier_id": "standard-100", "mic_off": True,
    }  # fmt: skip
    minted = await application.administration.create_key(account_id, [Scope.MEETINGS_WRITE])
    idempotency_key = uuid4()
    headers = {"authorization": f"Bearer {minted.text}", "idempotency-key": str(idempotency_key)}
    app = ApiApp(application.api, application.admit, runtime, base_url, lambda _: b"")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url) as client:
        with _disturbed(database_url, account_id), _listening(database_url, account_id) as statements:
            answer = await client.post("/api/v1/meetings", json=wanted, headers=headers)
    if answer.status_code != 201:
        raise RuntimeError(answer.text)
    return Creation(account_id, minted.key.id, digest(minted.text), idempotency_key, statements)


@contextmanager
def _disturbed(database_url: str, account_id: UUID) -> Iterator[None]:
    create = SandboxProvider.create

    async def create_meanwhile(self: SandboxProvider, order: ProviderOrder) -> Provisioned:
        _change(database_url, account_id)
        return await create(self, order)

    SandboxProvider.create = create_meanwhile  # type: ignore[method-assign]
    try:
        yield
    finally:
        SandboxProvider.create = create  # type: ignore[method-assign]


VERSIONS = frozenset({"version", "account_version"})
"""The columns in which statements read the version of the account."""


def _change(database_url: str, account_id: UUID) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE accounts SET version = version + 1 WHERE id = %s", (account_id,))


@contextmanager
def _listening(database_url: str, account_id: UUID) -> Iterator[list[Statement]]:
    statements: list[Statement] = []
    execute, fetch, transaction = Connection.execute, Connection.fetch, Connection.transaction

    def note(query: str, params: Any, columns: tuple[str, ...]) -> None:
        is_first_reading = not any(VERSIONS & {*each.columns} for each in statements)
        statements.append(Statement(query, params or {}, columns))
        if is_first_reading and VERSIONS & {*columns}:
            _change(database_url, account_id)

    # Of the adapter's connection: it sends its own form of the statement and of the parameters to the driver.
    async def execute_and_note(self: Any, query: str, params: Any = None, **options: Any) -> Any:
        cursor = await execute(self, query, params, **options)
        note(query, params, tuple(column.name for column in cursor.description or ()))
        return cursor

    async def fetch_and_note(self: Any, query: str, params: Any) -> Any:
        rows = await fetch(self, query, params)
        note(query, params, tuple(rows[0]) if rows else ())
        return rows

    @asynccontextmanager
    async def transaction_and_note(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        statements.append(Statement("BEGIN", {}))
        async with transaction(self, *args, **options) as opened:
            yield opened
        statements.append(Statement("COMMIT", {}))

    Connection.execute = execute_and_note  # type: ignore[method-assign]
    Connection.fetch = fetch_and_note  # type: ignore[method-assign]
    Connection.transaction = transaction_and_note  # type: ignore[method-assign]
    try:
        yield statements
    finally:
        Connection.execute = execute  # type: ignore[method-assign]
        Connection.fetch = fetch  # type: ignore[method-assign]
        Connection.transaction = transaction  # type: ignore[method-assign]
