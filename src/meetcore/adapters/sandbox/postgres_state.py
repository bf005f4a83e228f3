"""The sandbox's state in PostgreSQL: the tables `sandbox_*`, shared by all processes.

Not imported by the package, so that the sandbox works without a driver. It never joins a caller's
transaction: a provider is another system, which a rollback does not affect.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meetcore.adapters.sandbox.state import SandboxEnding, SandboxMeetingState
from meetcore.ports.store import StoreUnavailable

_UNAVAILABLE_ERRORS = (
    psycopg.OperationalError, psycopg.InterfaceError, PoolClosed, PoolTimeout, TooManyRequests,
    psycopg.errors.ReadOnlySqlTransaction,
)  # fmt: skip

# The state of a meeting.
_GET = "SELECT state FROM sandbox_meetings WHERE provider_meeting_id = %(id)s"

# Takes a step of `STEPS`: any first one, and from started to ended. Returns a row if taken.
_PUT = """
INSERT INTO sandbox_meetings AS known (provider_meeting_id, state) VALUES (%(id)s, %(state)s)
ON CONFLICT (provider_meeting_id) DO UPDATE SET state = excluded.state, changed_at = clock_timestamp()
WHERE known.state = 'started' AND excluded.state = 'ended'
RETURNING state
"""

# The current key of a host.
_HOST_KEY = "SELECT host_key FROM sandbox_host_keys WHERE provider_user_id = %(user)s"

# Replaces the key of a host; the last writer wins.
_PUT_HOST_KEY = """
INSERT INTO sandbox_host_keys (provider_user_id, host_key) VALUES (%(user)s, %(host_key)s)
ON CONFLICT (provider_user_id) DO UPDATE SET host_key = excluded.host_key, changed_at = clock_timestamp()
"""

# The end of a meeting and the removed files of its recording; no row before the end.
_ENDING = """
SELECT changed_at, ARRAY(
    SELECT provider_file_id FROM sandbox_removed_files WHERE provider_meeting_id = %(id)s
) AS removed
FROM sandbox_meetings WHERE provider_meeting_id = %(id)s AND state = 'ended'
"""

# Records a removed file.
_REMOVE_FILE = """
INSERT INTO sandbox_removed_files (provider_meeting_id, provider_file_id) VALUES (%(id)s, %(file)s)
ON CONFLICT DO NOTHING
"""


class PostgresSandboxState:
    """Stores states and keys over a pool with dict rows in autocommit mode."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        async with self._connection() as connection:
            row = await (await connection.execute(_GET, {"id": provider_meeting_id})).fetchone()
        return None if row is None else SandboxMeetingState(row["state"])

    async def put(self, provider_meeting_id: str, state: SandboxMeetingState) -> bool:
        values = {"id": provider_meeting_id, "state": state.value}
        async with self._connection() as connection:
            return await (await connection.execute(_PUT, values)).fetchone() is not None

    async def host_key(self, provider_user_id: str) -> str | None:
        async with self._connection() as connection:
            row = await (await connection.execute(_HOST_KEY, {"user": provider_user_id})).fetchone()
        return None if row is None else str(row["host_key"])

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        values = {"user": provider_user_id, "host_key": host_key}
        async with self._connection() as connection:
            await connection.execute(_PUT_HOST_KEY, values)

    async def ending(self, provider_meeting_id: str) -> SandboxEnding | None:
        async with self._connection() as connection:
            row = await (await connection.execute(_ENDING, {"id": provider_meeting_id})).fetchone()
        return None if row is None else SandboxEnding(row["changed_at"], frozenset(row["removed"]))

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        values = {"id": provider_meeting_id, "file": provider_file_id}
        async with self._connection() as connection:
            await connection.execute(_REMOVE_FILE, values)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        try:
            async with self._pool.connection() as connection:
                yield connection
        except _UNAVAILABLE_ERRORS as error:
            raise StoreUnavailable("the database does not answer") from error
