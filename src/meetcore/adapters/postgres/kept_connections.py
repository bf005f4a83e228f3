"""Lend a connection again without giving it back to the pool in between.

The pool gives out and takes back each connection under a lock, with statistics and checks, which takes longer than
a short statement. Under load the next caller is there within a millisecond, so a connection that comes back in good
order is kept beside the pool for a moment, and the next caller takes it. Callers who wait in the pool come first, and
whatever is kept goes back once a second, where its age is judged and connections beyond the least number are closed.
"""

import asyncio
import math
from collections.abc import Coroutine
from time import monotonic
from typing import Any, Final

from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from meetcore.adapters.postgres.connection import Connection

KEPT_S: Final = 1.0
"""Seconds after which a connection goes back to the pool."""


class KeepingPool(AsyncConnectionPool[Connection]):
    """A pool that keeps connections between two callers. Belongs to the event loop on which it is opened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: list[Connection] = []
        self._callers_in_pool = 0
        self._kept_if_taken_after = -math.inf
        self._is_closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._returns: set[asyncio.Task[None]] = set()

    @property
    def kept(self) -> int:
        """How many connections wait beside the pool for the next caller."""
        return len(self._kept)

    async def take(self, timeout_s: float) -> Connection:
        """Return a connection that the server has not closed; the latest that came back, where one is kept.

        Args:
            timeout_s: how long to wait for a free one.

        Raises:
            PoolTimeout: no connection became free in time.
        """
        while self._kept:
            connection = self._kept.pop()
            if not connection.is_lost():
                return connection
            await self._discard(connection)
        return await self._take_from_pool(timeout_s)

    async def give_back(self, connection: Connection) -> None:
        """Take back a connection, for the next caller or into the pool."""
        if not self._may_keep(connection):
            await self._return(connection)
            return
        self._kept.append(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(KEPT_S, self._return_later)

    async def drain(self) -> None:
        """Close all connections that nobody uses, those that are kept, too, and later those that are lent."""
        self._kept_if_taken_after = math.inf
        try:
            await self._return_kept()
            await super().drain()
        finally:
            self._kept_if_taken_after = monotonic()

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109  # as the driver's pool has it
        """Close the pool with what is kept beside it."""
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        await self._return_kept()
        await asyncio.gather(*self._returns)
        await super().close(timeout)

    def _may_keep(self, connection: Connection) -> bool:
        # A caller that waits in the pool, or is about to, gets the connection from there.
        if self._callers_in_pool or self._is_closing or connection.is_overdue:
            return False
        is_recent = max(self._kept_if_taken_after, monotonic() - KEPT_S) < connection.taken_at
        return is_recent and connection.pgconn.transaction_status == TransactionStatus.IDLE

    async def _take_from_pool(self, timeout_s: float) -> Connection:
        # The pool's own check waits a second after each connection that fails it.
        give_up_at = monotonic() + timeout_s
        self._callers_in_pool += 1
        try:
            while True:
                connection = await self.getconn(give_up_at - monotonic())
                if not connection.is_lost():
                    connection.taken_at = monotonic()
                    return connection
                await self._discard(connection)
        finally:
            self._callers_in_pool -= 1

    async def _discard(self, connection: Connection) -> None:
        await connection.close()
        await self._return(connection)

    def _return_later(self) -> None:
        self._timer = None
        self._start(self._return_kept())

    async def _return_kept(self) -> None:
        while self._kept:
            await self._return(self._kept.pop(0))

    async def _return(self, connection: Connection) -> None:
        # A caller that is cancelled while the pool's lock is taken would leave the connection to nobody.
        await asyncio.shield(self._start(self.putconn(connection)))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)
        return task
