"""The connections of a simulated process."""

from __future__ import annotations

import asyncio

from tests.simulation.database import SERVER, SimulatedDatabase
from tests.simulation.loop import SimulatedLoop
from tests.simulation.pool import SimulatedPool
from tests.support.own_postgres import own_postgres


async def begin_a_transaction(pool: SimulatedPool) -> None:
    async with pool.connection() as connection, connection.transaction():
        pass


def test_a_connection_whose_user_was_cancelled_is_not_lent_again() -> None:
    async def cancel_at_each_step(pool: SimulatedPool) -> int:
        for steps in range(50):
            task = asyncio.ensure_future(begin_a_transaction(pool))
            for _ in range(steps):
                await asyncio.sleep(0.0001)
            if task.done():
                return steps
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await begin_a_transaction(pool)
        raise AssertionError("no transaction has ended")

    with own_postgres(**SERVER) as server:
        loop = SimulatedLoop(1)
        try:
            database = SimulatedDatabase(server.url, loop)
            assert loop.run_until_complete(cancel_at_each_step(SimulatedPool(database))) > 5
        finally:
            loop.close()
            database.control.close()
