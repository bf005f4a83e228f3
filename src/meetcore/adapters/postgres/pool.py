"""Connections to PostgreSQL: how they are opened, and what becomes of the driver's errors.

Every connection is in autocommit mode and opens transactions explicitly, prepares each statement
at its first use and plans it once (the statements are few and their shapes stable, and planning a
wide CTE anew costs more than running it). Driver errors become `StoreAway` here and nowhere else.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meetcore.ports.store import StoreAway, StoreFull, StoreLoginRefused

__all__ = ["Connection", "Pool", "make_pool", "translated"]

Connection = AsyncConnection[DictRow]
Pool = AsyncConnectionPool[Connection]

_OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        "timezone=UTC",
        "plan_cache_mode=force_generic_plan",
        # A transaction here is four short trips; whatever takes this long is stuck.
        "statement_timeout=10s",
        "idle_in_transaction_session_timeout=15s",
    )
)

# A connection that is refused has no error code for the driver, only the server's words. Those of a server that speaks
# another language are not known: it counts as one that does not answer.
_IS_FULL = re.compile(r"too many (clients|connections)|connection slots are reserved")
_IS_LOGIN_REFUSED = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|FATAL: .*(role|database) .* (does not exist|is not)"
    r"|permission denied for database"
)

_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, PoolClosed, PoolTimeout, TooManyRequests)


def make_pool(
    url: str, *, max_size: int, min_size: int = 1, timeout_s: float = 3.0, idle_s: float = 20.0
) -> Pool:
    """Make a pool that is not yet open.

    Args:
        url: a libpq connection string.
        max_size: connections at most; callers beyond it wait `timeout_s` seconds.
        min_size: connections kept open.
        timeout_s: how long a caller waits before the store counts as away.
        idle_s: after how long without use a connection is given back, down to `min_size`: a server has a hundred for
            all processes, and a burst of one must not keep them from the others.
    """
    kwargs: dict[str, Any] = {
        "autocommit": True,
        "row_factory": dict_row,
        "prepare_threshold": 0,
        "options": _OPTIONS,
        "application_name": "meetcore",
        "connect_timeout": 5,
    }
    return AsyncConnectionPool(
        url,
        connection_class=AsyncConnection[DictRow],
        kwargs=kwargs,
        min_size=min_size,
        max_size=max_size,
        timeout=timeout_s,
        max_idle=idle_s,
        reconnect_timeout=30.0,
        open=False,
    )


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's "away" into the port's; a broken statement stays the bug that it is.

    Raises:
        StoreFull, StoreLoginRefused: the server refused a connection, and said so.
        StoreAway: no connection, a lost one, a time limit, a deadlock. The cause is chained, for
            the log: its words name addresses.
    """
    try:
        yield
    except _AWAY as error:
        raise _away(str(error)) from error


def _away(words: str) -> StoreAway:
    if _IS_FULL.search(words):
        return StoreFull("the database has no connection left")
    if _IS_LOGIN_REFUSED.search(words):
        return StoreLoginRefused("the database refuses the login")
    return StoreAway("the database does not answer")
