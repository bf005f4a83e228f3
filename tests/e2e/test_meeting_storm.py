"""Kills at random instants, under load and on a bad day of the provider; then three systems must still agree.

`MEETCORE_TEST_KILLS` is how many kills of the API there are, with those of `test_meeting_steps`; half as many
workers die beside them.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from attrs import define, field

from meetcore.adapters.postgres.migrate import migrate
from tests import servers
from tests.e2e.customers import client
from tests.e2e.meeting_invariants import LATE_S, MeetingCustomer, add_hosts, come_to_rest, enrolled, prove
from tests.e2e.program import Launcher, Running, Site, has_fault, until
from tests.e2e.zoom_stack import ZoomStack, tell, zoom_stack

WANTED = int(os.environ.get("MEETCORE_TEST_KILLS", "30"))
# Those of `test_meeting_steps`, which walks more ways in the long run.
STEP_KILLS = 21 if WANTED < 500 else 170
KILLS = max(9, WANTED - STEP_KILLS)
PATRONS = 3
APIS = 3
CLIENTS = 4
HOURS = 240
LATENCY_S = 0.04
LEASE_S = 2
CANCELLED, STARTED, RETRIED_AT_ONCE, FORSAKEN, ENDED = 0.4, 0.2, 0.3, 0.3, 0.5
WORKER_DIES, FORGIVEN = 0.5, 0.2

# What Zoom's bad days are made of; those that put a host to rest come seldom, or none would be left.
FAULTS: tuple[dict[str, object], ...] = (
    {"fault": "drop", "call": "create", "is_done": True},
    {"fault": "drop", "call": "create"},
    {"fault": "hang", "call": "create", "is_done": True},
    {"fault": "500", "call": "create", "is_done": True},
    {"fault": "garbage", "call": "create", "is_done": True},
    {"fault": "late", "call": "create", "late_s": 0.3},
    {"fault": "answered", "call": "create", "doubles": 1},
    {"fault": "answered", "call": "create", "doubles": 1, "after_s": LATE_S},
    {"fault": "drop", "call": "create", "is_done": True, "doubles": 2},
    {"fault": "drop", "call": "create", "is_done": True, "doubles": 1, "after_s": LATE_S},
    {"fault": "rate_qps", "call": "create"},
    {"fault": "missing_scope", "call": "create"},
    {"fault": "user_not_found", "call": "create"},
    {"fault": "rate_daily_user", "call": "create"},
    {"fault": "drop", "call": "delete", "is_done": True, "times": 3},
    {"fault": "500", "call": "delete", "is_done": True, "times": 3},
    {"fault": "missing_scope", "call": "delete"},
    {"fault": "late", "call": "delete", "late_s": 0.3},
    {"fault": "500", "call": "list", "times": 3},
    {"fault": "rate_qps", "call": "list"},
    {"fault": "drop", "call": "status", "is_done": True},
    {"fault": "token_expired", "call": "any"},
)


def quiet_port() -> int:
    """A free port that no outgoing connection is given: there are too many of them to be lucky 500 times."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@define
class Storm:
    """The place, those who ask, and what is going on.

    `told` are the events that Zoom has told or will tell: it repeats what was not taken in.
    """

    site: Site
    zoom: ZoomStack
    steady: Running
    patrons: list[MeetingCustomer]
    told: list[tuple[str, str]] = field(factory=list)

    @property
    def answers(self) -> int:
        """How many answers of success there were."""
        return sum(len(patron.made) + len(patron.cancelled) for patron in self.patrons)

    def ask(self, url: str, until_at: float, again: Callable[[MeetingCustomer, str], None]) -> None:
        """Ask, as a customer does, until the server is gone; then perhaps once more, elsewhere."""
        patron = random.choice(self.patrons)
        with client(url, patron.api_key) as http:
            while time.monotonic() < until_at:
                key = patron.wish(random.randrange(HOURS))
                try:
                    self._live(patron, http, key, url)
                except httpx.TransportError:
                    if random.random() < RETRIED_AT_ONCE:
                        again(patron, key)
                    elif random.random() < FORSAKEN:
                        patron.forsaken.add(key)
                    return

    def _live(self, patron: MeetingCustomer, http: httpx.Client, key: str, url: str) -> None:
        if not patron.create(http, key):
            return
        if random.random() < STARTED:
            self._begin(str(patron.made[key]["provider_meeting_id"]), url)
        if random.random() < CANCELLED:
            patron.cancel(http, key)

    def _begin(self, number: str, url: str) -> None:
        """Somebody comes early; Zoom tells, perhaps twice, and perhaps the end first."""
        if not self.zoom.step(number, "start"):
            return
        events = [("meeting.started", number)]
        if random.random() < ENDED and self.zoom.step(number, "end"):
            events.append(("meeting.ended", number))
        self.told += events
        for kind, each in random.sample(events * 2, len(events) * 2):
            tell(url, kind, each)

    def again(self, patron: MeetingCustomer, key: str) -> None:
        """The same once more, at the API that lives, while the lease of the dead one lasts."""
        with client(self.steady.url, patron.api_key) as http:
            if patron.create(http, key) and key in patron.cancels:
                patron.cancel(http, key)

    def strike(self, asking: ThreadPoolExecutor, retrying: ThreadPoolExecutor) -> list[Future[None]]:
        """One life of an API under load, on a bad day, and its death."""
        retries: list[Future[None]] = []
        if random.random() < FORGIVEN:
            self.zoom.forgive()
        self.zoom.plan(*random.sample(FAULTS, 3))
        with self.site.serve(quiet_port()) as api:
            last = time.monotonic() + 5

            def again(patron: MeetingCustomer, key: str) -> None:
                retries.append(retrying.submit(self.again, patron, key))

            clients = [asking.submit(self.ask, api.url, last, again) for _ in range(CLIENTS)]
            goal = self.answers + random.randrange(2 * APIS * CLIENTS)
            until(lambda: self.answers >= goal or time.monotonic() > last, "it is busy")
            # The instant of the kill is the point of it; nothing is waited for.
            time.sleep(random.uniform(0, 0.15))
            api.kill()
            for each in clients:
                each.result()
            assert not has_fault(api.err.read_text()), api.err.read_text()[-3000:]
        return retries


@pytest.fixture
def storm(launcher: Launcher, postgres_server_url: str, tmp_path: Path) -> Iterator[Storm]:
    """A place with hosts for all: none may make more than a hundred meetings a day."""
    with ExitStack() as stack:
        url = stack.enter_context(servers.fresh_database(postgres_server_url))
        migrate(url)
        zoom = stack.enter_context(zoom_stack(LATENCY_S))
        broker = stack.enter_context(servers.own_redis(tmp_path))
        # Small pools: many processes at once, beside other tests, are to stay within what a server admits.
        more = {"broker_url": broker, "meeting_lease_s": LEASE_S, "database_pool_size": 4}
        site = Site(launcher, url, zoom.settings | more)
        add_hosts(site, 60 + KILLS)
        steady = stack.enter_context(site.serve())
        yield Storm(site, zoom, steady, [enrolled(site) for _ in range(PATRONS)])


def rage(storm: Storm) -> int:
    """All the kills, a few APIs at a time; how many workers died beside them."""
    retries: list[Future[None]] = []
    deaths = 0
    with ExitStack() as stack:
        asking = stack.enter_context(ThreadPoolExecutor(APIS * CLIENTS))
        retrying = stack.enter_context(ThreadPoolExecutor(APIS * CLIENTS))
        striking = stack.enter_context(ThreadPoolExecutor(APIS))
        stack.callback(lambda: striking.shutdown(cancel_futures=True))
        worker = stack.enter_context(storm.site.worker())
        for strike in as_completed([striking.submit(storm.strike, asking, retrying) for _ in range(KILLS)]):
            retries += strike.result()
            if random.random() < WORKER_DIES:
                worker.kill()
                assert not has_fault(worker.err.read_text()), worker.err.read_text()[-3000:]
                deaths += 1
                worker = stack.enter_context(storm.site.worker())
        for each in retries:
            each.result()
    return deaths


def calm(storm: Storm) -> None:
    """Good weather: customers ask again, Zoom repeats itself, leases lapse, the clock goes on."""
    storm.zoom.forgive()
    for kind, number in storm.told:
        tell(storm.steady.url, kind, number)
    for patron in storm.patrons:
        patron.settle(storm.steady.url)
    come_to_rest(storm.site, storm.zoom, storm.steady.url)


@pytest.mark.spec("4/idem-replay", "1/meetings", "3/cancel-before", "3/cancel-running")
def test_a_storm_leaves_one_truth(storm: Storm) -> None:
    began = time.monotonic()
    workers = rage(storm)
    with storm.site.worker(), storm.site.worker():
        calm(storm)
        found = prove(storm.site, storm.zoom, storm.patrons)
    wanted = sum(len(patron.wanted) for patron in storm.patrons)
    lasted_s = time.monotonic() - began
    print(f"{KILLS} APIs and {workers} workers killed in {lasted_s:.0f} s, {wanted} wanted, {dict(found)}")
    assert found["scheduled"] > KILLS, "the load was a load"
    assert found["cancelled"], "and so were the cancellations"
