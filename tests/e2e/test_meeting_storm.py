"""Kills at random instants under load and provider faults; afterwards three systems must agree.

`MEETCORE_TEST_KILLS` is the number of kills of the API, with those of `test_meeting_steps`; half as many
workers are killed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from attrs import define, field

from tests.e2e.customers import client
from tests.e2e.meeting_invariants import LATE_S, MeetingCustomer, add_hosts, enrolled, prove, wait_until_idle
from tests.e2e.zoom_stack import ZoomStack, send_event, zoom_stack
from tests.support import servers
from tests.support.program import Launcher, Running, Site, has_fault, until

WANTED = int(os.environ.get("MEETCORE_TEST_KILLS", "30"))
# Those of `test_meeting_steps`, which walks more ways in the long run.
STEP_KILLS = 21 if WANTED < 500 else 170
KILLS = max(9, WANTED - STEP_KILLS)
CUSTOMERS = 3
APIS = 3
CLIENTS = 4
HOURS = 240
LATENCY_S = 0.04
LEASE_S = 2
CANCELLED, STARTED, RETRIED_AT_ONCE, ABANDONED, ENDED = 0.4, 0.2, 0.3, 0.3, 0.5
WORKER_CRASHES, FAULTS_CLEARED = 0.5, 0.2

# The faults of Zoom; those that make a host unavailable are rare, or no host would be left.
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


@define
class Storm:
    """The stack, its customers, and the events in flight, which Zoom repeats until acknowledged."""

    site: Site
    zoom: ZoomStack
    steady: Running
    customers: list[MeetingCustomer]
    events: list[tuple[str, str]] = field(factory=list)

    @property
    def answers(self) -> int:
        return sum(len(customer.made) + len(customer.cancelled) for customer in self.customers)

    def ask(self, url: str, until_at: float, again: Callable[[MeetingCustomer, str], None]) -> None:
        """Send requests until the server is gone; then perhaps one more to the surviving API."""
        customer = random.choice(self.customers)
        with client(url, customer.api_key) as http:
            while time.monotonic() < until_at:
                key = customer.new_key(random.randrange(HOURS))
                try:
                    self._run_meeting(customer, http, key, url)
                except httpx.TransportError:
                    if random.random() < RETRIED_AT_ONCE:
                        again(customer, key)
                    elif random.random() < ABANDONED:
                        customer.abandoned.add(key)
                    return

    def _run_meeting(self, customer: MeetingCustomer, http: httpx.Client, key: str, url: str) -> None:
        if not customer.create(http, key):
            return
        if random.random() < STARTED:
            self._begin(str(customer.made[key]["provider_meeting_id"]), url)
        if random.random() < CANCELLED:
            customer.cancel(http, key)

    def _begin(self, number: str, url: str) -> None:
        """Start a meeting early; Zoom sends the events, perhaps twice, and perhaps the end first."""
        if not self.zoom.step(number, "start"):
            return
        events = [("meeting.started", number)]
        if random.random() < ENDED and self.zoom.step(number, "end"):
            events.append(("meeting.ended", number))
        self.events += events
        for kind, each in random.sample(events * 2, len(events) * 2):
            send_event(url, kind, each)

    def again(self, customer: MeetingCustomer, key: str) -> None:
        """Repeat the request at the steady API, while the lease of the killed one lasts."""
        with client(self.steady.url, customer.api_key) as http:
            if customer.create(http, key) and key in customer.cancels:
                customer.cancel(http, key)

    def strike(self, asking: ThreadPoolExecutor, retrying: ThreadPoolExecutor) -> list[Future[None]]:
        """Start an API, load it under provider faults, and kill it."""
        retries: list[Future[None]] = []
        if random.random() < FAULTS_CLEARED:
            self.zoom.clear_faults()
        self.zoom.plan(*random.sample(FAULTS, 3))
        with self.site.serve() as api:
            last = time.monotonic() + 5

            def again(customer: MeetingCustomer, key: str) -> None:
                retries.append(retrying.submit(self.again, customer, key))

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
    """A stack with enough hosts: each may create at most a hundred meetings a day."""
    with ExitStack() as stack:
        url = stack.enter_context(servers.owned_database(postgres_server_url))
        zoom = stack.enter_context(zoom_stack(LATENCY_S))
        broker = stack.enter_context(servers.own_redis(tmp_path))
        # Small pools: many processes at once, beside other tests, are to stay within what a server admits.
        more = {"broker_url": broker, "meeting_lease_s": LEASE_S, "database_pool_size": 4}
        site = Site(launcher, url, zoom.settings | more)
        add_hosts(site, 60 + KILLS)
        steady = stack.enter_context(site.serve())
        yield Storm(site, zoom, steady, [enrolled(site) for _ in range(CUSTOMERS)])


def rage(storm: Storm) -> int:
    """Run all kills, a few APIs at a time, and count the killed workers."""
    retries: list[Future[None]] = []
    workers_killed = 0
    with ExitStack() as stack:
        asking = stack.enter_context(ThreadPoolExecutor(APIS * CLIENTS))
        retrying = stack.enter_context(ThreadPoolExecutor(APIS * CLIENTS))
        striking = stack.enter_context(ThreadPoolExecutor(APIS))
        stack.callback(lambda: striking.shutdown(cancel_futures=True))
        worker = stack.enter_context(storm.site.worker())
        for strike in as_completed([striking.submit(storm.strike, asking, retrying) for _ in range(KILLS)]):
            retries += strike.result()
            if random.random() < WORKER_CRASHES:
                worker.kill()
                assert not has_fault(worker.err.read_text()), worker.err.read_text()[-3000:]
                workers_killed += 1
                worker = stack.enter_context(storm.site.worker())
        for each in retries:
            each.result()
    return workers_killed


def calm(storm: Storm) -> None:
    """Recover without faults: customers retry, Zoom repeats events, leases expire, time passes."""
    storm.zoom.clear_faults()
    for kind, number in storm.events:
        send_event(storm.steady.url, kind, number)
    for customer in storm.customers:
        customer.settle(storm.steady.url)
    wait_until_idle(storm.site, storm.zoom, storm.steady.url)


@pytest.mark.spec("4/idem-replay", "1/meetings", "3/cancel-before", "3/cancel-running")
def test_records_agree_after_random_kills(storm: Storm) -> None:
    began = time.monotonic()
    workers = rage(storm)
    with storm.site.worker(), storm.site.worker():
        calm(storm)
        found = prove(storm.site, storm.zoom, storm.customers)
    wanted = sum(len(customer.wanted) for customer in storm.customers)
    lasted_s = time.monotonic() - began
    print(f"{KILLS} APIs and {workers} workers killed in {lasted_s:.0f} s, {wanted} wanted, {dict(found)}")
    assert found["scheduled"] > KILLS, "the load was a load"
    assert found["cancelled"], "and so were the cancellations"
