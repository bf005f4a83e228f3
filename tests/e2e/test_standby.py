"""Lists from a standby: read-your-writes per key, and no failures with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from attrs import define, field

from meetcore.adapters.postgres.migrate import migrate
from tests.e2e.customers import client, enrol, meeting_body
from tests.e2e.meeting_invariants import add_hosts
from tests.support.program import Launcher, Site, free_port, until
from tests.support.replicated_postgres import Pair, find_programs, postgres_pair
from tests.support.scrape import scrape, value

LISTS = "meetcore_list_reads_total"
CREDITS = 10_000
SLOWEST_S = 4.0
"""For a list that tried a dying standby first, on a busy machine."""
OF_LISTS = "SELECT DISTINCT 1 FROM pg_stat_activity WHERE application_name ~ '^meetcore serve lists'"


@define
class Readers:
    """Clients that list continuously; each answer must be 200, and meetings complete."""

    url: str
    key: str
    made: list[str]
    answers: int = 0
    slowest_s: float = 0.0
    faults: list[str] = field(factory=list)
    _is_over: threading.Event = field(factory=threading.Event)

    def _run(self) -> None:
        with client(self.url, self.key) as http:
            while not self._is_over.is_set() and not self.faults:
                for path in ("/meetings?limit=100", "/notes", "/events"):
                    began = time.monotonic()
                    answer = http.get(path)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                    self.answers += 1
                    if answer.status_code != 200:
                        self.faults.append(answer.text)
                    elif path.startswith("/meetings") and ids_of(answer) != self.made:
                        self.faults.append(f"{len(ids_of(answer))} of {len(self.made)} meetings")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read until the block ends, without a failure."""
        threads = [threading.Thread(target=self._run) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()
        assert not self.faults, self.faults[0]

    def wait_for(self, more: int) -> None:
        wanted = self.answers + more
        until(lambda: self.answers >= wanted or self.faults, "answers")


def ids_of(answer: httpx.Response) -> list[str]:
    return [each["id"] for each in answer.json()["data"]]


def read_from(port: int, source: str) -> float:
    """Return the number of lists read from a source."""
    return value(scrape(port), LISTS, source=source)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server programs")
    with postgres_pair(programs) as made:
        migrate(made.primary.url)
        yield made


def test_lists_come_from_the_standby_with_what_the_key_has_written(pair: Pair, launcher: Launcher) -> None:
    site = Site(launcher, pair.primary.url, {"database_read_url": pair.standby.url})
    add_hosts(site, 3)
    _, _, key = enrol(site, CREDITS)
    port = free_port()
    # There is no standby yet: the service starts, and serves.
    with site.serve(None, "--metrics-port", port) as api, client(api.url, key) as http:
        made: list[str] = []
        paid: list[int] = []

        def make() -> None:
            answer = http.post("/meetings", json=meeting_body())
            assert answer.status_code == 201, answer.text
            made.insert(0, answer.json()["id"])
            paid.append(answer.json()["credits_deducted"])
            assert listed() == made

        def listed() -> list[str]:
            return ids_of(http.get("/meetings?limit=100"))

        make()
        assert read_from(port, "standby") == 0
        assert read_from(port, "away") == 1

        pair.attach_standby(is_synchronous=False)
        until(lambda: listed() and read_from(port, "standby"), "the standby is read")
        assert pair.ask(pair.standby, OF_LISTS) == [(1,)]
        assert pair.ask(pair.primary, OF_LISTS) == []

        pair.ask(pair.standby, "SELECT pg_wal_replay_pause()")
        for _ in range(3):
            make()
        behind = read_from(port, "own_write") + read_from(port, "behind")
        assert behind >= 3
        left = CREDITS - sum(paid)
        assert left < CREDITS
        assert http.get("/me").json()["credits"]["balance"] == http.get("/credits").json()["balance"] == left

        pair.ask(pair.standby, "SELECT pg_wal_replay_resume()")
        before = read_from(port, "standby")
        until(lambda: listed() and read_from(port, "standby") > before, "it is read again")

        readers = Readers(api.url, key, made)
        with readers.running():
            readers.wait_for(30)
            pair.kill(pair.standby)
            readers.wait_for(100)
        assert readers.slowest_s < SLOWEST_S
        assert read_from(port, "away") > 1
