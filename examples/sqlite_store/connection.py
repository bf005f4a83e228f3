"""A SQLite file: written by one transaction at a time, read beside it, never on the event loop.

One writer at a time is SQLite's own rule, and it makes the account's lock trivial: `transaction` starts
with BEGIN IMMEDIATE, so each runs alone, what it has read stays true until it ends, and "take
the account's lock" needs no statement at all. Transactions of this process wait for their turn in the
order in which they came; those of other processes are waited for by SQLite, for the busy time-out. A
transaction that opens another one inside itself waits for ever.

sqlite3 blocks, so each connection has a thread of its own. Its statements run there one after
another, which is also what makes it safe to cancel a caller: the rollback is queued behind the statement
that still runs.

Owns threads, transactions and the translation of the driver's errors. Knows no table.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from meetcore.ports.store import StoreUnavailable

from .rows import Row, bound

__all__ = ["Connection", "Database", "open_database"]

T = TypeVar("T")

# The file can be read while it is written, and a commit has reached the disk when it returns. Triggers
# fire for a row that REPLACE takes away, too: by default it would slip past them.
_WRITER = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA recursive_triggers = ON;
"""

# Sees what was committed before each of its statements, and can change nothing.
_READER = "PRAGMA query_only = ON;"

_READER_WAITS_S = 5.0  # for a file that is being opened for the first time; readers wait for nothing else

_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


@contextmanager
def _translated() -> Iterator[None]:
    """Translate the driver's connection errors into the port's; other errors pass through."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # The low byte is the error, the others say which kind of it. Not every error has a code.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _AWAY:
            raise StoreUnavailable("the database file does not answer") from error
        raise


class Connection:
    """One connection of the driver and its thread."""

    def __init__(self, thread: Executor, driver: sqlite3.Connection) -> None:
        self._thread = thread
        self._driver = driver

    async def fetch(self, statement: str, parameters: Mapping[str, object]) -> list[Row]:
        """Run a statement and give all of its rows.

        Raises:
            StoreUnavailable: the file is locked for longer than the busy time-out, or cannot be used.
            sqlite3.IntegrityError: a constraint has the last word.
        """
        return await self._run(lambda: self._driver.execute(statement, bound(parameters)).fetchall())

    async def fetch_one(self, statement: str, parameters: Mapping[str, object]) -> Row | None:
        """The first row of a statement, or `None`. Raises as `fetch` does."""
        rows = await self.fetch(statement, parameters)
        return rows[0] if rows else None

    async def change(self, statement: str, parameters: Mapping[str, object]) -> int:
        """Run a statement and return how many rows it changed. Raises as `fetch` does."""
        return await self._run(lambda: self._driver.execute(statement, bound(parameters)).rowcount)

    async def begin(self) -> None:
        """Become the only writer.

        Raises:
            StoreUnavailable: another process has been writing for longer than the busy time-out.
        """
        await self._run(lambda: self._driver.execute("BEGIN IMMEDIATE"))

    async def commit(self) -> None:
        """Keep what was written since `begin`."""
        await self._run(self._driver.commit)

    async def roll_back(self) -> None:
        """Drop what was written since `begin`, if there is a transaction at all."""
        await self._run(self._driver.rollback)

    async def _run(self, work: Callable[[], T]) -> T:
        with _translated():
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class Database:
    """An open file: a connection that writes and one that reads what was committed."""

    def __init__(self, path: Path, writer: Connection, reader: Connection) -> None:
        self.reader = reader
        self._path = path
        self._writer = writer
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Be the only writer: a clean exit commits, an exception rolls back.

        Raises:
            StoreUnavailable: see `Connection`.
        """
        async with self._turn:
            try:
                await self._writer.begin()
                yield self._writer
                await self._writer.commit()
            except BaseException:
                # Shielded: a caller that is cancelled twice still leaves no transaction open.
                await asyncio.shield(self._writer.roll_back())
                raise

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Read the file as it is at this moment, for as long as it takes, while others write on."""
        async with _connected(self._path, _READER_WAITS_S, _read_setup) as connection:
            # BEGIN alone fixes nothing: the moment is that of the first read.
            await connection.fetch("BEGIN", {})
            await connection.fetch("SELECT count(*) FROM sqlite_schema", {})
            yield connection


@asynccontextmanager
async def open_database(path: Path, *, busy_timeout_s: float = 5.0) -> AsyncIterator[Database]:
    """Open a file, or make one.

    Args:
        path: on a local disk; locks are not reliable on a network share.
        busy_timeout_s: how long another process's transaction is waited for.

    Raises:
        StoreUnavailable: the file cannot be opened.
    """
    async with (
        _connected(path, busy_timeout_s, _write_setup) as writer,
        _connected(path, busy_timeout_s, _read_setup) as reader,
    ):
        yield Database(path, writer, reader)


def _read_setup() -> str:
    return _READER


def _write_setup() -> str:
    return _WRITER + Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


@asynccontextmanager
async def _connected(
    path: Path, busy_timeout_s: float, setup: Callable[[], str]
) -> AsyncIterator[Connection]:
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite") as thread:
        loop = asyncio.get_running_loop()
        with _translated():
            driver = await loop.run_in_executor(thread, _connect, path, busy_timeout_s, setup)
        try:
            yield Connection(thread, driver)
        finally:
            await loop.run_in_executor(thread, driver.close)


def _connect(path: Path, busy_timeout_s: float, setup: Callable[[], str]) -> sqlite3.Connection:
    # No isolation level: the driver begins nothing by itself.
    driver = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        driver.row_factory = _as_row
        driver.executescript(setup())
    except BaseException:
        driver.close()
        raise
    return driver


def _as_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}
