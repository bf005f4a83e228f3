"""The connections of one simulated process."""

from __future__ import annotations

import asyncio

from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from meetcore.adapters.postgres.pool import Connection, Pool
from tests.simulation.database import SimulatedConnection, SimulatedDatabase


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
        self.lent[connection.session.pid] = connection
        return connection

    async def give_back(self, connection: Connection) -> None:
        assert isinstance(connection, SimulatedConnection)
        self.lent.pop(connection.session.pid, None)
        is_idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if is_idle:
            self._idle.append(connection)
        else:
            self.database.leave(connection)
        self._free.release()

    async def drain(self) -> None:
        for connection in self._idle:
            self.database.leave(connection)
        self._idle.clear()

    def end(self) -> None:
        """Close every connection, as the death of the process does."""
        for connection in (*self._idle, *self.lent.values()):
            self.database.leave(connection)

    def end_idle_transactions(self) -> None:
        """End the sessions whose transactions the process has left open for too long."""
        for connection in tuple(self.lent.values()):
            self.database.end_idle(connection)
