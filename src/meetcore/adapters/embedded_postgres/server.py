"""Starting and stopping the embedded server.

It owns the order of things: user, programs, directory, lock, watcher, first connection. A server that
another program started is never adopted: one data directory, one program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import psycopg
from psycopg import sql

from meetcore.adapters.embedded_postgres import watcher
from meetcore.adapters.embedded_postgres.account import account_for
from meetcore.adapters.embedded_postgres.binaries import programs_for
from meetcore.adapters.embedded_postgres.directory import ROLE, DataDirectory
from meetcore.adapters.embedded_postgres.error import EmbeddedPostgresError

START_SECONDS = 60.0  # a server that recovers after a crash reads its log first
STOP_SECONDS = 20.0  # longer than all the watcher's ways to stop it
PAUSE_SECONDS = 0.01

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": "5432",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "fsync": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "256MB",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "cluster_name": "meetcore",
}


class EmbeddedPostgres:
    """One server on one data directory.

    Not for several threads at once. Another process may not start a second one on the same directory; the
    directory is free again when this one has stopped, or when its program has ended. The data lies in `home`,
    which differs from the requested directory `asked` once it is started, where root asked for one that the
    user Postgres runs as cannot reach.
    """

    def __init__(self, data_dir: Path, *, database: str = "meetcore") -> None:
        """Name the directory; nothing is touched before ``start``.

        Args:
            data_dir: where the data is kept. Made if missing.
            database: the database that the URL names. Made if missing.
        """
        self.home = data_dir.expanduser().resolve()
        self.asked = self.home
        self._database = database
        self._watcher: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Bring the server up.

        Returns:
            A libpq URL of the database. It names a Unix socket and holds no password.

        Raises:
            EmbeddedPostgresError: the directory is in use, the package is missing, or the server did not
            come up;
                the message says what to do.
        """
        if self._watcher is not None:
            raise EmbeddedPostgresError(f"the server on {self.home} is already started")
        try:
            account = account_for(self.asked)
            programs = programs_for(account)
            directory = DataDirectory(self.asked, account)
            self.home = directory.home
            socket_dir = self._launch(programs, directory)
        except OSError as trouble:
            raise EmbeddedPostgresError(f"cannot start Postgres on {self.home}: {trouble}") from trouble
        try:
            self._wait_until_up(socket_dir, directory)
        except BaseException:
            self.stop()
            raise
        return self._url(socket_dir, self._database)

    def _launch(self, programs: Path, directory: DataDirectory) -> Path:
        """Lock, clean up, set up if new, and pass the server to a watcher, which keeps the lock."""
        lock = directory.lock()
        try:
            directory.set_up(programs, lock)
            directory.tidy()
            directory.admit()
            socket_dir, temporary = directory.make_socket_dir()
            account = directory.account
            user = (account.uid, account.gid) if account.drops else (-1, -1)
            command = self._command(programs, directory, socket_dir)
            arguments = [*map(str, user), str(socket_dir) if temporary else "", *command]
            server_log = directory.open_log()
            try:
                self._watcher = subprocess.Popen(
                    [sys.executable, "-I", "-S", watcher.__file__, *arguments],
                    stdin=subprocess.PIPE, stdout=server_log, stderr=server_log,
                    cwd="/", pass_fds=[lock], start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(server_log)
        finally:
            os.close(lock)
        return socket_dir

    @staticmethod
    def _command(programs: Path, directory: DataDirectory, socket_dir: Path) -> list[str]:
        settings = SETTINGS | {
            "unix_socket_directories": f'"{socket_dir}"',
            "hba_file": str(directory.home / "hba.conf"),
            "ident_file": str(directory.home / "ident.conf"),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(programs / "postgres"), "-D", str(directory.cluster), *options]

    def _wait_until_up(self, socket_dir: Path, directory: DataDirectory) -> None:
        """Until a connection succeeds; then make the database if it is missing."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                url = self._url(socket_dir, "postgres")
                with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
                    self._make_database(connection)
                    return
            except psycopg.OperationalError as trouble:
                ended = self._watcher is None or self._watcher.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise EmbeddedPostgresError(
                        f"Postgres did not come up on {self.home}: {trouble}\n"
                        f"The end of {directory.log}:\n{directory.log_tail()}"
                    ) from trouble
                time.sleep(PAUSE_SECONDS)

    def _make_database(self, connection: psycopg.Connection) -> None:
        wanted = [self._database]
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", wanted)
        if found.fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._database)))

    @staticmethod
    def _url(socket_dir: Path, database: str) -> str:
        host, name = quote(str(socket_dir), safe=""), quote(database, safe="")
        return f"postgresql://{ROLE}@/{name}?host={host}&port=5432"

    @property
    def is_running(self) -> bool:
        """Whether the server that was started is still there."""
        return self._watcher is not None and self._watcher.poll() is None

    def stop(self) -> None:
        """Shut the server down, connections included, and wait for its end. Harmless when not started.

        Raises:
            EmbeddedPostgresError: it does not end, even by force.
        """
        if self._watcher is None:
            return
        process, self._watcher = self._watcher, None
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise EmbeddedPostgresError(
                f"the server on {self.home} does not stop: look for process {process.pid} and its children"
            ) from None

    def __enter__(self) -> str:
        """Start; the value is the URL."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
