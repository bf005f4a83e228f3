"""The API is killed at every step of creating and cancelling a meeting.

A run without a kill records the steps, which are compared with the lists below: a new step fails this test
until it is listed.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
from attrs import define, field, frozen

from tests.e2e.customers import client
from tests.e2e.meeting_invariants import MeetingCustomer, add_hosts, enrolled, prove, wait_until_idle
from tests.e2e.outbox import ask
from tests.e2e.zoom_stack import ZoomStack, send_event, zoom_stack
from tests.support import servers
from tests.support.program import IS_LONG, Launcher, Running, Site, until

LEASE_S = 5
"""Longer than a request takes on a busy machine: a worker would finish it otherwise, in other steps."""

DEFAULT_LEASE_S = 20
SETTLED_WITHIN_S = 30
EXPIRED = "SELECT count(*) FROM meetings WHERE lease_until <= now()"

TRANSACTION = ("begin", "last line", "committed")
TOKEN = ("POST /token", "POST /token 200")
MAKE = ("POST /meetings", "POST /meetings 201")
REMOVE = ("DELETE /meetings/n", "DELETE /meetings/n 204")
KEPT = ("DELETE /meetings/n", "DELETE /meetings/n 400")
"""A meeting that runs or ran; Zoom is asked again after its end, as its link may have opened it once more."""
END = ("PUT /meetings/n/status", "PUT /meetings/n/status 204")
FINISH = TRANSACTION  # one statement: its last line comes after it, and after its commit


@frozen
class Work:
    """A customer's request, its preparation and its steps."""

    name: str
    steps: tuple[str, ...]
    prepare: Callable[[Place], str]
    ask: Callable[[MeetingCustomer, httpx.Client, str], bool]
    faults: tuple[dict[str, object], ...] = ()
    is_answered: bool = True


@define
class Place:
    """A database, a provider, an API that survives, and a customer."""

    site: Site
    zoom: ZoomStack
    api: Running
    customer: MeetingCustomer
    log_dir: Path
    hours: Iterator[int] = field(factory=itertools.count)
    numbers: Iterator[int] = field(factory=itertools.count)
    looking: threading.Lock = field(factory=threading.Lock)
    kills: int = 0

    def new_key(self) -> str:
        """Return the key of an uncreated meeting."""
        return self.customer.new_key(next(self.hours))

    def meeting(self) -> str:
        """Return the key of a created meeting."""
        key = self.new_key()
        with client(self.api.url, self.customer.api_key) as http:
            assert self.customer.create(http, key)
        return key

    def number(self, key: str) -> str:
        return str(self.customer.made[key]["provider_meeting_id"])

    def is_at_zoom(self, key: str) -> bool:
        """Return whether Zoom has a meeting for this key."""
        return any(key in each["topic"] for each in self.zoom.meetings())

    def begun(self) -> str:
        """Return the key of a meeting started at Zoom, without an event."""
        key = self.meeting()
        assert self.zoom.step(self.number(key), "start")
        return key

    def running(self) -> str:
        """Return the key of a started meeting whose event was processed."""
        key = self.begun()
        send_event(self.api.url, "meeting.started", self.number(key))
        with client(self.api.url, self.customer.api_key) as http:
            path = f"/meetings/{self.customer.made[key]['id']}"
            until(lambda: http.get(path).json()["status"] == "started", "Zoom's word is heard")
        return key

    def left(self, work: Work, crash_at: int) -> str:
        """Return the key of work of a killed process, with an expired lease."""
        key, _ = self.run_work(work, crash_at)
        until(lambda: ask(self.site, EXPIRED) == [(1,)], "it has run out")
        return key

    def run_work(self, work: Work, crash_at: int, lease_s: int = LEASE_S) -> tuple[str, list[str]]:
        """Run work in a process with a crash point; return the key and the steps taken."""
        key = work.prepare(self)
        self.zoom.plan(*(fault | {"marker": key} for fault in work.faults))
        step_log = self.log_dir / f"{next(self.numbers)}"
        try:
            with self.site.serve(crash_point=crash_at, crash_log=step_log, meeting_lease_s=lease_s) as api:
                self._ask(work, api, key, dies=crash_at > 0)
        finally:
            self.zoom.clear_faults()
        return key, step_log.read_text().splitlines()

    def _ask(self, work: Work, api: Running, key: str, *, dies: bool) -> None:
        with client(api.url, self.customer.api_key) as http:
            if not dies:
                assert work.ask(self.customer, http, key) is work.is_answered
                return
            with pytest.raises(httpx.TransportError):
                work.ask(self.customer, http, key)
        assert until(api.poll, "it is dead") == -signal.SIGKILL
        self.kills += 1

    def again(self, work: Work, key: str) -> None:
        """Repeat the request at the surviving process until there is an answer."""
        with client(self.api.url, self.customer.api_key) as http:
            until(lambda: work.ask(self.customer, http, key), f"an answer to {work.name}")


def no_scope(call: str) -> dict[str, object]:
    return {"fault": "missing_scope", "call": call}


CREATE = Work("a creation", (*TRANSACTION, *TOKEN, *MAKE, *FINISH), Place.new_key, MeetingCustomer.create)
CANCEL = Work(
    "a cancellation", (*TRANSACTION, *TOKEN, *REMOVE, *TRANSACTION), Place.meeting, MeetingCustomer.cancel
)
OFTEN = (CREATE, CANCEL)
LESS_OFTEN = (
    Work(
        "a creation that Zoom refuses",
        (*TRANSACTION, *TOKEN, "POST /meetings", "POST /meetings 400", *TRANSACTION),
        Place.new_key, MeetingCustomer.create, (no_scope("create"),), is_answered=False,
    ),
    Work(
        "a creation whose first host cannot",
        (*TRANSACTION, *TOKEN, "POST /meetings", "POST /meetings 404", *TRANSACTION, *TRANSACTION, *MAKE,
         *FINISH),
        Place.new_key, MeetingCustomer.create, ({"fault": "user_not_found", "call": "create"},),
    ),
    Work(
        "a cancellation that Zoom refuses",
        (*TRANSACTION, *TOKEN, "DELETE /meetings/n", "DELETE /meetings/n 400", *TRANSACTION),
        Place.meeting, MeetingCustomer.cancel, (no_scope("delete"),), is_answered=False,
    ),
    Work(
        "a cancellation that nobody knows of",
        (*TRANSACTION, *TOKEN, *["DELETE /meetings/n"] * 3, *TRANSACTION),
        Place.meeting, MeetingCustomer.cancel,
        ({"fault": "drop", "call": "delete", "times": 3, "is_done": True},),
        is_answered=False,
    ),
    Work(
        "a cancellation of what runs unknown to us",
        (*TRANSACTION, *TOKEN, *KEPT, *END, *KEPT, *TRANSACTION),
        Place.begun, MeetingCustomer.cancel,
    ),
    Work(
        "the end of what runs",
        (*TRANSACTION, *TOKEN, *KEPT, *END, *KEPT, *TRANSACTION),
        Place.running, MeetingCustomer.cancel,
    ),
)  # fmt: skip


@pytest.fixture
def place(launcher: Launcher, postgres_server_url: str, tmp_path: Path) -> Iterator[Place]:
    """A separate stack; with a broker, so that no API does the worker's tasks."""
    with ExitStack() as stack:
        url = stack.enter_context(servers.owned_database(postgres_server_url))
        zoom = stack.enter_context(zoom_stack())
        broker = stack.enter_context(servers.own_redis(tmp_path))
        # Small pools: many processes at once, beside other tests, are to stay within what a server admits.
        more = {"broker_url": broker, "meeting_lease_s": LEASE_S, "database_pool_size": 4}
        site = Site(launcher, url, zoom.settings | more)
        add_hosts(site, 60)
        api = stack.enter_context(site.serve())
        yield Place(site, zoom, api, enrolled(site), tmp_path)


def is_abandoned(at: int, first: int) -> bool:
    """Return whether a kill at this step is left to the worker; differs between rounds."""
    return (at + first) % 3 == 1


def abandon_some(place: Place, work: Work, pool: ThreadPoolExecutor, first: int) -> list[Future[float]]:
    """Kill at a third of the steps, with the default lease, and leave recovery to the worker.

    Returns:
        The seconds from each kill until the work was finished or undone.
    """
    settled = []
    for at in range(1, len(work.steps) + 1):
        if is_abandoned(at, first):
            key, steps = place.run_work(work, at, DEFAULT_LEASE_S)
            crashed_at = time.monotonic()
            assert tuple(steps) == work.steps[:at]
            place.customer.abandoned.add(key)
            settled.append(pool.submit(seconds_until_settled, place, key, crashed_at))
    return settled


def seconds_until_settled(place: Place, key: str, crashed_at: float) -> float:
    """Return the seconds from a kill until no work is in progress under the key."""
    statement = """SELECT count(*) FROM idempotency_keys
                   WHERE key IN (%s, 'cancel-' || %s) AND NOT is_done AND lease_until IS NOT NULL"""
    while True:
        with place.looking:  # one connection for all waiting threads
            if ask(place.site, statement, key, key) == [(0,)]:
                return time.monotonic() - crashed_at
        assert time.monotonic() < crashed_at + 2 * SETTLED_WITHIN_S
        time.sleep(0.2)  # how exactly it is measured


def crash_at_each_step(place: Place, work: Work, pool: ThreadPoolExecutor, first: int) -> list[Future[None]]:
    """Kill at the other steps; repeat the request at once, while the lease lasts, or at the end."""
    retries = []
    for at in range(1, len(work.steps) + 1):
        if is_abandoned(at, first):
            continue
        key, steps = place.run_work(work, at)
        assert tuple(steps) == work.steps[:at]
        if (at + first) % 3 == 0:
            retries.append(pool.submit(place.again, work, key))
    return retries


def crash_while_zoom_answers(place: Place, work: Work, call: str) -> None:
    """Kill while Zoom has executed the request and has not answered yet."""
    key = work.prepare(place)
    was_there = place.is_at_zoom(key)
    place.zoom.plan({"fault": "hang", "call": call, "is_done": True, "marker": key})
    with ExitStack() as stack:
        api = stack.enter_context(place.site.serve())
        http = stack.enter_context(client(api.url, place.customer.api_key))
        asking = stack.enter_context(ThreadPoolExecutor(1)).submit(work.ask, place.customer, http, key)
        until(lambda: place.is_at_zoom(key) != was_there, "Zoom has done it")
        api.kill()
        assert isinstance(asking.exception(), httpx.TransportError)
    place.kills += 1
    place.customer.abandoned.add(key)


def settle_and_prove(place: Place, retries: list[Future[None]]) -> None:
    """Let the worker finish all work, and compare the three systems."""
    for each in retries:
        each.result()
    place.customer.settle(place.api.url)
    wait_until_idle(place.site, place.zoom, place.api.url)
    found = prove(place.site, place.zoom, [place.customer])
    print(f"{place.kills} kills, {dict(found)}")


@pytest.mark.spec("4/idem-replay", "1/meetings", "3/cancel-before")
def test_death_at_every_step_leaves_all_or_nothing(place: Place) -> None:
    works = (*OFTEN, *LESS_OFTEN) if IS_LONG else OFTEN
    with place.site.worker(), ThreadPoolExecutor(4) as pool, ThreadPoolExecutor(99) as watching:
        settled, retries = [], []
        for work in works:
            _, steps = place.run_work(work, 0)
            assert tuple(steps) == work.steps, f"the steps of {work.name}"
        cases = [(work, first) for work in works for first in range(3 if IS_LONG and work in OFTEN else 1)]
        for work, first in cases:
            settled += abandon_some(place, work, watching, first)
        for work, first in cases:
            retries += crash_at_each_step(place, work, pool, first)
        crash_while_zoom_answers(place, CREATE, "create")
        crash_while_zoom_answers(place, CANCEL, "delete")
        took_s = [each.result() for each in settled]
        late_s = [each for each in took_s if each > 1]
        print(f"seen to after {median(late_s):.1f} s, {max(late_s):.1f} s at most, lease {DEFAULT_LEASE_S} s")
        assert max(took_s) < SETTLED_WITHIN_S
        settle_and_prove(place, retries)


def freeze_a_creation(place: Place, stack: ExitStack, at: int) -> tuple[Running, Future[bool]]:
    """Stop a process at a step of a creation whose answer by Zoom is lost, and return both."""
    key, step_log = place.new_key(), place.log_dir / f"frozen-{at}"
    place.zoom.plan({"fault": "drop", "call": "create", "times": 3, "is_done": True, "marker": key})
    crash: dict[str, Any] = {"crash_point": at, "crash_log": step_log, "crash_signal": int(signal.SIGSTOP)}
    api = stack.enter_context(place.site.serve(None, **crash))
    http = stack.enter_context(client(api.url, place.customer.api_key))
    http.timeout = None
    asking = stack.enter_context(ThreadPoolExecutor(1)).submit(place.customer.create, http, key)
    stack.callback(api.signal, signal.SIGCONT)  # before the request is waited for
    until(lambda: len(step_log.read_text().splitlines()) == at, "it has come to this step")
    assert step_log.read_text().splitlines()[-1] == CREATE.steps[at - 1]
    place.customer.abandoned.add(key)
    return api, asking


def test_a_frozen_process_makes_no_meeting_that_nobody_pays(place: Place) -> None:
    """Frozen between the commit of its reservation and its call, for longer than all checks for orphans."""
    steps = [CREATE.steps.index(step) + 1 for step in ("committed", "POST /meetings")]
    with place.site.worker(), ExitStack() as stack:
        frozen = [freeze_a_creation(place, stack, at) for at in steps]
        wait_until_idle(place.site, place.zoom, place.api.url)
        assert place.zoom.meetings() == []
        for api, _ in frozen:
            api.signal(signal.SIGCONT)
        assert [asking.result() for _, asking in frozen] == [False] * len(frozen)
        made = len(place.zoom.meetings())
        assert made <= 1, "only the request that was on its way"
        place.zoom.clear_faults()
        wait_until_idle(place.site, place.zoom, place.api.url)
        assert prove(place.site, place.zoom, [place.customer]) == {"abandoned": len(frozen)}
    print(f"{len(frozen)} frozen creations, {made} made at the provider, none left there")


FOUND = ("GET /meetings", "GET /meetings 200", "GET /meetings/n", "GET /meetings/n 200")
TAKE_OVER = TRANSACTION * 3  # it is found unfinished, taken, and read
LATE_CREATION = Work(
    "taking over a creation",
    (*TAKE_OVER, *TOKEN, *FOUND, *FINISH, *TRANSACTION),
    lambda place: place.left(CREATE, CREATE.steps.index("POST /meetings 201") + 1), MeetingCustomer.create,
)  # fmt: skip
LATE_CANCELLATION = Work(
    "taking over a cancellation",
    (*TAKE_OVER, *TOKEN, "DELETE /meetings/n", "DELETE /meetings/n 404", *TRANSACTION, *TRANSACTION),
    lambda place: place.left(CANCEL, CANCEL.steps.index("DELETE /meetings/n 204") + 1),
    MeetingCustomer.cancel,
)  # fmt: skip


@pytest.mark.skipif(not IS_LONG, reason="MEETCORE_TEST_KILLS is below 500")
def test_a_crash_during_takeover_leaves_all_or_nothing(place: Place) -> None:
    for work in (LATE_CREATION, LATE_CANCELLATION):
        key, steps = place.run_work(work, 0)
        assert tuple(steps) == work.steps, f"the steps of {work.name}"
        for at in range(1, len(work.steps) + 1):
            key, steps = place.run_work(work, at)
            assert tuple(steps) == work.steps[:at]
            place.again(work, key)  # or the next one would find two that have run out
    with place.site.worker():
        settle_and_prove(place, [])


def make_it_past(place: Place, key: str) -> None:
    statement = """UPDATE meetings SET start_at = now() - interval '2 hours', due_at = now(),
                   end_at = now() - interval '1 hour' WHERE id = %s RETURNING id"""
    assert ask(place.site, statement, place.customer.made[key]["id"])


def test_time_and_zoom_events_do_not_change_a_cancellation_in_progress(place: Place) -> None:
    marked, _ = place.run_work(CANCEL, CANCEL.steps.index("committed") + 1)
    removed, _ = place.run_work(CANCEL, CANCEL.steps.index("DELETE /meetings/n 204") + 1)
    begun, _ = place.run_work(CANCEL, CANCEL.steps.index("committed") + 1)
    place.zoom.step(place.number(begun), "start")
    early_ms = (time.time_ns() - 3 * 3600 * 10**9) // 10**6  # sessions that were over before the start
    for key, at_ms in ((marked, early_ms), (removed, early_ms), (begun, None)):
        make_it_past(place, key)
        place.customer.abandoned.add(key)
        for kind in ("meeting.ended", "meeting.started"):
            send_event(place.api.url, kind, place.number(key), at_ms)
    with place.site.worker(), place.site.worker(), place.site.worker():
        wait_until_idle(place.site, place.zoom, place.api.url)
    found = prove(place.site, place.zoom, [place.customer])
    assert found == {"cancelled": 2, "ended": 1}, "it ran: somebody met, so it is paid"
