"""Connections to PostgreSQL on which one statement runs at a time, in an order that the seed decides.

A statement is carried out while the loop stands still, so that it takes no virtual time of its own. One that
waits for a lock is left waiting in the server; it is looked at again after each statement that may have
released the lock. So locks, queues and deadlocks are the server's own. The time limits of a session are kept
in virtual time: the server would count real time.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import psycopg
from attrs import define, field
from psycopg import OperationalError, waiting
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg.waiting import READY_R, READY_W, WAIT_W
from psycopg_pool import PoolTimeout

from meetcore.adapters.postgres.pool import Connection, Pool
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")

STATEMENT_S = 10.0
IDLE_IN_TRANSACTION_S = 5.0
TICK_S = 0.02
"""How far the server's clock may be behind those of the processes."""
STUCK_S = 20.0
"""Real seconds after which a statement that neither ends nor waits for a lock fails the run."""

_SETTINGS = " ".join(
    f"-c {name}={value}"
    for name, value in {
        "deadlock_timeout": "10ms", "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off",
        "jit": "off", "synchronous_commit": "off", "TimeZone": "UTC",
    }.items()
)  # fmt: skip
_REPEATED = """CREATE SEQUENCE virtual_time.drawn;
CREATE FUNCTION virtual_time.gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE AS
    'SELECT md5(nextval(''virtual_time.drawn'')::text)::uuid';
CREATE FUNCTION virtual_time.random() RETURNS float8 LANGUAGE sql VOLATILE AS
    'SELECT (hashint8(nextval(''virtual_time.drawn'')) & 65535) / 65536.0'"""
_TABLES = (
    "SELECT oid::regclass AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
)
_BLOCKERS = "SELECT pid, pg_blocking_pids(pid) AS blockers FROM unnest(%s::int[]) AS pid"
_LIVING = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)"


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
class SimulatedDatabase:
    """The database of a run. `cut` decides before and after each statement whether its connection is lost."""

    url: str
    loop: SimulatedLoop
    cut: Callable[[], bool] = lambda: False
    waiting: list[_Call] = field(factory=list)
    ghosts: set[int] = field(factory=set)
    statements: int = 0
    control: psycopg.Connection[dict[str, Any]] = field(init=False)
    _numbers: dict[int, int] = field(factory=dict)
    _at: int = -1

    def __attrs_post_init__(self) -> None:
        self.control = psycopg.connect(self.url, autocommit=True, row_factory=dict_row)
        self.prepare()

    def prepare(self) -> None:
        """Let the server's random values repeat with each run, and nothing of it go on in the background."""
        self.control.execute(_REPEATED.encode())
        for each in self.control.execute(_TABLES).fetchall():
            self.control.execute(f"ALTER TABLE {each['name']} SET (autovacuum_enabled = false)".encode())

    def connect(self) -> SimulatedConnection:
        """Open a connection, without virtual time."""
        conninfo = psycopg.conninfo.make_conninfo(self.url, options=_SETTINGS)
        connection = waiting.wait_conn(SimulatedConnection._connect_gen(conninfo), 0.1)
        connection._autocommit, connection.prepare_threshold = True, 0
        connection.row_factory = dict_row
        connection.database = self
        connection.pid = connection.info.backend_pid
        self._numbers[connection.pid] = len(self._numbers)
        return connection

    async def carry_out(self, connection: SimulatedConnection, steps: Any) -> Any:
        """Carry out a statement, or wait until it has its lock."""
        await asyncio.sleep(self.loop.random.random() * 0.002)
        if self.cut():
            self.end(connection)
            raise OperationalError("the connection was lost before the statement")
        self._set_time()
        self.statements += 1
        call = _Call(connection, steps, self.loop.create_future())
        call.begin()
        self._run(call)
        if call.is_over:
            self.settle()
        try:
            if not call.is_over:
                await self._wait_for_lock(call)
            await call.result
            return call.outcome()
        except asyncio.CancelledError:
            self.end(connection)
            raise
        finally:
            self._note(connection, call)
            if self.cut():
                self.end(connection)
                raise OperationalError("the connection was lost after the statement")

    async def _wait_for_lock(self, call: _Call) -> None:
        self.waiting.append(call)
        limit = self.loop.call_later(STATEMENT_S, self._cancel, call)
        try:
            await asyncio.wait({call.result})
        finally:
            limit.cancel()
            if call in self.waiting:
                self.waiting.remove(call)

    def _cancel(self, call: _Call) -> None:
        self.control.execute("SELECT pg_cancel_backend(%s)", [call.connection.pid])
        self._run(call, is_cancelled=True)
        self.settle()

    def _note(self, connection: SimulatedConnection, call: _Call) -> None:
        outcome = type(call.fault).__name__ if call.fault else "ok" if call.is_over else "given up"
        self.loop.note(f"connection {self._numbers[connection.pid]} {outcome}")

    def _set_time(self) -> None:
        tick = int(self.loop.time() / TICK_S)
        if self._at != tick:
            self._at = tick
            self.control.execute("UPDATE virtual_time.present SET at = %s", [self.loop.now()])

    def _run(self, call: _Call, *, is_cancelled: bool = False) -> None:
        """Go on with a statement until it is over or waits for a lock."""
        give_up_at = monotonic() + STUCK_S
        while not call.is_over:
            if call.poll(0.003):
                continue
            if not is_cancelled and self._is_blocked(call.connection.pid) and not call.poll(0):
                return
            assert monotonic() < give_up_at, "a statement neither ends nor waits for a lock"

    def _is_blocked(self, pid: int) -> bool:
        """Return whether a session waits for one that goes on, and not in a circle, which the server ends."""
        pids = [pid, *(call.connection.pid for call in self.waiting), *self.ghosts]
        rows = self.control.execute(_BLOCKERS, [pids]).fetchall()
        blockers = {row["pid"]: set(row["blockers"]) for row in rows}
        found, new = set(), blockers[pid]
        while new:
            found |= new
            new = set().union(*(blockers.get(each, set()) for each in new)) - found
        return bool(blockers[pid]) and pid not in found

    def settle(self) -> None:
        """Go on with every statement whose lock has come free, and with what dead sessions had sent."""
        has_advanced = True
        while has_advanced:
            has_advanced = self._settle_ghosts()
            for call in tuple(self.waiting):
                self._run(call)
                if call.is_over:
                    self.waiting.remove(call)
                    has_advanced = True

    def _settle_ghosts(self) -> bool:
        give_up_at, had = monotonic() + STUCK_S, len(self.ghosts)
        while self.ghosts:
            living = {row["pid"] for row in self.control.execute(_LIVING, [list(self.ghosts)]).fetchall()}
            self.ghosts &= living
            if all(map(self._is_blocked, self.ghosts)):
                break
            assert monotonic() < give_up_at, "a session does not end"
        return len(self.ghosts) < had

    def end(self, connection: SimulatedConnection) -> None:
        """Close a connection without a farewell. What it had sent is carried out all the same."""
        for call in tuple(self.waiting):
            if call.connection is connection:
                self.waiting.remove(call)
        if connection.pid not in self.ghosts and not connection.closed:
            connection.pgconn.finish()
            self.ghosts.add(connection.pid)
            self.settle()

    def end_idle(self, connection: SimulatedConnection) -> None:
        """End a session that has been idle in a transaction for too long, as the server does."""
        if not connection.closed and connection.pgconn.transaction_status == TransactionStatus.INTRANS:
            self.control.execute("SELECT pg_terminate_backend(%s)", [connection.pid])
            self.ghosts.add(connection.pid)
            self.settle()
            farewell = select.poll()  # which may come after the session has left the list
            farewell.register(connection.pgconn.socket, select.POLLIN)
            farewell.poll(STUCK_S * 1000)


class SimulatedConnection(Connection):
    """A connection whose statements the database carries out."""

    database: SimulatedDatabase
    pid: int

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Wait for the server."""
        return await self.database.carry_out(self, gen)

    def drop(self) -> None:
        """Give up on a server that did not answer in time."""
        super().drop()
        self.database.settle()

    async def close(self) -> None:
        """Close the connection."""
        self._statements.clear()
        self.database.end(self)


class SimulatedPool(Pool):
    """Up to `max_size` connections of a process. The driver's own pool measures real time."""

    keeps_plans = False

    def __init__(self, database: SimulatedDatabase, size: int = 5) -> None:
        self.database = database
        self.timeout = 3.0
        self._idle: list[SimulatedConnection] = []
        self.lent: dict[int, SimulatedConnection] = {}
        self._free = asyncio.Semaphore(size)

    def __del__(self) -> None:
        """Close nothing: the driver's pool would look for its workers."""

    async def take(self, timeout_s: float) -> Connection:
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise PoolTimeout("no connection became free in time") from None
        connection = self._idle.pop() if self._idle else self.database.connect()
        while connection.is_lost():
            connection = self._idle.pop() if self._idle else self.database.connect()
        self.lent[connection.pid] = connection
        return connection

    async def give_back(self, connection: Connection) -> None:
        assert isinstance(connection, SimulatedConnection)
        self.lent.pop(connection.pid, None)
        is_idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if is_idle:
            self._idle.append(connection)
        else:
            self.database.end(connection)
        self._free.release()

    async def drain(self) -> None:
        for connection in self._idle:
            self.database.end(connection)
        self._idle.clear()

    def end(self) -> None:
        """Close every connection, as the death of the process does."""
        for connection in (*self._idle, *self.lent.values()):
            self.database.end(connection)

    def end_idle_transactions(self) -> None:
        """End the sessions whose transactions the process has left open for too long."""
        for connection in tuple(self.lent.values()):
            self.database.end_idle(connection)
