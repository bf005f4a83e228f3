"""Connections to PostgreSQL: how they are opened and lent, and what becomes of the driver's errors.

Every connection is in autocommit mode and opens transactions explicitly, prepares each statement
at its first use and plans it once for tables of a size (the statements are few and their shapes stable, and
planning a wide CTE anew costs more than running it). A plan reads no table through where an index serves, however
small the table is at that moment; what reads a whole table by its purpose allows it in its transaction. An address
that names these settings of the planner keeps its own. Driver errors become `StoreUnavailable` here and nowhere else.

A connection is lent for a limited time. A server that does not answer within it, or takes no writes, is treated as
unavailable: the connection is dropped, and so are the idle ones, so that one caller at most waits that long for
nothing.
"""

import asyncio
import math
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meetcore.adapters.postgres import session
from meetcore.adapters.postgres.connection import ENDED_BY_SERVER, Connection, TableSizes
from meetcore.ports.observability import NO_METRICS, NO_TRACING, STORE_UNAVAILABLE, Metrics, Tracing
from meetcore.ports.store import (
    StoreFull,
    StoreLoginRefused,
    StoreReadOnly,
    StoreSessionRefused,
    StoreUnavailable,
)

__all__ = [
    "DEADLINE_S", "Connection", "Pool", "PoolState", "application_name", "make_pool", "network_parameters", "sent_settings",
    "session_options", "session_settings", "translated",
]  # fmt: skip

DEADLINE_S = 12
"""Seconds for which a connection is lent by default, the wait for it included."""

_SERVER_ENDS_EARLIER_S = 2
# Attempts to connect follow each other after 1 and 2 s; after that the next caller makes one at once.
_RECONNECT_S = 3.0

# A connection that is refused has no error code for the driver, only the server's message. That of a server that speaks
# another language are not known: it counts as one that does not answer.
_IS_FULL = re.compile(
    r"too many (clients|connections)|connection slots are reserved"
    r"|no more connections allowed|query_wait_timeout"  # PgBouncer's
)
# PgBouncer's: before 1.20 it refuses all options, from then on it names the first that it does not know.
_IS_OPTIONS_REFUSED = re.compile(r"unsupported (options )?startup parameter")
_IS_LOGIN_REFUSED = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|FATAL: .*(role|database) .* (does not exist|is not)"
    r"|permission denied for database"
    r"|FATAL: .*no such (user|database)"  # PgBouncer's
)

_UNAVAILABLE_ERRORS = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    PoolClosed,
    PoolTimeout,
    TooManyRequests,
)
_READ_ONLY = "25006"
_STATEMENT_TIMEOUT = "57014"
_DISK_FULL = "53100"
# Another connection may do better: it may lead to another server.
_CONNECTION_LOST = (*ENDED_BY_SERVER, _READ_ONLY)


@frozen
class PoolState:
    """The connections of a pool. `waiting` wait for one now; `waits` and `waited_s` are totals since the start."""

    size: int = 0
    idle: int = 0
    waiting: int = 0
    waits: int = 0
    waited_s: float = 0.0


class Pool(AsyncConnectionPool[Connection]):
    """Lends connections that were open a moment ago, each for a limited time.

    `deadline_s` is that time in seconds, from the request for a connection. `keeps_plans` says whether a connection's
    statements are prepared, and their plans must be renewed as tables grow. `metrics` take each use for which the
    server was unavailable, under what the pool `serves`, and `tracing` each read and transaction.
    """

    deadline_s: float = DEADLINE_S
    keeps_plans = True
    serves = "primary"
    metrics: Metrics = NO_METRICS
    tracing: Tracing = NO_TRACING

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._returns: set[asyncio.Task[None]] = set()
        self.sizes = TableSizes()

    @asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # as the driver's pool has it
        *,
        deadline_s: float | None = None,
    ) -> AsyncIterator[Connection]:
        """Lend a connection for `deadline_s` in all; wait up to `timeout` seconds for a free one.

        Raises:
            psycopg.OperationalError: the server did not answer in time, or the connection was lost.
            PoolTimeout: no connection became free in time.
        """
        limit_s = self.deadline_s if deadline_s is None else deadline_s
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + limit_s
        try:
            connection = await self.take(min(self.timeout if timeout is None else timeout, limit_s))
        except _UNAVAILABLE_ERRORS as error:
            self.metrics.count(STORE_UNAVAILABLE, self.serves, kind_of(error) or "away")
            raise
        is_unfit = False
        timer = None if limit_s == math.inf else loop.call_at(give_up_at, connection.drop)
        try:
            if self.keeps_plans:
                await self.sizes.renew_plans(connection)
            yield connection
        except psycopg.Error as error:
            if kind := "timeout" if connection.is_overdue else kind_of(error):
                self.metrics.count(STORE_UNAVAILABLE, self.serves, kind)
            if connection.is_overdue:
                raise psycopg.OperationalError(f"no answer within {limit_s:g} s") from error
            if (error.sqlstate or "").startswith(_CONNECTION_LOST):
                await connection.close()
            is_unfit = error.sqlstate == _READ_ONLY
            raise
        finally:
            if timer is not None:
                timer.cancel()
            await self.give_back(connection)
            if is_unfit or connection.is_overdue:
                await self.drain()

    async def take(self, timeout_s: float) -> Connection:
        """Return a connection that the server has not closed, or raise `PoolTimeout` after `timeout_s`.

        The pool's own check is not used: it waits a second after each connection that fails it.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        while True:
            connection = await self.getconn(give_up_at - loop.time())
            if not connection.is_lost():
                return connection
            await connection.close()
            await self.give_back(connection)

    async def give_back(self, connection: Connection) -> None:
        """Give a connection back, also where the caller is cancelled while it waits for the pool's lock."""
        task = asyncio.get_running_loop().create_task(self.putconn(connection))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)
        await asyncio.shield(task)

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109  # as the driver's pool has it
        """Close the pool once all connections under way to it are back."""
        await asyncio.gather(*self._returns)
        await super().close(timeout)

    async def read(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run one statement that only reads, once more where its connection was lost at the first try."""
        with self.tracing.span("read"):
            return await self.read_untraced(query, parameters)

    async def read_untraced(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a statement as `read` does; its callers report their waits themselves."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        connection = None
        try:
            async with self.connection() as connection:
                return await connection.fetch(query, parameters)
        except psycopg.Error as error:
            if connection is None or not connection.was_cut(error):
                raise
        left_s = self.deadline_s - (loop.time() - started)
        async with self.connection(deadline_s=left_s) as connection:
            return await connection.fetch(query, parameters)

    def state(self) -> PoolState:
        """Return how many connections there are, and how many callers wait or waited for one."""
        found = self.get_stats()
        return PoolState(
            found.get("pool_size", 0), found.get("pool_available", 0), found.get("requests_waiting", 0),
            found.get("requests_queued", 0), found.get("requests_wait_ms", 0) / 1000,
        )  # fmt: skip


def make_pool(
    url: str,
    *,
    max_size: int,
    min_size: int = 1,
    timeout_s: float = 3.0,
    idle_s: float = 20.0,
    deadline_s: int = DEADLINE_S,
    is_pooled: bool = False,
    role: str = "",
    metrics: Metrics = NO_METRICS,
    serves: str = "primary",
) -> Pool:
    """Make a pool that is not yet open.

    Args:
        url: a libpq connection string; its `options` come before those of the pool, which win but for the planner's.
        max_size: connections at most; callers beyond it wait `timeout_s` seconds.
        min_size: connections kept open.
        timeout_s: how long a caller waits before the store counts as unavailable.
        idle_s: after how long without use a connection is given back, down to `min_size`: a server has a hundred for
            all processes, and a burst of one must not keep them from the others.
        deadline_s: for how long a connection is lent, the wait for it included. The server itself ends a statement
            2 s earlier.
        is_pooled: whether a pooler lends each transaction another connection to the server: then the role has the
            settings of the session, and nothing is prepared; see `pooler`.
        role: of this process, which the server then shows beside its pid in `application_name`.
        metrics: take each use for which the server was unavailable.
        serves: what metrics call the pool.
    """
    kwargs: dict[str, Any] = {
        "autocommit": True,
        "row_factory": dict_row,
        "prepare_threshold": None if is_pooled else 0,
        "application_name": application_name(role),
    }
    if not is_pooled:
        kwargs["options"] = session_options(url, deadline_s)
    pool = Pool(
        url,
        connection_class=Connection,
        kwargs=kwargs | session.ENCODING | network_parameters(url, deadline_s),
        min_size=min_size,
        max_size=max_size,
        timeout=timeout_s,
        max_idle=idle_s,
        configure=None if is_pooled else _begin_session,
        reconnect_timeout=_RECONNECT_S,
        open=False,
    )
    pool.deadline_s, pool.metrics, pool.serves = deadline_s, metrics, serves
    pool.keeps_plans = not is_pooled
    return pool


async def _begin_session(connection: Connection) -> None:
    if statement := session.corrections(connection.pgconn):
        await connection.execute(statement, prepare=False)


def application_name(role: str) -> str:
    """Return what the server shows of a connection of this process: its role and its pid."""
    return f"meetcore {role} {os.getpid()}" if role else "meetcore"


def network_parameters(url: str, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
    """Return parameters that notice a vanished host; the address's own win.

    Keepalives notice it on an idle connection, `tcp_user_timeout` on one that has sent something.
    """
    defaults = {
        "connect_timeout": 5,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(deadline_s * 1000),
    }
    given = conninfo_to_dict(url)
    return {name: value for name, value in defaults.items() if name not in given}


def session_settings(deadline_s: int) -> dict[str, str]:
    """Return a session's settings by name; the server ends a statement 2 s before `deadline_s`."""
    statement_s = max(1, deadline_s - _SERVER_ENDS_EARLIER_S)
    return {
        **session.VALUES,
        # A transaction here is four short trips; whatever takes this long is stuck.
        "statement_timeout": f"{statement_s}s",
        # A process that is frozen inside a transaction loses its locks before those that wait for them give up.
        "idle_in_transaction_session_timeout": f"{max(2, statement_s // 2)}s",
    }


_PLANNER = {
    "plan_cache_mode": "force_generic_plan",
    # Behind a pooler nothing is prepared, and each statement is planned for the tables as they are.
    "enable_seqscan": "off",
    "jit": "off",  # a table that has no index to read costs 10^10 so, far beyond where compiling begins
}


def sent_settings(url: str, deadline_s: int) -> dict[str, str]:
    """Settings that a session is begun with where no pooler is between, by name.

    Those of `session_settings`, and those of the planner that the address's `options` do not name.
    """
    given = _options(url)
    planner = {name: value for name, value in _PLANNER.items() if not re.search(rf"(?<![a-z]){name}=", given)}
    return session_settings(deadline_s) | planner


def session_options(url: str, deadline_s: int) -> str:
    """Return the `options` that send them, behind those of the address, which they win over."""
    return " ".join(
        [_options(url), *(f"-c {name}={value}" for name, value in sent_settings(url, deadline_s).items())]
    )


def _options(url: str) -> str:
    return str(conninfo_to_dict(url).get("options") or "")


@contextmanager
def translated() -> Iterator[None]:
    """Translate the driver's connection errors into the port's; a broken statement stays the bug that it is.

    Raises:
        StoreFull, StoreLoginRefused, StoreSessionRefused: the server, or a pooler, refused a connection explicitly.
        StoreReadOnly: the server takes no writes, as a standby does.
        StoreUnavailable: no connection, a lost one, a time limit, a deadlock. The cause is chained, for
            the log: its text names addresses.
    """
    try:
        yield
    except _UNAVAILABLE_ERRORS as error:
        raise _unavailable(str(error)) from error
    except psycopg.Error as error:
        if error.sqlstate == _READ_ONLY:
            raise StoreReadOnly("the database takes no writes") from error
        if (error.sqlstate or "").startswith(_CONNECTION_LOST):
            raise _unavailable("") from error
        raise


def kind_of(error: BaseException) -> str | None:
    """Return how the server was unavailable, as metrics name it; `None` for an error of a statement."""
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        return "pool"
    state = error.sqlstate or "" if isinstance(error, psycopg.Error) else ""
    if state == _READ_ONLY:
        return "read_only"
    if state == _STATEMENT_TIMEOUT:
        return "timeout"
    if state.startswith(_CONNECTION_LOST):
        return "lost"
    if not isinstance(error, _UNAVAILABLE_ERRORS):
        return None
    if state == _DISK_FULL:
        return "disk_full"
    if _IS_FULL.search(str(error)):
        return "full"
    return "login" if _IS_LOGIN_REFUSED.search(str(error)) else "away"


def _unavailable(message: str) -> StoreUnavailable:
    if _IS_FULL.search(message):
        return StoreFull("the database has no connection left")
    if _IS_OPTIONS_REFUSED.search(message):
        return StoreSessionRefused("a pooler refuses the settings of a session")
    if _IS_LOGIN_REFUSED.search(message):
        return StoreLoginRefused("the database refuses the login")
    return StoreUnavailable("the database does not answer")
