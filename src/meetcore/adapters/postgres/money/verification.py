"""Reading the whole ledger in PostgreSQL, in repeatable-read transactions of one moment, portion by portion.

Entries are read as texts in the form that their hash covers, in the binary form and without an object for each id, and they
stream: a cursor would keep each of them once more. That is what lets a hundred thousand of them be proven in a
second. While one chunk is proven the database reads on, as far as the connection's buffers reach.

How far the periodic verification of the ledger is, in the one row of its table.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime
from math import inf
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg import sql

from meetcore.adapters.postgres import columns, repository
from meetcore.adapters.postgres.money.rows import FUNDS
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.domain.money.hash_chain import CanonicalEntry
from meetcore.domain.money.views import MAX_FLAWS, Flaw, FlawKind, StoredFunds, VerificationRun
from meetcore.ports import runtime, store

SQL = repository.load_statements(__file__, FUNDS=FUNDS)


ACCOUNTS_AT_ONCE = 500
ENTRIES_OF_A_PORTION = 50_000
ENTRIES_AT_ONCE = 2_000

# Rows that libpq hands over together; before its version 17 it can give them one by one only.
_ENTRIES_READ_AT_ONCE = 500 if psycopg.capabilities.has_stream_chunked() else 1

# Instants and days as texts in one form, and as long as it takes. Compiling a statement anew for each portion takes
# longer than it gains, and the other cores have entries to prove.
_SETTINGS = (
    "SET LOCAL jit = off",
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL datestyle = 'ISO'",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)


def _compared(statement: str) -> tuple[str, str]:
    """Return a comparison of all accounts, and that of a span of ids."""
    of_span = r"\1.account_id BETWEEN %(first)s AND %(last)s"
    return re.sub(r"\{of_\w\}", "TRUE", statement), re.sub(r"\{of_(\w)\}", of_span, statement)


_IS_BALANCED, _UNBALANCED = _compared(SQL["is_balanced"]), _compared(SQL["unbalanced"])
_REFUNDS, _USAGE = _compared(SQL["refunds"]), _compared(SQL["usage"])


def _canonical_entry(_: Any) -> Callable[[Sequence[Any]], CanonicalEntry]:
    return CanonicalEntry._make


class PostgresLedgerSnapshot:
    """One moment of the ledger, on one open transaction that others can join by its name."""

    def __init__(self, pool: Pool, connection: Connection, name: str) -> None:
        self._pool = pool
        self._connection = connection
        self._name = name

    @property
    def name(self) -> str:
        """By what another transaction joins this moment, as long as it is open here."""
        return self._name

    async def count_entries(self) -> int:
        row = await (await self._connection.execute(SQL["count_entries"])).fetchone()
        return 0 if row is None else int(row["entries"])

    async def accounts(self, after: UUID | None = None) -> AsyncGenerator[Sequence[StoredFunds], None]:
        after = after or UUID(int=0)
        while True:
            parameters = {"after": after, "limit": ACCOUNTS_AT_ONCE}
            found = await (
                await self._connection.execute(SQL["list_accounts_of_span"], parameters)
            ).fetchall()
            if not found:
                return
            for portion in _portions([_stored_funds(row) for row in found]):
                yield portion
            after = found[-1]["account_id"]

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        span = {"first": portion[0].funds.account_id, "last": portion[-1].funds.account_id}
        await self._connection.execute(SQL["set_sequential"], {"way": "off"})
        async with self._connection.cursor(row_factory=_canonical_entry) as cursor:
            streaming = cursor.stream(SQL["entries"], span, binary=True, size=_ENTRIES_READ_AT_ONCE)
            # It is a generator: closed, it gives the connection back.
            async with aclosing(cast("AsyncGenerator[CanonicalEntry, None]", streaming)) as entries:
                chunk: list[CanonicalEntry] = []
                async for entry in entries:
                    chunk.append(entry)
                    if len(chunk) == ENTRIES_AT_ONCE:
                        yield chunk
                        chunk = []
                if chunk:
                    yield chunk
        await self._connection.execute(SQL["set_sequential"], {"way": "on"})

    async def flaws_of_span(self, after: UUID | None, last: UUID | None) -> Sequence[Flaw]:
        first = UUID(int=0) if after is None else UUID(int=min(after.int + 1, repository.NEWEST.int))
        return await _flaws(self._connection, {"first": first, "last": last or repository.NEWEST})

    async def flaws(self) -> Sequence[Flaw]:
        if self._pool.max_size < 2:
            return await _flaws(self._connection)
        async with self._pool.connection(deadline_s=inf) as connection, connection.transaction():
            await _begin_reading(connection, self._name)
            return await _flaws(connection)


def _stored_funds(row: columns.Row) -> StoredFunds:
    return StoredFunds(FUNDS.read(row), row["open_holds"], row["day_credits"], row["day_entries"])


def _portions(stored: Sequence[StoredFunds]) -> Iterator[Sequence[StoredFunds]]:
    """Cut where the work gets too much; what an account stores of the number of its entries is near enough."""
    portion: list[StoredFunds] = []
    work = 0
    for each in stored:
        if portion and work + each.funds.entries > ENTRIES_OF_A_PORTION:
            yield portion
            portion, work = [], 0
        portion.append(each)
        work += each.funds.entries
    yield portion


async def _flaws(connection: Connection, accounts: columns.Row | None = None) -> list[Flaw]:
    async def rows_of(statements: tuple[str, str]) -> list[columns.Row]:
        statement = statements[accounts is not None]
        cursor = await connection.execute(statement, (accounts or {}) | {"limit": MAX_FLAWS})
        return await cursor.fetchall()

    await connection.execute(SQL["compare"], {"loops": "off"})
    is_balanced = (await rows_of(_IS_BALANCED))[0]["is_balanced"]
    await connection.execute(SQL["compare"], {"loops": "on"})
    found = [
        Flaw(row["account_id"], FlawKind.UNBALANCED, f"transfer {row['transfer_id']}", row["number"])
        for row in ([] if is_balanced else await rows_of(_UNBALANCED))
    ]
    found += [
        Flaw(row["account_id"], FlawKind[row["kind"]], f"transfer {row['transfer_id']}", row["number"])
        for row in await rows_of(_REFUNDS)
    ]
    return found + [
        Flaw(row["account_id"], FlawKind.USAGE, f"the usage of key {row['api_key_id']} on {row['day']}")
        for row in await rows_of(_USAGE)
    ]


async def _begin_reading(connection: Connection, snapshot: str | None = None) -> str:
    """See one moment for as long as it takes: this one, or that of another's snapshot; its name for others."""
    await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    if snapshot is not None:
        await _join(connection, snapshot)
    for setting in _SETTINGS:
        await connection.execute(setting)
    row = await (await connection.execute("SELECT pg_export_snapshot() AS name")).fetchone()
    assert row is not None
    return str(row["name"])


async def _join(connection: Connection, snapshot: str) -> None:
    try:
        await connection.execute(
            sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)).as_string()
        )
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as error:
        raise store.StoreUnavailable("the moment that was to be joined is over") from error


class PostgresLedgerAudit:
    """Open snapshots of the ledger."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def snapshot(self) -> AbstractAsyncContextManager[PostgresLedgerSnapshot]:
        """Open the ledger as it is now, while others write on."""
        return self._reading(None)

    def joined(self, name: str) -> AbstractAsyncContextManager[PostgresLedgerSnapshot]:
        """Open the ledger at the moment of another snapshot, of this process or of another."""
        return self._reading(name)

    @asynccontextmanager
    async def _reading(self, name: str | None) -> AsyncIterator[PostgresLedgerSnapshot]:
        with translated():
            async with self._pool.connection(deadline_s=inf) as connection, connection.transaction():
                yield PostgresLedgerSnapshot(self._pool, connection, await _begin_reading(connection, name))


class PostgresVerificationLog(repository.PooledWrites):
    """The current run of the verification and the result of the last one."""

    async def claim(self, lease: runtime.Lease, at: datetime) -> VerificationRun | None:
        row = await self._one(SQL["claim_verification"], token=lease.token, lease_s=lease.seconds, at=at)
        if row is None:
            return None
        return VerificationRun(
            lease.token, row["started_at"], row["after_account"], row["accounts"], row["entries"],
            tuple(row["findings"]),
        )  # fmt: skip

    async def renew(self, run: VerificationRun, seconds: float) -> bool:
        return await self._changed(SQL["renew_verification"], token=run.token, seconds=seconds)

    async def save(self, run: VerificationRun, wait_s: float) -> bool:
        progress = {
            "after_account": run.after_account,
            "accounts": run.accounts,
            "entries": run.entries,
            "findings": list(run.findings),
        }
        return await self._changed(SQL["save_progress"], _of(run, wait_s) | progress)

    async def finish(self, run: VerificationRun, at: datetime, next_s: float) -> bool:
        return await self._changed(SQL["finish_verification"], _of(run, next_s), at=at)

    async def end_unsound_run(self, at: datetime) -> None:
        await self._changed(SQL["end_unsound"], at=at)

    async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
        await self._changed(SQL["keep_result"], at=at, is_sound=is_sound)


def _of(run: VerificationRun, seconds: float) -> columns.Row:
    return {"token": run.token, "seconds": seconds, "is_sound": not run.findings}
