"""The figures that an operator watches, by a few statements that stay cheap however much is stored.

Each age is the first entry of an index of what is due; each count stops at `MOST_COUNTED` entries of one, and so does
the look at what fails. The credits of a day are summed over the accounts that moved any.
"""

from collections.abc import Mapping

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.partitions.layout import LAYOUT, layout_of, layout_parameters
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.server_activity import SERVER
from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.figures import MOST_COUNTED, Figures

# How long the oldest of what is due has been due, and how much waits. A meeting in progress is as old as its creation; a
# cancellation, whose beginning is not kept, by the end of its lease.
_WORK = """
SELECT
    (SELECT min(due_at) FROM deliveries WHERE due_at IS NOT NULL AND NOT is_throttled) AS deliveries,
    (SELECT min(due_at) FROM provider_events WHERE due_at IS NOT NULL) AS provider_events,
    (SELECT min(due_at) FROM mails WHERE due_at IS NOT NULL) AS mails,
    (SELECT min(created_at) FROM (SELECT created_at, attempts_made FROM mails WHERE due_at IS NOT NULL
        ORDER BY due_at, id LIMIT %(most)s) AS m WHERE attempts_made > 0) AS failing_mails,
    (SELECT min(CASE WHEN status = 'provisioning' THEN created_at ELSE lease_until END) FROM (
        SELECT status, created_at, lease_until FROM meetings WHERE lease_until IS NOT NULL
        ORDER BY lease_until LIMIT 1000) AS m) AS meetings,
    (SELECT count(*) FROM (SELECT FROM deliveries WHERE due_at IS NOT NULL AND NOT is_throttled
        ORDER BY due_at LIMIT %(most)s) AS d) AS pending,
    (SELECT count(*) FROM (SELECT FROM deliveries WHERE status = 'held' ORDER BY held_at LIMIT %(most)s) AS d) AS held,
    (SELECT count(*) FROM (SELECT FROM deliveries WHERE is_throttled
        ORDER BY account_id, endpoint_id, due_at LIMIT %(most)s) AS d) AS parked,
    (SELECT max(number) FROM schema_migrations) AS schema_version,
    statement_timestamp() AS now
"""

# The oldest note in progress of each step: by when it was due, by when it was asked for, and that among those whose
# last try failed: they are due in the future, each time later.
_NOTES = """
SELECT step, min(due_at) AS due_at, min(created_at) AS created_at,
    min(created_at) FILTER (WHERE tries > 0) AS failing, statement_timestamp() AS now
FROM (SELECT step, due_at, created_at, tries FROM notes WHERE due_at IS NOT NULL ORDER BY due_at LIMIT %(most)s) AS n
GROUP BY step
"""

# What the balances of all accounts gained and lost today, by the kind of transfer. A day begins at 00:00 WIB.
_CREDITS = """
SELECT kind AS state, sum(credits)::bigint AS number FROM ledger_day_totals
WHERE day = ((statement_timestamp() AT TIME ZONE 'UTC') + interval '7 hours')::date GROUP BY kind
"""

# The standbys that follow: what takes a copy streams, too, and replays nothing. By bytes one that hangs is further and
# further behind; the lag by time that the server knows ends with what it replayed last.
_STANDBYS = """
SELECT pg_has_role('pg_read_all_stats', 'usage') AS is_seen,
    count(*) FILTER (WHERE state = 'streaming' AND replay_lsn IS NOT NULL) AS streaming,
    COALESCE(max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
        replay_lsn)), 0)::float8 AS lag_bytes
FROM pg_stat_replication
"""

# Endpoints that are not active, and all by the server's own statistics.
_ENDPOINTS = """
SELECT state, count(*) AS number FROM (
    SELECT state FROM webhook_endpoints WHERE state <> 'active' ORDER BY state LIMIT %(most)s) AS e GROUP BY state
UNION ALL SELECT 'all', pg_stat_get_live_tuples('webhook_endpoints'::regclass)
"""

# Hosts by what they can take now.
_HOSTS = """
SELECT CASE WHEN NOT h.is_active THEN 'disabled' WHEN h.unavailable_until > statement_timestamp() THEN 'unavailable'
        WHEN r.meetings >= h.max_concurrent THEN 'busy' ELSE 'free' END AS state, count(*) AS number
FROM hosts h CROSS JOIN LATERAL (
    SELECT count(*) AS meetings FROM host_reservations r
    WHERE r.host_id = h.id AND r.during @> statement_timestamp()) AS r
GROUP BY 1
"""

# What came of the last verification of the ledger.
_LEDGER = "SELECT verified_at, is_sound FROM ledger_verification"

# For how long the present round of each removal has run.
_RETENTION = "SELECT kind, started_at, statement_timestamp() AS now FROM retention_progress"

_PARAMETERS: Row = {"most": MOST_COUNTED} | layout_parameters()
_STATES = ("active", "paused", "disabled")
_HOST_STATES = ("free", "busy", "unavailable", "disabled")
_STEPS = ("fetch", "transcribe", "write", "settle")
_KINDS = tuple(kind.value for kind in TransferKind)


class PostgresFigures:
    """Reads them, each time on one connection of the pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self) -> Figures:
        with translated():
            async with self._pool.connection() as connection:
                return await _figures(connection)


async def _figures(connection: Connection) -> Figures:
    async def rows_of(statement: str) -> list[Row]:
        return await (await connection.execute(statement, _PARAMETERS)).fetchall()

    [work], [ledger], [server] = [await rows_of(each) for each in (_WORK, _LEDGER, SERVER)]
    notes, [standbys] = await rows_of(_NOTES), await rows_of(_STANDBYS)
    return Figures(
        deliveries_oldest_due_s=_age(work, "deliveries"),
        deliveries={state: work[state] for state in ("pending", "held", "parked")},
        endpoints=_endpoints(await rows_of(_ENDPOINTS)),
        provider_events_oldest_due_s=_age(work, "provider_events"),
        mails_oldest_due_s=_age(work, "mails"),
        mails_oldest_failing_s=_age(work, "failing_mails"),
        meetings_oldest_in_progress_s=_age(work, "meetings"),
        notes_oldest_due_s=_by_step(notes, "due_at"),
        notes_oldest_failing_s=_by_step(notes, "failing"),
        notes_oldest_s=_by_step(notes, "created_at"),
        hosts=dict.fromkeys(_HOST_STATES, 0) | _numbers(await rows_of(_HOSTS)),
        retention_rounds_s={row["kind"]: _age(row, "started_at") for row in await rows_of(_RETENTION)},
        ledger_verified_at=ledger["verified_at"],
        ledger_is_sound=ledger["is_sound"],
        oldest_transaction_s=_age(server, "xact_start") if server["may_read"] else None,
        replication_lag_s=server["lag_s"] if server["may_read"] else None,
        schema_version=work["schema_version"],
        partitions_ahead=layout_of(await rows_of(LAYOUT)).ahead(utc(work["now"])),
        credits_today=dict.fromkeys(_KINDS, 0) | _numbers(await rows_of(_CREDITS)),
        standbys_streaming=standbys["streaming"] if standbys["is_seen"] else None,
        replication_lag_bytes=standbys["lag_bytes"] if standbys["is_seen"] else None,
    )


def _age(row: Row, name: str) -> float:
    """Return for how many seconds something has been due; 0 where nothing is, or not yet."""
    since = row[name]
    return 0.0 if since is None else max(0.0, (row["now"] - since).total_seconds())


def _by_step(rows: list[Row], name: str) -> Mapping[str, float]:
    return dict.fromkeys(_STEPS, 0.0) | {row["step"]: _age(row, name) for row in rows}


def _numbers(rows: list[Row]) -> dict[str, int]:
    return {row["state"]: row["number"] for row in rows}


def _endpoints(rows: list[Row]) -> Mapping[str, int]:
    numbers = dict.fromkeys(_STATES, 0) | _numbers(rows)
    others = numbers["paused"] + numbers["disabled"]
    return numbers | {"active": min(MOST_COUNTED, max(0, numbers.pop("all") - others))}
