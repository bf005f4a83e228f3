"""Two roles: the owner of the tables, who migrates, and the service's, who can only add to ledger and audit log.

The owner of a table can do anything to it, triggers or not. The service's role has no DDL, and neither UPDATE
nor DELETE nor TRUNCATE on the ledger and the audit log: its password does not suffice to change them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from meetcore.adapters.postgres import repository, session
from meetcore.adapters.postgres.pool import application_name, translated

_MAY_READ = "pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"

# Whether the role sees the activity of others; one that does not is shown what it does itself, and no lag.
_PRIVILEGE = f"SELECT {_MAY_READ}"

# The oldest transaction of others in this database, and the standby that is furthest behind, where the role sees them;
# whether the last WAL file that was to be archived was not, where any was to be.
SERVER = f"""
SELECT {_MAY_READ} AS may_read,
    (SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()) AS xact_start,
    COALESCE((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8 AS lag_s,
    (SELECT COALESCE(last_failed_time > COALESCE(last_archived_time, '-infinity'), false) FROM pg_stat_archiver
        WHERE current_setting('archive_mode') <> 'off') AS is_archiving_failing,
    pg_database_size(current_database()) AS size_bytes,
    (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()) AS oldest_xid_age,
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


APPEND_ONLY: Final = ("ledger_entries", "ledger_transfers", "audit_log")
"""Tables that are only added to."""
VERSIONS: Final = "schema_migrations"

# The tables of the service, with what its role needs on each; a partition is reached through its table.
_NEEDED = """
SELECT c.oid, c.relname AS name, n.nspname AS schema,
    CASE WHEN starts_with(c.relname, %(versions)s) THEN '{SELECT}'::text[]
         WHEN c.relkind = 'v' THEN '{SELECT}'
         WHEN c.relname = ANY(%(append_only)s) THEN '{SELECT,INSERT}'
         ELSE '{SELECT,INSERT,UPDATE,DELETE}' END AS needed
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v')
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass(%(versions)s))
    AND NOT c.relispartition
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
"""

# The tables on which the session's role lacks something.
_LACKING = f"""
SELECT name FROM ({_NEEDED}) AS t
WHERE NOT (SELECT bool_and(has_table_privilege(current_user, t.oid, p)) FROM unnest(needed) AS p)
ORDER BY name
"""

# What a role may do that the service need not: alter the tables that are only added to, change what is in them, make others.
_EXCESS = """
SELECT r.rolsuper AS is_superuser,
    COALESCE(bool_or(pg_has_role(r.oid, c.relowner, 'MEMBER')), false) AS is_owner,
    COALESCE(bool_or(has_table_privilege(r.oid, c.oid, 'UPDATE, DELETE, TRUNCATE')
        OR has_any_column_privilege(r.oid, c.oid, 'UPDATE')), false) AS may_change,
    COALESCE(bool_or(has_schema_privilege(r.oid, c.relnamespace, 'CREATE')), false) AS may_create,
    current_database() AS database
FROM pg_roles r LEFT JOIN pg_class c ON c.oid = ANY(%(append_only)s::regclass[])
WHERE r.rolname = COALESCE(%(role)s, current_user) GROUP BY r.oid, r.rolsuper
"""

_PARAMETERS: Final = {"versions": VERSIONS, "append_only": list(APPEND_ONLY)}


# Who was given the service's work before: the roles, beside the owner, that may add accounts.
_GRANTEES = """
SELECT DISTINCT r.rolname AS role
FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS a JOIN pg_roles r ON r.oid = a.grantee
WHERE c.oid = to_regclass('accounts') AND a.privilege_type = 'INSERT' AND a.grantee <> c.relowner
"""


class GrantRefused(Exception):
    """The role cannot be the service's; the message says why and what to do."""


def grant_service(url: str, role: str) -> None:
    """Give a role what the service needs and nothing more, as the owner of the tables.

    Raises `GrantRefused`: no such role, or it owns the tables or may do as their owner; or the session's role
    does not own them.
    """
    with _connected(url, "migrate") as connection:
        if not _rows(connection, _NEEDED, _PARAMETERS):
            raise GrantRefused("there are no tables yet: run `meetcore migrate` first")
        _check_grantor(connection)
        _check_grantee(connection, role)
        with connection.transaction():
            _grant(connection, role)
        left = _excess(connection, role)
    if left["may_change"] or left["may_create"]:
        raise GrantRefused(
            f"{role} may still change the ledger or make tables, by another role that it belongs to or by PUBLIC: "
            "revoke that first"
        )


@contextmanager
def granting(connection: psycopg.Connection) -> Iterator[None]:
    """Give the service's roles their rights on each table that the block makes, in its transaction."""
    before = {row["oid"] for row in _rows(connection, _NEEDED, _PARAMETERS)}
    yield
    made = [row for row in _rows(connection, _NEEDED, _PARAMETERS) if row["oid"] not in before]
    for grantee in _rows(connection, _GRANTEES, {}) if made else ():
        for table in made:
            connection.execute(_grant_on(table, grantee["role"]))


def _check_grantor(connection: psycopg.Connection) -> None:
    """PostgreSQL itself only warns where nothing was granted."""
    found = _excess(connection, None)
    if not (found["is_superuser"] or found["is_owner"]):
        raise GrantRefused(
            "only the owner of the tables can grant: give this command its address in MEETCORE_DATABASE_URL"
        )


def _check_grantee(connection: psycopg.Connection, role: str) -> None:
    found = _excess(connection, role)
    if not found:
        raise GrantRefused(f"there is no role {role}: CREATE ROLE {role} LOGIN PASSWORD '…'")
    if found["is_superuser"] or found["is_owner"]:
        raise GrantRefused(
            f"{role} owns the tables or may act as their owner, and nothing can be kept from it: "
            "make a role of its own for the service"
        )


def _grant(connection: psycopg.Connection, role: str) -> None:
    # Two that grant at once change the same rows of the catalogue, which PostgreSQL refuses to the second.
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (repository.GRANTS,))
    tables = _rows(connection, _NEEDED, _PARAMETERS)
    grantee, schema = sql.Identifier(role), sql.Identifier(tables[0]["schema"])
    statements = [
        sql.SQL("REVOKE CREATE ON SCHEMA {} FROM {}").format(schema, grantee),
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, grantee),
        sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(schema, grantee),
    ]
    statements += [_grant_on(table, role) for table in tables]
    for statement in statements:
        connection.execute(statement)


def _grant_on(table: dict[str, Any], role: str) -> sql.Composed:
    name = sql.Identifier(table["schema"], table["name"])
    privileges = sql.SQL(", ").join(map(sql.SQL, table["needed"]))
    return sql.SQL("GRANT {} ON {} TO {}").format(privileges, name, sql.Identifier(role))


def describe_role(url: str) -> list[str]:
    """Describe what the role of an address lacks, and what it could do to the ledger."""
    with _connected(url, "check") as connection:
        return [*role_faults(connection), *role_warnings(connection)]


@contextmanager
def _connected(url: str, role: str) -> Iterator[psycopg.Connection]:
    with (
        translated(),
        psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=10,
            application_name=application_name(role),
            **session.ENCODING,
        ) as connection,
    ):
        yield connection


def role_faults(connection: psycopg.Connection) -> list[str]:
    """Describe what the session's role lacks for the service's work."""
    lacking = [row["name"] for row in _rows(connection, _LACKING, _PARAMETERS)]
    if not lacking:
        return []
    return [
        f"the role lacks privileges on {', '.join(lacking)}: run `meetcore migrate --grant-to ROLE` as the owner"
    ]


def role_warnings(connection: psycopg.Connection) -> list[str]:
    """Describe what the session's role could do to the ledger."""
    found = _excess(connection, None)
    remedy = "give the service a role of its own with `meetcore migrate --grant-to ROLE`"
    if found.get("is_superuser"):
        return [f"the role is a superuser and could rewrite the ledger: {remedy}"]
    if found.get("is_owner"):
        return [f"the role owns the tables and could rewrite the ledger: {remedy}"]
    if found.get("may_change") or found.get("may_create"):
        return [f"the role may change the ledger or make tables: {remedy}"]
    return []


def _excess(connection: psycopg.Connection, role: str | None) -> dict[str, Any]:
    known = [
        name
        for name in APPEND_ONLY
        if _rows(connection, "SELECT to_regclass(%(n)s) AS it", {"n": name})[0]["it"]
    ]
    found = _rows(connection, _EXCESS, {"append_only": known, "role": role})
    return found[0] if found else {}


def _rows(connection: psycopg.Connection, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute(statement.encode(), parameters).fetchall()
