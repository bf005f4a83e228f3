"""PgBouncer in transaction mode before a server of the tests.

`python -m tests.support.pooler pytest tests/e2e` runs a command with a pooler before every test's database,
on the server of `MEETCORE_TEST_DATABASE_URL`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from attrs import frozen
from psycopg.rows import dict_row

from meetcore.adapters.postgres.pool import session_settings
from tests.support.program import START_S, TIMEOUT_S, at_port, free_port, until

CONFIGURATION = """
[databases]
* = host={host} port={server_port} auth_user={owner}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = hba
auth_hba_file = {hba}
auth_file = {users}
pool_mode = transaction
max_client_conn = 1000
default_pool_size = {connections}
min_pool_size = 0
server_idle_timeout = 1
query_wait_timeout = 20
admin_users = {owner}
logfile =
{more}
"""

USERS, HBA, FILE = "@users@", "@hba@", "@file@"
# The role of the tests comes in as at the server itself; others by passwords, which the server is asked for.
ADMISSION = "host all {owner} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def program() -> str | None:
    """Return the installed PgBouncer."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@frozen
class Pooler:
    """A running PgBouncer with a connection limit per database and user."""

    port: int

    def url(self, direct: str) -> str:
        """Return the pooled address of a database."""
        return at_port(direct, self.port)

    def clients(self, direct: str) -> int:
        """Return the number of a database's client connections."""
        at = urlsplit(self.url(direct))
        with psycopg.connect(
            at._replace(path="/pgbouncer").geturl(),
            autocommit=True,
            prepare_threshold=None,
            row_factory=dict_row,
        ) as connection:
            pools = connection.execute("SHOW POOLS").fetchall()
        ours = [pool for pool in pools if pool["database"] == at.path.lstrip("/")]
        return sum(pool["cl_active"] + pool["cl_waiting"] for pool in ours)


@contextmanager
def pooling(server_url: str, connections: int = 20, more: str = "") -> Iterator[Pooler]:
    """Run PgBouncer before a server."""
    at, port = urlsplit(server_url), free_port()
    text = CONFIGURATION.format(
        host=at.hostname, server_port=at.port or 5432, port=port, users=USERS, hba=HBA,
        owner=at.username or "postgres", connections=connections, more=more,
    )  # fmt: skip
    pooler = Pooler(port)
    with running(text, pooler.url(server_url)):
        yield pooler


@contextmanager
def running(
    configuration: str, url: str, script: str = "", variables: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run PgBouncer; `USERS` and `HBA` in the configuration stand for files that admit the user of a URL.

    Args:
        configuration: the ini file.
        url: a pooled database.
        script: a shell script that starts it, with `FILE` for the configuration and `USERS` for the users,
            which it writes.
        variables: the script's environment.
    """
    binary, at = program(), urlsplit(url)
    assert binary is not None
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o755)
        users, hba, file = (directory / name for name in ("users.txt", "hba.txt", "pgbouncer.ini"))
        owner = at.username or "postgres"
        users.write_text(f'"{owner}" "{at.password or ""}"\n')
        hba.write_text(ADMISSION.format(owner=owner))
        file.write_text(configuration.replace(USERS, str(users)).replace(HBA, str(hba)))
        # It does not run as root.
        user = _ordinary_user() if os.geteuid() == 0 else None
        command = [binary, "-q", str(file)]
        if script:
            users.unlink()
            command = ["sh", "-c", script.replace(USERS, str(users)).replace(FILE, str(file))]
        if user is not None:
            shutil.chown(directory, user)
        child = subprocess.Popen(
            command, user=user, stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin", **(variables or {})},
        )  # fmt: skip
        try:
            until(lambda: _answers(url), "PgBouncer is up", START_S)
            yield
        finally:
            child.terminate()
            child.wait(TIMEOUT_S)


def keep_session_settings(direct: str, deadline_s: int = 12) -> None:
    """Set on a database the settings of the service's role: tests share one role."""
    name = urlsplit(direct).path.lstrip("/")
    with psycopg.connect(direct, autocommit=True) as connection:
        for setting, value in session_settings(deadline_s).items():
            connection.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'".encode())


def _ordinary_user() -> str:
    return next(user.pw_name for user in pwd.getpwall() if user.pw_name in {"postgres", "nobody"})


def _answers(url: str) -> bool:
    try:
        with psycopg.connect(url, prepare_threshold=None, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


if __name__ == "__main__":
    with pooling(os.environ["MEETCORE_TEST_DATABASE_URL"]) as pooler:
        own = {"MEETCORE_TEST_POOLER_PORT": str(pooler.port)}
        raise SystemExit(subprocess.call(sys.argv[1:], env=os.environ | own))
