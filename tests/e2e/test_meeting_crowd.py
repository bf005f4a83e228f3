"""Concurrency: forty clients for the same hours of one pool of hosts, two hundred creations in progress."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

import httpx
import pytest
from attrs import define, field, frozen

from meetcore.domain.meetings.schedule import WIB
from tests.e2e.customers import client
from tests.e2e.meeting_invariants import MeetingCustomer, add_hosts, enrolled, prove
from tests.e2e.outbox import ask
from tests.e2e.zoom_stack import ZoomStack, zoom_stack
from tests.support import servers
from tests.support.program import Launcher, Running, Site

CLIENTS = 40
CUSTOMERS = 4
HOURS = 8
# Capacity, meetings at a time, how many such hosts.
POOL = ((100, 1, 4), (100, 2, 2), (300, 1, 3), (300, 2, 1), (500, 1, 2))
TIERS = "".join(
    f'[[tier]]\nid = "hour-{seats}"\nname = "An hour for {seats}"\ncapacity = {seats}\nmax_duration = 60\n'
    "credits = 10\nrecording_credits = 5\n"
    for seats in (100, 300, 500)
)
SLOTS = Counter(seats for seats, at_once, hosts in POOL for _ in range(at_once * hosts))

IN_FLIGHT = 200
TAKES_S = 2.0
POOL_SIZE = 10
STUCK_S = 1.0
QUIET_S = 2.0


@frozen
class ApplicationHarness:
    """A database, a provider, and customers."""

    site: Site
    zoom: ZoomStack
    customers: list[MeetingCustomer]


@pytest.fixture
def harness(launcher: Launcher, postgres_server_url: str, tmp_path: Path) -> Iterator[ApplicationHarness]:
    """Tiers of an hour for every size of host, and a broker, so that APIs do no work of workers."""
    (tmp_path / "tiers.toml").write_text(TIERS)
    with ExitStack() as stack:
        url = stack.enter_context(servers.owned_database(postgres_server_url))
        zoom = stack.enter_context(zoom_stack())
        more = {
            "broker_url": stack.enter_context(servers.own_redis(tmp_path)),
            "tiers_file": tmp_path / "tiers.toml",
        }
        site = Site(launcher, url, zoom.settings | more)
        yield ApplicationHarness(site, zoom, [enrolled(site) for _ in range(CUSTOMERS)])


@frozen
class MeetingSpec:
    """An hour, counted from the day after tomorrow, and seats."""

    hour: int
    seats: int

    @property
    def body(self) -> dict[str, object]:
        midnight = datetime.now(WIB).replace(hour=0, minute=0, second=0, microsecond=0)
        start = midnight + timedelta(days=2, hours=self.hour)
        return {
            "title": "Rapat", "date": f"{start:%Y-%m-%d}", "start_time": f"{start:%H:%M}",
            "pricing_tier_id": f"hour-{self.seats}",
        }  # fmt: skip


def compete(
    harness: ApplicationHarness, apis: list[Running], specs: list[MeetingSpec]
) -> Counter[tuple[MeetingSpec, int]]:
    """Send the requests of all clients at once, and count the answers by status."""
    start = threading.Barrier(CLIENTS)

    def want(number: int) -> list[tuple[MeetingSpec, int]]:
        customer, api = harness.customers[number % CUSTOMERS], apis[number % len(apis)]
        with client(api.url, customer.api_key) as http:
            start.wait()
            return [(spec, _ask(customer, http, spec)) for spec in specs[number::CLIENTS]]

    with ThreadPoolExecutor(CLIENTS) as pool:
        return Counter(answer for each in pool.map(want, range(CLIENTS)) for answer in each)


def _ask(customer: MeetingCustomer, http: httpx.Client, spec: MeetingSpec) -> int:
    key = secrets.token_hex(8)
    customer.wanted[key] = spec.body
    answer = http.post("/meetings", json=spec.body, headers={"Idempotency-Key": key})
    if answer.status_code == 201:
        customer.made[key] = answer.json()
    else:
        assert "No meeting host is free" in answer.text, answer.text
    return answer.status_code


_MOST_AT_ONCE = """
    SELECT max(held.meetings - h.max_concurrent) FROM hosts h CROSS JOIN LATERAL (
        SELECT count(*) AS meetings FROM host_reservations a JOIN host_reservations b
        ON b.host_id = a.host_id AND b.during && a.during
        WHERE a.host_id = h.id GROUP BY a.meeting_id) AS held
"""


@pytest.mark.spec("4.1/3")
def test_forty_clients_fill_the_pool_to_its_last_slot_and_not_beyond(harness: ApplicationHarness) -> None:
    for seats, at_once, hosts in POOL:
        add_hosts(harness.site, hosts, capacity=seats, max_concurrent=at_once)
    # As many wishes of each size as there are slots of it: one small meeting on a large host, one refusal too
    # many, and they do not come out even.
    specs = [MeetingSpec(hour, seats) for hour in range(HOURS) for seats in SLOTS.elements()]
    random.shuffle(specs)
    specs.sort(key=lambda spec: spec.hour // 3)
    with harness.site.serve() as one, harness.site.serve() as other:
        began = time.monotonic()
        answers = compete(harness, [one, other], specs)
        lasted_s = time.monotonic() - began
        refused = {each: count for each, count in answers.items() if each[1] != 201}
        print(f"{CLIENTS} clients, {len(specs)} slots filled in {lasted_s:.1f} s, refused: {refused}")
        assert not refused, "nobody is refused while a fitting host is free"
        late = compete(
            harness, [one, other], [MeetingSpec(hour, seats) for hour in range(HOURS) for seats in SLOTS]
        )
        assert {status for _, status in late} == {503}, "nothing is left"
    assert ask(harness.site, _MOST_AT_ONCE) == [(0,)], (
        "no host has more at once than it may, all have as many"
    )
    prove(harness.site, harness.zoom, harness.customers)


@define
class Watch:
    """The durations of reads in seconds, and the number of idle transactions."""

    took_s: list[float] = field(factory=list)
    stuck: int = 0

    def __str__(self) -> str:
        p95 = quantiles(self.took_s, n=20)[-1]
        return f"{len(self.took_s)} reads, p50 {median(self.took_s) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms"


_STUCK = f"""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND starts_with(application_name, 'meetcore')
    AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '{STUCK_S} s'
"""


def watch(harness: ApplicationHarness, url: str, path: str, is_over: Callable[[], bool]) -> Watch:
    """Read until it is over, and count idle transactions meanwhile."""
    result = Watch()
    with client(url, harness.customers[0].api_key) as http:
        while not is_over():
            for each in ("/me", path):
                before = time.monotonic()
                http.get(each).raise_for_status()
                result.took_s.append(time.monotonic() - before)
            ((stuck,),) = ask(harness.site, _STUCK)
            result.stuck += int(str(stuck))
            time.sleep(0.02)  # the pace of the readers
    return result


async def make_many(harness: ApplicationHarness, url: str) -> int:
    """Send all creations at once, and count the retries."""
    # No connection is kept: one that the server closes at the wrong moment would cost an answer.
    limits = httpx.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=f"{url}/api/v1", timeout=60, trust_env=False, limits=limits
    ) as http:

        async def make(number: int) -> int:
            customer, key = harness.customers[number % CUSTOMERS], secrets.token_hex(8)
            customer.wanted[key] = MeetingSpec(number % HOURS, 100).body
            headers = {"Idempotency-Key": key, "Authorization": f"Bearer {customer.api_key}"}
            for again in range(20):
                answer = await http.post("/meetings", json=customer.wanted[key], headers=headers)
                if answer.status_code == 201:
                    customer.made[key] = answer.json()
                    return again
                # A machine too slow for so many answers 503, and the request is retried.
                assert answer.status_code == 503, answer.text
                await asyncio.sleep(0.1)
            raise AssertionError("not made")

        return sum(await asyncio.gather(*(make(number) for number in range(IN_FLIGHT))))


def test_two_hundred_creations_in_progress_hold_no_connection(harness: ApplicationHarness) -> None:
    add_hosts(harness.site, IN_FLIGHT)
    with harness.site.serve(database_pool_size=POOL_SIZE) as api, ThreadPoolExecutor(1) as pool:
        first = harness.customers[0]
        with client(api.url, first.api_key) as http:
            assert _ask(first, http, MeetingSpec(HOURS, 100)) == 201  # and the token is there
        (made,) = first.made.values()
        path = f"/meetings/{made['id']}"
        quiet_until = time.monotonic() + QUIET_S
        alone = watch(harness, api.url, path, lambda: time.monotonic() > quiet_until)
        harness.zoom.turn(latency_s=TAKES_S)
        over = threading.Event()
        watching = pool.submit(watch, harness, api.url, path, over.is_set)
        began = time.monotonic()
        try:
            again = asyncio.run(make_many(harness, api.url))
        finally:
            over.set()
        lasted_s = time.monotonic() - began
        result = watching.result()
    at_once = harness.zoom.counts()["most_in_flight"]
    print(f"{IN_FLIGHT} made in {lasted_s:.1f} s, {again} asked for again, at Zoom {at_once} at once")
    print(f"alone: {alone}; meanwhile: {result}, stuck {result.stuck}")
    assert result.stuck == 0, "no transaction is open while Zoom is asked"
    assert median(result.took_s) < TAKES_S / 2, "no read waits for a connection that waits for Zoom"
    found = prove(harness.site, harness.zoom, harness.customers)
    assert found == {"scheduled": IN_FLIGHT + 1}
