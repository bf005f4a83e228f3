"""The sandbox's memory in PostgreSQL: one table, `sandbox_meetings`, shared by every process.

Kept out of the package's `__init__`, so that the sandbox works where no driver is installed. Refuses to
take part in anybody's transaction: a provider is another system, and forgets nothing when we roll back.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meetcore.adapters.sandbox.state import SandboxMeetingState
from meetcore.ports.store import StoreAway

__all__ = ["PostgresSandboxState"]

_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, PoolClosed, PoolTimeout, TooManyRequests)

# What happened last to a meeting.
_GET = "SELECT state FROM sandbox_meetings WHERE provider_meeting_id = %(id)s"

# Takes a step of `STEPS`: every first one, and from started to ended. A row comes back if it was taken.
_PUT = """
INSERT INTO sandbox_meetings AS known (provider_meeting_id, state) VALUES (%(id)s, %(state)s)
ON CONFLICT (provider_meeting_id) DO UPDATE SET state = excluded.state, changed_at = clock_timestamp()
WHERE known.state = 'started' AND excluded.state = 'ended'
RETURNING state
"""


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _AWAY as error:
        raise StoreAway("the database does not answer") from error


class PostgresSandboxState:
    """States on a pool of connections with dict rows in autocommit mode.

    Args:
        pool: opened and closed by whoever made it; the schema is there.
    """

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[DictRow]]) -> None:
        self._pool = pool

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        """What happened last; none while nothing did.

        Raises:
            StoreAway: the database does not answer.
        """
        with _translated():
            async with self._pool.connection() as connection:
                row = await (await connection.execute(_GET, {"id": provider_meeting_id})).fetchone()
        return None if row is None else SandboxMeetingState(row["state"])

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        """Take a step of the table; see `SandboxState.put`.

        Raises:
            StoreAway: the database does not answer.
        """
        values = {"id": provider_meeting_id, "state": state.value}
        with _translated():
            async with self._pool.connection() as connection:
                return await (await connection.execute(_PUT, values)).fetchone() is not None
