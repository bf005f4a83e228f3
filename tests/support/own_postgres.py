"""A PostgreSQL server for one test, which may be frozen, restarted or made read-only."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define

from meetcore.adapters.embedded_postgres import EmbeddedPostgres


@define
class OwnPostgres:
    url: str
    server: EmbeddedPostgres

    def freeze(self) -> None:
        """Stop every process of the server: connections stay open without answers."""
        self._signal(self._postmaster, signal.SIGSTOP)  # the first, so that it starts no other
        for child in children_of(self._postmaster):
            self._signal(child, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in [*children_of(self._postmaster), self._postmaster]:
            self._signal(pid, signal.SIGCONT)

    def restart_as_standby(self) -> None:
        """Restart the server as a read-only hot standby."""
        self.server.stop()
        (self._cluster / "standby.signal").touch()
        self.url = self.server.start()

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, number)

    @property
    def _cluster(self) -> Path:
        return next(self.server.home.glob("*/PG_VERSION")).parent

    @property
    def _postmaster(self) -> int:
        return int((self._cluster / "postmaster.pid").read_text().split()[0])


def children_of(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found


@contextmanager
def own_postgres(**settings: str) -> Iterator[OwnPostgres]:
    """Run a server with these settings; thaw and stop it at the end."""
    # Not below pytest's own directory, which the user that root's Postgres runs as cannot enter.
    place = Path(tempfile.mkdtemp(prefix="meetcore-own-"))
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data", settings)
    try:
        running = OwnPostgres(server.start(), server)
        try:
            yield running
        finally:
            running.thaw()
            server.stop()
    finally:
        shutil.rmtree(place)
