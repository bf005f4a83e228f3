"""Connections to PostgreSQL on which one statement runs at a time, in an order that the seed decides.

A statement is carried out while the loop stands still, so that it takes no virtual time of its own. One that
waits for a lock is left waiting in the server, and its backend is stopped by a signal. When the lock has come
free, the backends that it came free for go on one after the other: locks, queues and rechecks of rows are the
server's own, and no two backends ever run at a time. The time limits of a session are kept in virtual time,
and a deadlock ends the statement that completes the circle: the server would count real time for both.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from zlib import crc32

import psycopg
from attrs import define, field
from psycopg import AsyncCursor, OperationalError, waiting
from psycopg.errors import DeadlockDetected, QueryCanceled
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.waiting import READY_R, READY_W, WAIT_W

from meetcore.adapters.postgres.pool import Connection
from tests.simulation.loop import START, SimulatedLoop

T = TypeVar("T")

STATEMENT_S = 10.0
IDLE_IN_TRANSACTION_S = 5.0
TICK_S = 0.1
"""How far the server's clock may be behind those of the processes."""
QUICK_S = 0.005
"""Real seconds after which a statement that has not ended is looked at: it may wait for a lock."""
STUCK_S = 60.0
"""Real seconds after which a statement that neither ends nor waits for a lock fails the run."""

SERVER = {"fsync": "off", "autovacuum": "off", "deadlock_timeout": "1h", "max_connections": "60"}
"""Settings of the server of a run: nothing goes on in it but what the run asks for."""
_SETTINGS = " ".join(
    f"-c {name}={value}"
    for name, value in {
        "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off",
        "synchronous_commit": "off", "TimeZone": "UTC", "search_path": "public,virtual_time,pg_catalog",
    }.items()
)  # fmt: skip
_REPEATED = """CREATE SEQUENCE virtual_time.drawn;
CREATE FUNCTION virtual_time.gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE AS
    'SELECT md5(nextval(''virtual_time.drawn'')::text)::uuid';
CREATE FUNCTION virtual_time.random() RETURNS float8 LANGUAGE sql VOLATILE AS
    'SELECT (hashint8(nextval(''virtual_time.drawn'')) & 65535) / 65536.0'"""
_DEFAULTS = """SELECT format('ALTER TABLE %s ALTER %I SET DEFAULT virtual_time.clock_timestamp()',
    d.adrelid::regclass, a.attname) AS statement
FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
JOIN pg_class c ON c.oid = d.adrelid AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
WHERE pg_get_expr(d.adbin, d.adrelid) ~ 'clock_timestamp|now'"""
_INSTANTS = """SELECT format('UPDATE %1$s SET %2$I = %%s WHERE %2$I IS NOT NULL', c.oid::regclass, a.attname)
    AS statement
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
    AND c.relname NOT IN ('schema_migrations') AND a.atttypid = 'timestamptz'::regtype"""
_BLOCKERS = "SELECT pid, pg_blocking_pids(pid) AS blockers FROM unnest(%s::int[]) AS pid"


@define(eq=False)
class _Call:
    """A statement that was sent, and who waits for its result."""

    connection: SimulatedConnection
    steps: Any
    result: asyncio.Future[Any]
    state: Any = None
    value: Any = None
    fault: Exception | None = None

    def begin(self) -> None:
        self._go_on(lambda: next(self.steps))

    def poll(self, timeout_s: float) -> bool:
        """Go on as far as the server has answered; return whether it had."""
        wanted = select.POLLOUT if self.state == WAIT_W else select.POLLIN
        poll = select.poll()
        poll.register(self.connection.pgconn.socket, wanted)
        if not poll.poll(timeout_s * 1000):
            return False
        self._go_on(lambda: self.steps.send(READY_W if self.state == WAIT_W else READY_R))
        return True

    def _go_on(self, step: Callable[[], Any]) -> None:
        try:
            self.state = step()
        except StopIteration as done:
            self.state, self.value = None, done.value
        except Exception as error:  # noqa: BLE001  # it is the caller's
            self.state, self.fault = None, error
        if self.state is None and not self.result.done():
            self.result.set_result(None)

    def outcome(self) -> Any:
        """Return what the statement returned, or raise its fault."""
        if self.fault is not None:
            raise self.fault
        return self.value

    @property
    def is_over(self) -> bool:
        return self.state is None


@define(eq=False)
class _Session:
    """A backend of the server. Without a client it ends as soon as it may go on."""

    number: int
    pid: int
    descriptor: int
    call: _Call | None = None
    is_left: bool = False
    is_stopped: bool = False

    def is_over(self, timeout_s: float) -> bool:
        """Wait for what the backend does now, for so long; return whether it has ended."""
        if not self.is_left:
            assert self.call is not None
            while not self.call.is_over:
                if not self.call.poll(timeout_s):
                    return False
            return True
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


@define(eq=False)
class SimulatedDatabase:
    """The database of a run. `cut` decides before and after each statement whether its connection is lost.

    `blocked` are the sessions that wait for a lock, in the order in which they began to.
    """

    url: str
    loop: SimulatedLoop
    cut: Callable[[str], bool] = lambda moment: False
    statements: int = 0
    blocked: list[_Session] = field(factory=list)
    control: psycopg.Connection[dict[str, Any]] = field(init=False)
    _sessions: dict[int, _Session] = field(factory=dict)
    _opened: int = 0
    _at: int = -1

    def __attrs_post_init__(self) -> None:
        self.control = psycopg.connect(self.url, autocommit=True, row_factory=dict_row)

    def connect(self) -> SimulatedConnection:
        """Open a connection, without virtual time."""
        conninfo = psycopg.conninfo.make_conninfo(self.url, options=_SETTINGS)
        connection = waiting.wait_conn(SimulatedConnection._connect_gen(conninfo), 0.1)
        connection._autocommit, connection.prepare_threshold = True, 0
        connection.row_factory = dict_row
        connection.database = self
        pid = connection.info.backend_pid
        connection.session = self._sessions[pid] = _Session(self._opened, pid, os.pidfd_open(pid))
        self._opened += 1
        return connection

    async def carry_out(self, connection: SimulatedConnection, steps: Any) -> Any:
        """Carry out a statement, or wait until it has its lock."""
        try:
            await asyncio.sleep(self.loop.random.random() * 0.002)
        except asyncio.CancelledError:
            self.leave(connection)  # as the driver, which waits only after it has sent
            raise
        if self.cut("before"):
            self.leave(connection)
            raise OperationalError("the connection was lost before the statement")
        if connection.is_in_statement:
            self._set_time()
        self.statements += 1
        call = _Call(connection, steps, self.loop.create_future())
        call.begin()
        self._begin(connection.session, call)
        try:
            if not call.is_over:
                await self._wait_for_lock(connection, call)
            return call.outcome()
        except asyncio.CancelledError:
            self.leave(connection)
            raise
        finally:
            if self.cut("after"):
                self.leave(connection)
                raise OperationalError("the connection was lost after the statement")

    def _begin(self, session: _Session, call: _Call) -> None:
        if session.is_left:  # ended by the server: its farewell is there
            while not call.is_over:
                call.poll(STUCK_S)
            return
        session.call = call
        self._run(session)
        self.settle()

    async def _wait_for_lock(self, connection: SimulatedConnection, call: _Call) -> None:
        limit = self.loop.call_later(STATEMENT_S, self._cancel, connection.session)
        try:
            await call.result
        finally:
            limit.cancel()

    def _cancel(self, session: _Session) -> None:
        if session in self.blocked:
            self._run(session, is_cancelled=True)
            self.settle()

    def _set_time(self) -> None:
        tick = int(self.loop.time() / TICK_S)
        if self._at != tick:
            self._at = tick
            self.control.execute("UPDATE virtual_time.present SET at = %s", [self.loop.now()])

    def _run(self, session: _Session, *, is_cancelled: bool = False) -> None:
        """Let a backend go on until it is over or waits for a lock; end a circle that it completes."""
        if is_cancelled:
            self._end_statement(session)
        if session in self.blocked:
            self.blocked.remove(session)
            os.kill(session.pid, signal.SIGCONT)
        patience_s, is_victim = QUICK_S, False
        while not session.is_over(patience_s):
            patience_s *= 2  # a busy machine makes a statement slow, and is not asked all the time
            assert patience_s < STUCK_S, "a statement neither ends nor waits for a lock"
            if is_cancelled or is_victim:
                continue
            blockers = self._blockers(session)
            if session.pid in _all_blockers(blockers, session.pid):
                self._end_statement(session)
                is_victim = True
            elif blockers[session.pid] and not session.is_over(0):
                self.blocked.append(session)
                os.kill(session.pid, signal.SIGSTOP)
                return
        if session.is_left:
            os.close(self._sessions.pop(session.pid).descriptor)
        elif is_victim and session.call is not None and isinstance(session.call.fault, QueryCanceled):
            session.call.fault = DeadlockDetected("deadlock detected")

    def _end_statement(self, session: _Session) -> None:
        self.control.execute("SELECT pg_cancel_backend(%s)", [session.pid])

    def _blockers(self, *more: _Session) -> dict[int, set[int]]:
        pids = [each.pid for each in (*more, *self.blocked)]
        rows = self.control.execute(_BLOCKERS, [pids]).fetchall()
        return {row["pid"]: set(row["blockers"]) for row in rows}

    def settle(self) -> None:
        """Go on with every session whose lock has come free, one by one, in an order by the seed."""
        while self.blocked:
            blockers = self._blockers()
            free = [each for each in self.blocked if not blockers[each.pid]]
            if not free:
                return
            self._run(self.loop.random.choice(free))

    def leave(self, connection: SimulatedConnection) -> None:
        """Close a connection without a farewell. What it had sent is carried out all the same."""
        session = connection.session
        if session.is_left:
            return
        session.is_left = True
        connection.pgconn.finish()
        if session not in self.blocked:
            self._run(session)
        self.settle()

    def end_idle(self, connection: SimulatedConnection) -> None:
        """End a session that has been idle in a transaction for too long, as the server does."""
        session = connection.session
        if not session.is_left and connection.pgconn.transaction_status == TransactionStatus.INTRANS:
            session.is_left = True
            self.control.execute("SELECT pg_terminate_backend(%s)", [session.pid])
            self._run(session)
            self.settle()

    def close(self) -> None:
        """Let the backends that were stopped go on, or the server could not end them."""
        for each in self.blocked:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGCONT)


def _all_blockers(blockers: Mapping[int, set[int]], pid: int) -> set[int]:
    """Return the sessions that a session waits for, and those that they wait for."""
    found, new = set[int](), blockers[pid]
    while new:
        found |= new
        new = set[int]().union(*(blockers.get(each, set()) for each in new)) - found
    return found


def prepare(url: str) -> None:
    """Let a migrated database with virtual time begin at the start, and its random values repeat."""
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as control:
        control.execute(_REPEATED.encode())
        for each in control.execute(_DEFAULTS).fetchall():
            control.execute(each["statement"].encode())
        control.execute("SET session_replication_role = replica")
        for each in control.execute(_INSTANTS).fetchall():
            control.execute(each["statement"].encode(), [START])


def _sum(value: object) -> str:
    return f"{crc32(repr(value).encode()):08x}"


class SimulatedConnection(Connection):
    """A connection whose statements the database carries out, each with a line in the trace."""

    database: SimulatedDatabase
    session: _Session
    is_in_statement = False
    """Whether it carries out more than the begin or the end of a transaction."""

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Wait for the server."""
        return await self.database.carry_out(self, gen)

    async def execute(  # type: ignore[override]
        self, query: str, params: Mapping[str, Any] | None = None, *, prepare: bool | None = None
    ) -> AsyncCursor[DictRow]:
        """Execute a statement."""
        work = super().execute(query, params, prepare=prepare)
        cursor: AsyncCursor[DictRow] = await self._noted(query, params, work)
        found = cursor.pgresult
        rows = [] if found is None else [found.get_value(*at) for at in _cells(found)]
        self._note(query, params, rows)
        return cursor

    async def fetch(self, query: str, params: Mapping[str, Any]) -> list[DictRow]:
        """Execute a statement that returns rows."""
        rows: list[DictRow] = await self._noted(query, params, super().fetch(query, params))
        self._note(query, params, rows)
        return rows

    async def _noted(self, query: str, params: Mapping[str, Any] | None, work: Any) -> Any:
        self.is_in_statement = True
        try:
            return await work
        except BaseException as fault:
            self._note(query, params, type(fault).__name__)
            raise
        finally:
            self.is_in_statement = False

    def _note(self, query: str, params: Mapping[str, Any] | None, outcome: object) -> None:
        text = " ".join(query.split())[:60]
        found = f"{len(outcome)} {_sum(outcome)}" if isinstance(outcome, list) else outcome
        self.database.loop.note(f"session {self.session.number} {_sum(params)} {found} {text}")

    def drop(self) -> None:
        """Give up on a server that did not answer in time."""
        session = self.session
        if session.is_left or self.closed:
            self.is_overdue = True
            return
        super().drop()
        session.is_left, call = True, session.call
        if call is not None and not call.is_over:
            call.poll(0)
        if session not in self.database.blocked:
            self.database._run(session)
        self.database.settle()

    async def close(self) -> None:
        """Close the connection."""
        self._statements.clear()
        self.database.leave(self)


def _cells(result: Any) -> list[tuple[int, int]]:
    return [(row, column) for row in range(result.ntuples) for column in range(result.nfields)]
