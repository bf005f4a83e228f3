"""What the server itself reports of its transactions and standbys."""

import psycopg

_MAY_READ = "pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"

# Whether the role sees the activity of others; one that does not is shown what it does itself, and no lag.
_PRIVILEGE = f"SELECT {_MAY_READ}"

# The oldest transaction of others in this database, and the standby that is furthest behind, where the role sees them.
SERVER = f"""
SELECT {_MAY_READ} AS may_read,
    (SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()) AS xact_start,
    COALESCE((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8 AS lag_s,
    statement_timestamp() AS now
"""


def activity_warnings(connection: psycopg.Connection) -> list[str]:
    """Describe what the session's role does not see of the server."""
    row = connection.execute(_PRIVILEGE.encode()).fetchone()
    if row is not None and row[0]:
        return []
    return [
        "the role does not see transactions of others and standbys, and alerts on them never fire: "
        "GRANT pg_read_all_stats to it"
    ]
