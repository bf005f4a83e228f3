"""Making plans anew when tables have grown.

A statement is planned once for each connection. The plan of a table that was empty reads it from end to end, and
goes on doing so while thousands of rows come, until the server's own statistics are renewed, which takes minutes.
So each connection keeps how many rows the tables had when its plans were made, and discards all plans, those
of foreign keys included, once a table has doubled. The planner goes by the size that the table has at that moment.

The counts are those that the server collects for its statistics: reading them takes no lock.
"""

from time import monotonic

from meetcore.adapters.postgres.connection import Connection

_LOOK_EVERY_S = 1.0
# To read so many rows for nothing takes less time than to plan.
_SMALL_ROWS = 500

# How many rows each table has, by the server's statistics.
_SIZES = """
SELECT oid, pg_stat_get_live_tuples(oid) AS live_rows FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""


async def remember_sizes(connection: Connection) -> None:
    """Store how many rows each table has: plans are made for these."""
    connection.planned_rows = await _sizes(connection)
    connection.planned_at = monotonic()


async def renew_plans(connection: Connection) -> None:
    """Let go of all plans where a table has doubled since they were made; looks once a second."""
    if monotonic() - connection.planned_at < _LOOK_EVERY_S:
        return
    planned, found = connection.planned_rows, await _sizes(connection)
    if any(rows > max(_SMALL_ROWS, 2 * planned.get(table, 0)) for table, rows in found.items()):
        await connection.execute("DISCARD PLANS", prepare=False)
        planned = found
    # The server makes plans anew, too, also of tables that have shrunk.
    connection.planned_rows = {table: min(rows, planned.get(table, rows)) for table, rows in found.items()}
    connection.planned_at = monotonic()


async def _sizes(connection: Connection) -> dict[int, int]:
    rows = await (await connection.execute(_SIZES)).fetchall()
    return {row["oid"]: row["live_rows"] for row in rows}
