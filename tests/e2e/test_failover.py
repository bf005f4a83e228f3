"""The primary dies under load and its standby is promoted: nothing acknowledged is lost or doubled.

`MEETCORE_TEST_FAILOVERS` is the number of failovers (1), `MEETCORE_TEST_OUTAGE_S` the seconds without a
primary (0). From two failovers on, losses of an asynchronous standby are counted too. `-s` prints the
figures.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest
from attrs import define, evolve, field

from meetcore.adapters.postgres.migrate import migrate
from tests.e2e.customers import client
from tests.e2e.meeting_invariants import (
    VISIBLE,
    MeetingCustomer,
    add_hosts,
    check_answers,
    enrolled,
    read_records,
)
from tests.e2e.outbox import ask
from tests.support.program import Launcher, Running, Site, until
from tests.support.replicated_postgres import Pair, find_programs, postgres_pair

FAILOVERS = int(os.environ.get("MEETCORE_TEST_FAILOVERS", "1"))
OUTAGE_S = float(os.environ.get("MEETCORE_TEST_OUTAGE_S", "0"))
LONG = pytest.mark.skipif(FAILOVERS < 2, reason="only in the long run: see MEETCORE_TEST_FAILOVERS")
SOON_S = 5.0
CLIENTS = 4
HOSTS = 20
HOURS = 480
UNDER_WAY = (
    "SELECT id FROM meetings WHERE lease_until IS NOT NULL OR status IN ('provisioning', 'cancelling')"
)
MEETINGS = 40
"""Acknowledged before each kill."""


@pytest.fixture(scope="module")
def programs() -> Path:
    found = find_programs()
    if found is None:
        pytest.skip("no PostgreSQL server programs")
    return found


@define
class Load:
    """Clients that create meetings, each until acknowledged. `made` has the times of request and answer."""

    customer: MeetingCustomer
    url: str
    made: list[tuple[float, float]] = field(factory=list)
    faults: list[BaseException] = field(factory=list)
    _hours: Iterator[int] = field(factory=count)
    _is_over: threading.Event = field(factory=threading.Event)

    def _run(self) -> None:
        try:
            with client(self.url, self.customer.api_key) as http:
                while not self._is_over.is_set():
                    key = self.customer.new_key(next(self._hours) % HOURS)
                    while not self._is_over.is_set() and not self._is_made(http, key):
                        self._is_over.wait(0.05)
        except BaseException as fault:
            self.faults.append(fault)
            raise

    def _is_made(self, http: httpx.Client, key: str) -> bool:
        asked_at = time.monotonic()
        is_made = self.customer.create(http, key)
        if is_made:
            self.made.append((asked_at, time.monotonic()))
        return is_made

    @contextmanager
    def running(self) -> Iterator[None]:
        """Create meetings until the block ends."""
        threads = [threading.Thread(target=self._run) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def wait_for(self, more: int) -> None:
        wanted = len(self.made) + more
        until(lambda: len(self.made) >= wanted or self.faults, "meetings are made")
        assert not self.faults

    def first_after(self, moment: float) -> float:
        """Wait for the first meeting requested after a moment; return the time of its answer."""
        until(lambda: self.faults or any(sent > moment for sent, _ in self.made), "a meeting is made")
        assert not self.faults
        return min(at for sent, at in self.made if sent > moment)


@contextmanager
def serving(launcher: Launcher, pair: Pair, **settings: object) -> Iterator[tuple[Site, Running]]:
    """Run the program with both servers in its address, a schema and hosts."""
    migrate(pair.primary.url)
    site = Site(launcher, pair.url, settings)
    add_hosts(site, HOSTS)
    with site.serve(meeting_lease_s=11) as api:
        yield site, api


def at_primary(site: Site, pair: Pair) -> Site:
    """The database as the new primary has it."""
    return evolve(site, database_url=pair.primary.url)


def fail_over(pair: Pair, load: Load) -> float:
    """Kill the primary under load and promote the standby; return the seconds until the first meeting."""
    load.wait_for(MEETINGS)
    pair.kill(pair.primary)
    killed_at = time.monotonic()
    time.sleep(OUTAGE_S)
    pair.promote()
    promoted_at = time.monotonic()
    return load.first_after(killed_at) - promoted_at


def test_a_synchronous_standby_has_everything_that_was_acknowledged(
    programs: Path, launcher: Launcher
) -> None:
    with postgres_pair(programs) as pair, serving(launcher, pair) as (site, api):
        customer = enrolled(at_primary(site, pair))
        load, waits_s = Load(customer, api.url), []
        pair.attach_standby(is_synchronous=True)
        with load.running():
            for number in range(FAILOVERS):
                if number:
                    pair.attach_standby(is_synchronous=True)
                waits_s.append(fail_over(pair, load))
        acknowledged = len(customer.made)
        customer.settle(api.url)
        prove(at_primary(site, pair), customer)
        assert max(waits_s) < SOON_S, waits_s
        shown = ", ".join(f"{wait_s:.1f}" for wait_s in waits_s)
        print(f"{FAILOVERS} failovers: {acknowledged} acknowledged, 0 lost, 0 doubled; first after {shown} s")


@LONG
def test_without_its_synchronous_standby_nothing_is_acknowledged_until_it_is_back(
    programs: Path, launcher: Launcher
) -> None:
    with postgres_pair(programs) as pair, serving(launcher, pair, database_timeout_s=4) as (site, api):
        customer = enrolled(at_primary(site, pair))
        pair.attach_standby(is_synchronous=True)
        with client(api.url, customer.api_key) as http:
            key = customer.new_key(0)
            pair.kill(pair.standby)
            began = time.monotonic()
            assert not customer.create(http, key), "503"
            assert time.monotonic() - began < 10
            pair.start(pair.standby)
            until(lambda: customer.create(http, key), "an answer")
        prove(at_primary(site, pair), customer)


@LONG
@pytest.mark.parametrize("behind_s", [0.0, 1.0, 5.0])
def test_an_asynchronous_standby_loses_what_it_was_behind(
    programs: Path, launcher: Launcher, behind_s: float
) -> None:
    with postgres_pair(programs) as pair, serving(launcher, pair) as (site, api):
        customer = enrolled(at_primary(site, pair))
        load = Load(customer, api.url)
        pair.attach_standby(is_synchronous=False)
        with load.running():
            load.wait_for(MEETINGS)
            if behind_s:
                pair.freeze_replication()
                time.sleep(behind_s)
            pair.kill(pair.primary)
            killed_at = time.monotonic()
            pair.promote()
            load.first_after(killed_at)
        acknowledged = {made["id"] for made in customer.made.values()}
        last_s = sum(killed_at - 1 - behind_s < at <= killed_at for _, at in load.made) / (1 + behind_s)
        records = read_records(at_primary(site, pair))
        lost = acknowledged - {str(id_) for id_ in records.statuses}
        proof = at_primary(site, pair).cli("credits", "verify")
        assert proof["is_sound"], "a ledger cannot know what it never had"
        assert bool(lost) >= (behind_s > 0)
        print(f"{behind_s} s behind: {len(lost)} of {len(acknowledged)} lost, at {last_s:.0f} a second")


def prove(site: Site, customer: MeetingCustomer) -> None:
    """Check answers, one meeting per key, one charge per meeting, and the ledger."""
    until(lambda: not ask(site, UNDER_WAY), "nothing is under way")
    records = read_records(site)
    visible = {id_ for id_, status in records.statuses.items() if status in VISIBLE}
    assert records.charged.keys() == visible
    assert {made["id"] for made in customer.made.values()} == {str(id_) for id_ in visible}
    assert len(visible) == len(customer.wanted)
    check_answers(site, customer, records)
    proof = site.cli("credits", "verify")
    assert (proof["is_sound"], proof["findings"]) == (True, [])
