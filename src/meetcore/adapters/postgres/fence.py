"""The fence after a restore: a trigger on each table that refuses writes while a restore is fenced.

The trigger is there from `restore fence` to `restore release` only, so that a sale pays nothing for it. It refuses
by the row of `restores`, which is written in one moment after all triggers are there and released before any is
dropped: the fence goes up and down as a whole, also for sessions that are open.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from meetcore.adapters.postgres.advisory_locks import RECONCILIATION
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.ports.restores import FenceRefused

OUTSIDE_FENCE: Final = (
    "restores", "rate_counters", "ledger_verification", "sandbox_meetings", "sandbox_host_keys", "sandbox_removed_files",
)  # fmt: skip
"""Tables that the service writes behind the fence, too: counters, and what stands for a third party's memory."""

_VERSIONS: Final = "schema_migrations"
_TRIGGER: Final = "refuse_while_fenced"
_PARAMETERS: Final = {"trigger": _TRIGGER, "outside": list(OUTSIDE_FENCE), "versions": _VERSIONS}
_PUT_UP: Final = (
    "CREATE OR REPLACE TRIGGER {trigger} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION {trigger}()"
)
_TAKE_AWAY: Final = "DROP TRIGGER IF EXISTS {trigger} ON {table}"
_LOCK_TIMEOUT_S: Final = 2.0
_TRIES: Final = 30

# The tables that the service writes, whether each has the trigger, and whether the session may give or take it.
_TABLES = """
SELECT c.oid, quote_ident(c.relname) AS name, pg_has_role(c.relowner, 'USAGE') AS is_owned, EXISTS (
    SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = %(trigger)s) AS is_fenced
FROM pg_class c
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace
    AND c.relname <> ALL(%(outside)s) AND NOT starts_with(c.relname, %(versions)s)
ORDER BY c.relname
"""

# Takes the right to apply what a survey found, for a transaction that lasts as long as that: a pooler keeps its
# connection to the server, and a process that dies lets go.
_ALONE = """
SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_try_advisory_xact_lock(%(lock)s) AS is_taken
"""

_NOT_THE_OWNER: Final = (
    "only the owner of the tables can do this: give this command its address in MEETCORE_DATABASE_URL, as for "
    "`meetcore migrate`"
)

# Whether a restore is fenced.
_IS_FENCED = "SELECT FROM restores WHERE released_at IS NULL"


class PostgresFence:
    """The triggers. Needs the role that owns the tables; each table is locked for itself, for a moment."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put_up(self) -> None:
        await self._change(_PUT_UP, to_fence=True)

    async def take_away(self) -> None:
        await self._change(_TAKE_AWAY, to_fence=False)

    async def check_owner(self) -> None:
        with translated():
            if not all(table["is_owned"] for table in await self._tables()):
                raise FenceRefused(_NOT_THE_OWNER)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        with translated():
            async with self._pool.connection(deadline_s=math.inf) as connection, connection.transaction():
                row = await (await connection.execute(_ALONE, {"lock": RECONCILIATION})).fetchone()
                if row is None or not row["is_taken"]:
                    raise FenceRefused(
                        "another `meetcore restore` is at work, perhaps one whose terminal is gone: wait for "
                        "its end, then run this again"
                    )
                yield

    async def _tables(self) -> list[dict[str, Any]]:
        return await self._pool.read(_TABLES, _PARAMETERS)

    async def _change(self, statement: str, *, to_fence: bool) -> None:
        with translated():
            for table in await self._tables():
                if table["is_fenced"] is not to_fence:
                    text = statement.format(trigger=_TRIGGER, table=table["name"])
                    await self._patiently(table["name"], text)

    async def _patiently(self, table: str, statement: str) -> None:
        for _ in range(_TRIES):
            try:
                async with self._pool.connection() as connection, connection.transaction():
                    await _alter(connection, statement)
            except psycopg.errors.LockNotAvailable:
                await asyncio.sleep(0.1)  # others go on meanwhile
            except psycopg.errors.InsufficientPrivilege:
                raise FenceRefused(_NOT_THE_OWNER) from None
            else:
                return
        raise FenceRefused(
            f"the table {table} stays locked: end the long transactions that pg_stat_activity shows"
        )


async def _alter(connection: Connection, statement: str) -> None:
    await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT_S:g}s'", prepare=False)
    await connection.execute(statement, prepare=False)


@contextmanager
def fencing(connection: psycopg.Connection) -> Iterator[None]:
    """Put the fence, where it stands, in front of each table that the block makes, in its transaction."""
    before = {table["oid"] for table in _tables_of(connection)}
    yield
    made = [table for table in _tables_of(connection) if table["oid"] not in before]
    if made and _is_fenced(connection):
        for table in made:
            connection.execute(_PUT_UP.format(trigger=_TRIGGER, table=table["name"]).encode())


def _tables_of(connection: psycopg.Connection) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_TABLES.encode(), _PARAMETERS).fetchall()


def _is_fenced(connection: psycopg.Connection) -> bool:
    """Whether a restore is not released, also before the step that makes the table of restores."""
    there = connection.execute("SELECT FROM pg_class WHERE oid = to_regclass('restores')")
    return there.rowcount > 0 and connection.execute(_IS_FENCED).rowcount > 0
