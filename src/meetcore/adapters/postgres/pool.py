"""Connections to PostgreSQL: how they are opened, and what becomes of the driver's errors.

Every connection is in autocommit mode and opens transactions explicitly, prepares each statement
at its first use and plans it once (the statements are few and their shapes stable, and planning a
wide CTE anew costs more than running it). Driver errors become `StoreAway` here and nowhere else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meetcore.ports.store import StoreAway

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
        StoreAway: no connection, a lost one, a time limit, a deadlock. The cause is chained, for
            the log.
    """
    try:
        yield
    except _AWAY as error:
        raise StoreAway("the database does not answer") from error
