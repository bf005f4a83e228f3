"""One connection to PostgreSQL whose waits are all bounded.

A server that is frozen or cut off keeps its TCP connections: the driver would wait for it as long as it is
silent, and cancelling a statement waits for the server too. Such a connection is dropped instead: its socket is
shut down on this side, so that every wait on it ends at once. A statement whose connection was dropped has
an unknown outcome, as with any connection that is lost.

Statements are constants, so each is parsed for its placeholders once. The driver does so only up to 4 096 bytes and
50 parameters; it parses a longer one, such as those of a new meeting, at each execution. A statement whose rows are
fetched has a cursor of its own on each connection, for what the driver looked up for its parameters and columns. Once the
driver has prepared it, it is executed past the cursor, which takes a third less processor time, and its rows come in the
binary format where that is as cheap to read for each of its columns: sealed values take half the bytes so. The result and
the parameters are let go of: they may be large, and some are secret.

A statement is planned once for each connection. The plan of a table that was empty reads it from end to end, and
goes on doing so while thousands of rows come, until the server's own statistics are renewed, which takes minutes.
So each connection keeps how many rows the tables had when its plans were made, and discards all plans, those
of foreign keys included, once a table has doubled. The planner goes by the size that the table has at that moment.

The counts are those that the server collects for its statistics: reading them takes no lock.
"""

import asyncio
import math
import re
import select
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from attrs import define, field
from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor, Error, OperationalError, waiting
from psycopg.adapt import PyFormat
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.postgres import types
from psycopg.pq import ExecStatus, Format
from psycopg.rows import DictRow, TupleRow, tuple_row
from psycopg.waiting import READY_R, READY_W, WAIT_R, WAIT_W, Ready, Wait

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

T = TypeVar("T")

_INTERVAL_S = 0.1

ENDED_BY_SERVER = ("08", "57P", "25P03")
"""SQLSTATEs, or their beginnings, with which a server ends a session: shutdown, crash, idle in transaction."""

_STATEMENTS = 1024  # several times as many as the adapter has
_HAS_KNOWN_CURSORS = all(hasattr(AsyncRawCursor, name) for name in ("_reset", "_tx"))
"""Whether a cursor can be made to let go of its result, for which the driver has no public call but `close`."""
_CHEAP_IN_BINARY = frozenset(
    oid
    for name in ("bool", "bytea", "date", "float8", "int2", "int4", "int8", "text", "timestamptz", "uuid")
    for oid in (types[name].oid, types[name].array_oid)
)
"""The types that the driver reads in the binary format at least about as fast as in that of text."""
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


class _Statement(NamedTuple):
    """A statement that a connection has executed."""

    cursor: AsyncRawCursor[TupleRow]
    columns: tuple[str, ...]
    result_format: Format


class Connection(AsyncConnection[DictRow]):
    """A connection that can be dropped while it is waited for."""

    is_overdue = False
    """Whether it was dropped because the server did not answer in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.planned_rows: Mapping[int, int] | None = None
        self.compared_with: Mapping[int, int] | None = None
        self._statements: dict[bytes, _Statement] = {}
        self._ready: asyncio.Future[Ready] | None = None
        # What the driver has prepared is not public: without it, every statement goes through a cursor.
        prepared = getattr(self, "_prepared", None)
        self._knows_prepared = all(hasattr(prepared, name) for name in ("_names", "_to_flush"))

    # The driver's overload for templates, which the adapter does not use, is left out.
    async def execute(  # type: ignore[override]
        self, query: str, params: Mapping[str, Any] | None = None, *, prepare: bool | None = None
    ) -> AsyncCursor[DictRow]:
        """Execute a statement with named parameters; those that it does not name are ignored."""
        if params is None:
            return await super().execute(query, prepare=prepare)
        text, names = _numbered(query)
        return await AsyncRawCursor(self).execute(text, [params[name] for name in names], prepare=prepare)

    async def fetch(self, query: str, params: Mapping[str, Any]) -> list[DictRow]:
        """Execute a statement that returns rows as `execute` does, and return them; there may be none."""
        text, names = _numbered(query)
        values = [params[name] for name in names]
        statement = self._statements.pop(text, None)
        result = None if statement is None else await self._execute_prepared(text, values, statement)
        if statement is not None and result is not None:
            rows = _rows(result, statement)
        else:
            cursor = AsyncRawCursor(self, row_factory=tuple_row) if statement is None else statement.cursor
            await cursor.execute(text, values)
            statement = _described(cursor)
            rows = [dict(zip(statement.columns, row, strict=True)) for row in await cursor.fetchall()]
        if _HAS_KNOWN_CURSORS:
            _let_go(statement.cursor)
            self._statements[text] = statement
        return rows

    async def _execute_prepared(
        self, text: bytes, values: list[Any], statement: "_Statement"
    ) -> "PGresult | None":
        """Execute a statement that the driver has prepared, past its cursor; `None` where it has not.

        Which it has, and under which names, is the driver's to say: it discards all of them after a rollback.
        """
        if self.prepare_threshold is None or not self._knows_prepared:
            return None
        transformer = statement.cursor._tx
        sent = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
        async with self.lock:
            key, prepared = (text, transformer.types or ()), self._prepared
            name = prepared._names.get(key)
            if name is None or prepared._to_flush or self.closed or self._pipeline or not self._autocommit:
                return None
            result = await self.wait(self._sent(name, sent, transformer.formats, statement.result_format))
            prepared._names.move_to_end(key)
        if result.status != ExecStatus.TUPLES_OK:
            raise error_from_result(result, encoding=self.info.encoding)
        return result

    def _sent(
        self, name: bytes, values: Sequence[Any], formats: list[Format] | None, result_format: Format
    ) -> "PQGen[PGresult]":
        """Send a statement that the driver has prepared, and wait for its result."""
        self.pgconn.send_query_prepared(name, values, param_formats=formats, result_format=result_format)
        result: PGresult
        [result] = yield from execute(self.pgconn)
        return result

    async def close(self) -> None:
        """Close the connection with its cursors, which refer to it. What still waits for the server fails."""
        self._statements.clear()
        if (ready := self._ready) is not None:
            self._stop_waiting()
            if not ready.done():
                ready.set_exception(OperationalError("the connection was closed"))
        await super().close()

    async def wait(
        self,
        gen: "PQGen[T]",
        interval: float = _INTERVAL_S,
        timeout: float | None = None,  # noqa: ASYNC109  # as the driver has it
    ) -> T:
        """Wait for the server; a cancellation drops the connection instead of asking the server to stop.

        What the statement holds in the server is freed when its statement timeout ends it, at the latest.
        """
        try:
            if timeout is not None:
                return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)
            return await self._wait(gen)
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise

    async def _wait(self, gen: "PQGen[T]") -> T:
        # The driver's own wait wakes up ten times a second to look whether the connection was closed, which takes a
        # timer for each wait. Here `close` ends the wait.
        try:
            state = next(gen)
            while True:
                state = gen.send(await self._until_ready(state))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except OSError as error:
            raise OperationalError("connection socket closed") from error

    async def _until_ready(self, state: Wait) -> Ready:
        """Wait until the socket can be read from or written to, whichever is asked for."""
        loop, descriptor = asyncio.get_running_loop(), self.pgconn.socket
        ready: asyncio.Future[Ready] = loop.create_future()
        self._ready = ready
        if state != WAIT_W:
            loop.add_reader(descriptor, _settle, ready, READY_R)
        if state != WAIT_R:
            loop.add_writer(descriptor, _settle, ready, READY_W)
        try:
            return await ready
        finally:
            if self._ready is ready:
                self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._ready = None
        loop, descriptor = asyncio.get_running_loop(), self.pgconn.socket
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)

    def is_lost(self) -> bool:
        """Return whether the server has closed this idle connection. Reads the socket state; sends nothing.

        A server sends nothing to an idle connection but its farewell. For a change of its settings, which it also
        reports, a new connection is a small price.
        """
        return self.closed or _is_readable(self.pgconn.socket)

    def was_cut(self, error: Error) -> bool:
        """Return whether the server or the network ended this connection, and not our own deadline."""
        is_farewell = (error.sqlstate or "").startswith(ENDED_BY_SERVER)
        return not self.is_overdue and (is_farewell or self.is_lost())

    def drop(self) -> None:
        """Give up on a server that did not answer in time: what waits for it fails at once."""
        self.is_overdue = True
        if not self.closed:
            drop_socket(self.pgconn.socket)


def _settle(future: asyncio.Future[Ready], state: Ready) -> None:
    if not future.done():
        future.set_result(state)


def _described(cursor: AsyncRawCursor[TupleRow]) -> _Statement:
    columns = cursor.description or ()
    is_cheap = all(column.type_code in _CHEAP_IN_BINARY for column in columns)
    return _Statement(
        cursor, tuple(column.name for column in columns), Format.BINARY if is_cheap else Format.TEXT
    )


def _rows(result: "PGresult", statement: _Statement) -> list[DictRow]:
    columns, transformer = statement.columns, statement.cursor._tx
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, lambda values: dict(zip(columns, values, strict=True)))


def _let_go(cursor: AsyncRawCursor[TupleRow]) -> None:
    """Make a cursor forget its result and its parameters; what was looked up for them stays."""
    cursor._reset()
    cursor._tx.set_pgresult(None)


@lru_cache(_STATEMENTS)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with the server's `$1` in place of `%(name)s`, and the names in their order."""
    names: dict[str, int] = {}

    def placeholder(found: re.Match[str]) -> str:
        return "%" if found[1] is None else f"${names.setdefault(found[1], len(names) + 1)}"

    return _PLACEHOLDER.sub(placeholder, statement).encode(), tuple(names)


def drop_socket(descriptor: int) -> None:
    """Shut down the connection behind a file descriptor, which stays its owner's to close."""
    with suppress(OSError), socket.socket(fileno=socket.dup(descriptor)) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def _is_readable(descriptor: int) -> bool:
    if sys.platform == "win32":  # pragma: no cover - has no poll
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


# To read so many rows for nothing takes less time than to plan.
_SMALL_ROWS = 500

# How many rows each table has, by the server's statistics.
_SIZES = """
SELECT oid, pg_stat_get_live_tuples(oid) AS live_rows FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""


@define(eq=False)
class TableSizes:
    """How many rows each table has, read once for all connections of a pool every `look_every_s` seconds."""

    look_every_s: float = 30.0
    rows: Mapping[int, int] = field(factory=dict)
    _read_at: float = -math.inf

    async def renew_plans(self, connection: Connection) -> None:
        """Let go of all plans of a connection where a table has doubled since they were made."""
        if monotonic() - self._read_at >= self.look_every_s:
            self._read_at = monotonic()  # others go on with the last ones meanwhile
            found = await (await connection.execute(_SIZES)).fetchall()
            self.rows = {row["oid"]: row["live_rows"] for row in found}
        if connection.compared_with is self.rows:
            return
        planned = connection.planned_rows
        if planned is not None and any(
            rows > max(_SMALL_ROWS, 2 * planned.get(table, 0)) for table, rows in self.rows.items()
        ):
            await connection.execute("DISCARD PLANS", prepare=False)
            planned = None
        # The server makes plans anew, too, also of tables that have shrunk.
        connection.planned_rows = {
            table: min(rows, (planned or {}).get(table, rows)) for table, rows in self.rows.items()
        }
        connection.compared_with = self.rows
