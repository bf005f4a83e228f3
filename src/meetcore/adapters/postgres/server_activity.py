"""What the server itself reports of its transactions and standbys."""

# The oldest transaction of others in this database, and the standby that is furthest behind, as far as the role sees them.
SERVER = """
SELECT (SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()) AS xact_start,
    COALESCE((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8 AS lag_s,
    statement_timestamp() AS now
"""
