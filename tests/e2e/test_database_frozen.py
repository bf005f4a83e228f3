"""The database server is frozen, or cuts connections, under the running program."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import httpx
import psycopg
import pytest
from attrs import define, field

from meetcore.adapters.postgres.migrate import migrate
from tests.e2e.customers import CREDITS, Customer, client, customer, meeting_body
from tests.e2e.receiver import Receiver
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.program import Launcher, Running, Site, until

DEADLINE_S = 7
REFUSED_WITHIN_S = 13
"""Less than two deadlines."""

READY_WITHIN_S = 2
"""The usual probe of a frozen database: a single one may wait for a processor."""

BACK_WITHIN_S = 5
CUT_EVERY = 50
"""Requests between two cuts: how many a second answers depends on the machine."""

CUT = 20
ANSWERED = 0.9


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgres]:
    with own_postgres() as server:
        migrate(server.url)
        yield server


@pytest.fixture(scope="module")
def own_site(launcher: Launcher, server: OwnPostgres) -> Site:
    site = Site(launcher, server.url)
    site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 1000, "--max-concurrent", 50)
    return site


@define
class RequestResults:
    """The results of many requests, each with its duration in seconds."""

    wanted: dict[str, dict[str, object]] = field(factory=dict)
    statuses: list[int] = field(factory=list)
    slowest_s: float = 0.0
    lock: threading.Lock = field(factory=threading.Lock)

    def ask(self, http: httpx.Client, method: str, path: str, **more: object) -> int:
        began = time.monotonic()
        status = http.request(method, path, **more).status_code  # type: ignore[arg-type]  # by name only
        with self.lock:
            self.statuses.append(status)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        return status

    def create(self, http: httpx.Client) -> int:
        key = secrets.token_hex(8)
        with self.lock:
            self.wanted[key] = meeting_body()
        return self.repeat(http, key)

    def repeat(self, http: httpx.Client, key: str) -> int:
        return self.ask(http, "POST", "/meetings", json=self.wanted[key], headers={"Idempotency-Key": key})

    @property
    def share(self) -> float:
        """Return the share of successful requests."""
        return sum(status in (200, 201) for status in self.statuses) / len(self.statuses)


def load(who: Customer, url: str, results: RequestResults, stop: threading.Event) -> None:
    """Read and create by turns until stopped."""
    with client(url, who.http.headers["Authorization"].removeprefix("Bearer ")) as http:
        while not stop.is_set():
            results.ask(http, "GET", "/me")
            if not stop.is_set():  # the bound is that of one request
                results.create(http)


def is_made(who: Customer, results: RequestResults, key: str) -> bool:
    return results.repeat(who.http, key) == 201


def check_money(site: Site, who: Customer, results: RequestResults) -> None:
    """Retry every key; each must have paid for one meeting."""
    for key in results.wanted:
        until(partial(is_made, who, results, key), "the key has its answer")
    assert who.api.me().credits.balance == who.credits - CREDITS * len(results.wanted)
    assert who.api.credits.get().held == 0
    assert site.cli("credits", "verify")["is_sound"]


def ready(api: Running, took_s: list[float] | None = None) -> int:
    """Return the status of the readiness probe, and add how long it took."""
    began = time.monotonic()
    status = httpx.get(f"{api.url}/readyz", trust_env=False).status_code
    if took_s is not None:
        took_s.append(time.monotonic() - began)
    return status


def is_thawed(server: OwnPostgres) -> bool:
    with psycopg.connect(server.url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.spec("7/503")
def test_a_frozen_database_is_a_503_in_time_and_the_service_recovers(
    own_site: Site, server: OwnPostgres, receiver: Receiver, redis_url: str
) -> None:
    settings = receiver.settings | {"broker_url": redis_url, "database_timeout_s": DEADLINE_S}
    with (
        own_site.serve(**settings) as api, own_site.worker(**settings) as worker,
        customer(own_site, api, 1_000_000) as who, ThreadPoolExecutor(30) as threads,
    ):  # fmt: skip
        who.hook(receiver.url("w"))
        who.create_meeting()
        until(lambda: receiver.at("w"), "the worker works")
        before, frozen, stop = RequestResults(), RequestResults(), threading.Event()
        running = [threads.submit(load, who, api.url, before, stop) for _ in range(6)]
        until(lambda: len(before.statuses) > 20, "the load runs")
        server.freeze()
        stop.set()  # requests in flight are interrupted by the freeze
        try:
            began = time.monotonic()
            pending = [threads.submit(frozen.ask, who.http, "GET", "/me") for _ in range(12)]
            pending += [threads.submit(frozen.create, who.http) for _ in range(12)]
            took_s: list[float] = []
            statuses = {ready(api, took_s)}
            assert not any(each.done() for each in pending), "the probe waits for no deadline"
            while time.monotonic() < began + REFUSED_WITHIN_S:
                statuses.add(ready(api, took_s))
                time.sleep(0.5)
            assert median(took_s) < READY_WITHIN_S
            assert statuses == {503}
            assert {each.result(0.1) for each in pending} == {503}
            for each in running:
                each.result(0.1)
            assert httpx.get(f"{api.url}/healthz", trust_env=False).status_code == 200
        finally:
            server.thaw()
        until(partial(is_thawed, server), "the database answers")
        until(lambda: ready(api) == 200, "the API is ready again", BACK_WITHIN_S)
        until(lambda: who.http.get("/me").status_code == 200, "the API answers again", BACK_WITHIN_S)
        assert frozen.slowest_s < REFUSED_WITHIN_S
        assert before.slowest_s < REFUSED_WITHIN_S
        before.wanted |= frozen.wanted
        who.credits -= CREDITS
        check_money(own_site, who, before)
        posted = len(before.wanted) + 1
        until(lambda: len({post.event_id for post in receiver.at("w")}) == posted, "the worker works again")
        assert worker.poll() is None


def cut_all(url: str, results: RequestResults) -> int:
    """Terminate the service's connections repeatedly; return their number."""
    ended = 0
    with psycopg.connect(url, autocommit=True) as connection:
        while ended <= CUT:
            enough = len(results.statuses) + CUT_EVERY
            until(lambda enough=enough: len(results.statuses) >= enough, "requests")  # type: ignore[misc]
            ended += connection.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE starts_with(application_name, 'meetcore') AND pid <> pg_backend_pid()"""
            ).rowcount
    return ended


def test_cut_connections_lose_few_answers(own_site: Site, server: OwnPostgres) -> None:
    with (
        own_site.serve() as api, customer(own_site, api, 1_000_000) as who, ThreadPoolExecutor(4) as threads,
    ):  # fmt: skip
        who.create_meeting()
        results, stop = RequestResults(), threading.Event()
        running = [threads.submit(load, who, api.url, results, stop) for _ in range(4)]
        try:
            cut = cut_all(server.url, results)
        finally:
            stop.set()
        for each in running:
            each.result()
        print(f"{len(results.statuses)} requests, {cut} cut, {results.share:.1%} answered")
        assert set(results.statuses) <= {200, 201, 503}
        assert results.share > ANSWERED
        who.credits -= CREDITS
        check_money(own_site, who, results)
