"""A SQLite file, written by one transaction at a time and never on the event loop.

One writer at a time is SQLite's own rule, and it makes the account's lock trivial: a transaction starts
with BEGIN IMMEDIATE, so each runs alone, what it has read stays true until it ends, and "take the
account's lock" needs no statement at all. Transactions of this process wait for their turn in the
order in which they came; those of other processes are waited for by SQLite, for the busy time-out. A
transaction that opens another one inside itself waits for ever.

sqlite3 blocks, so the connection has a thread of its own. Its statements run there one after
another, which is also what makes it safe to cancel a caller: the rollback is queued behind the statement
that still runs.

Owns the thread, transactions and the translation of the driver's errors. Knows no table.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from meetcore.ports.store import StoreUnavailable

__all__ = ["Connection", "Database", "open_database"]

T = TypeVar("T")

# A commit has reached the disk when it returns. Triggers fire for a row that REPLACE takes away, too: by
# default it would slip past them.
_SETUP = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA recursive_triggers = ON;
"""

_UNAVAILABLE = {
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
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE:
            raise StoreUnavailable("the database file does not answer") from error
        raise


class Connection:
    """The driver's connection and its thread."""

    def __init__(self, thread: Executor, driver: sqlite3.Connection) -> None:
        self._thread = thread
        self._driver = driver

    async def execute(self, statement: str, parameters: Mapping[str, object]) -> list[sqlite3.Row]:
        """Run a statement and give all of its rows.

        Raises:
            StoreUnavailable: the file is locked for longer than the busy time-out, or cannot be used.
            sqlite3.IntegrityError: a constraint has the last word.
        """
        return await self.run(lambda: self._driver.execute(statement, parameters).fetchall())

    async def run(self, work: Callable[[], T]) -> T:
        """Call the driver on its thread."""
        with _translated():
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class Database:
    """An open file."""

    def __init__(self, connection: Connection, driver: sqlite3.Connection) -> None:
        self._connection = connection
        self._driver = driver
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Be the only writer: a clean exit commits, an exception rolls back.

        Raises:
            StoreUnavailable: another process has been writing for longer than the busy time-out, or the
                file cannot be used.
        """
        async with self._turn:
            try:
                await self._connection.execute("BEGIN IMMEDIATE", {})
                yield self._connection
                await self._connection.run(self._driver.commit)
            except BaseException:
                # Shielded: a caller that is cancelled twice still leaves no transaction open.
                await asyncio.shield(self._connection.run(self._driver.rollback))
                raise


@asynccontextmanager
async def open_database(path: Path, *, busy_timeout_s: float = 5.0) -> AsyncIterator[Database]:
    """Open a file, or make one.

    Args:
        path: on a local disk; locks are not reliable on a network share.
        busy_timeout_s: how long another process's transaction is waited for.

    Raises:
        StoreUnavailable: the file cannot be opened.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite") as thread:
        loop = asyncio.get_running_loop()
        with _translated():
            driver = await loop.run_in_executor(thread, _connect, path, busy_timeout_s)
        try:
            yield Database(Connection(thread, driver), driver)
        finally:
            await loop.run_in_executor(thread, driver.close)


def _connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    # No isolation level: the driver begins nothing by itself.
    driver = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        driver.row_factory = sqlite3.Row
        driver.executescript(_SETUP + Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
    except BaseException:
        driver.close()
        raise
    return driver
