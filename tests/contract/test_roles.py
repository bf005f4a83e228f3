"""The service's own role: it does all of the service's work, and cannot change the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from meetcore.adapters.postgres.roles import GrantRefused, describe_role, grant_service
from tests.support import servers
from tests.support.texts import assert_contains

PASSWORD = "hunter2"


def as_role(url: str, role: str) -> str:
    """The address of the same database for another role."""
    at = urlsplit(url)
    return urlunsplit(at._replace(netloc=f"{role}:{PASSWORD}@{at.netloc.rpartition('@')[2]}"))


@pytest.fixture(scope="module")
def owned(postgres_server_url: str) -> Iterator[tuple[str, str]]:
    """A migrated database as its owner sees it, and a role that was granted the service's work."""
    servers.skip_without_roles(postgres_server_url)
    role = f"service_{uuid4().hex[:8]}"
    with (
        servers.migrated_database(postgres_server_url) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
        try:
            for _ in range(2):  # after each release
                grant_service(url, role)
            yield url, role
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


LEDGER = ("ledger_entries", "ledger_transfers")
ATTACKS = [
    *(f"UPDATE {table} SET amount = amount + 1000000" for table in LEDGER),
    *(f"DELETE FROM {table}" for table in LEDGER),
    *(f"TRUNCATE {table}" for table in LEDGER),
    *(f"DROP TABLE {table}" for table in LEDGER),
    *(f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in LEDGER),
    *(f"ALTER TABLE {table} OWNER TO CURRENT_USER" for table in LEDGER),
    "UPDATE audit_log SET actor_name = 'nobody'",
    "DELETE FROM audit_log",
    "TRUNCATE audit_log",
    "SET session_replication_role = replica",
    "ALTER FUNCTION refuse_change() RENAME TO allow_change",
    "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TABLE mine (id int)",
    "DELETE FROM schema_migrations",
    "UPDATE schema_migrations SET checksum = ''",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_service_role_cannot_change_ledger_or_audit_log(owned: tuple[str, str], attack: str) -> None:
    url, role = owned
    with (
        psycopg.connect(as_role(url, role)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(attack.encode())


def test_what_a_role_lacks_or_has_too_much_of_is_described(owned: tuple[str, str]) -> None:
    url, role = owned
    assert describe_role(as_role(url, role)) == []
    [message] = describe_role(url)
    assert_contains(message, "could rewrite the ledger", "--grant-to")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"REVOKE INSERT ON meetings FROM {role}".encode())
        [lacking] = describe_role(as_role(url, role))
        assert "lacks privileges on meetings" in lacking
        connection.execute(f"GRANT UPDATE (amount) ON ledger_entries TO {role}".encode())
        assert "may change the ledger" in describe_role(as_role(url, role))[1]
    grant_service(url, role)
    assert describe_role(as_role(url, role)) == []


def test_hosts_that_migrate_at_once_all_grant(owned: tuple[str, str]) -> None:
    url, role = owned
    with ThreadPoolExecutor(4) as hosts:
        for granted in [hosts.submit(grant_service, url, role) for _ in range(8)]:
            granted.result()
    assert describe_role(as_role(url, role)) == []


def test_role_that_cannot_be_the_services_is_refused(owned: tuple[str, str], empty_database_url: str) -> None:
    url, role = owned
    with pytest.raises(GrantRefused, match="CREATE ROLE nobody_at_all"):
        grant_service(url, "nobody_at_all")
    with psycopg.connect(url) as connection:
        (owner,) = connection.execute("SELECT current_user").fetchone() or ("",)
    with pytest.raises(GrantRefused, match="owns the tables"):
        grant_service(url, owner)
    with pytest.raises(GrantRefused, match="only the owner"):
        grant_service(as_role(url, role), role)
    with pytest.raises(GrantRefused, match="no tables yet"):
        grant_service(empty_database_url, role)
    group = f"group_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {group}; GRANT UPDATE ON ledger_entries TO {group}".encode())
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(role)))
        try:
            with pytest.raises(GrantRefused, match="another role that it belongs to"):
                grant_service(url, role)
        finally:
            connection.execute(f"DROP OWNED BY {group}; DROP ROLE {group}".encode())
    grant_service(url, role)
