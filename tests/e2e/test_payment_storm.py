"""Payments while processes are killed at random instants; afterwards gateway, ledger and receipts agree.

`MEETCORE_TEST_KILLS` of 500 and more is the long run, with 1 000 payments. Customers pay, late, twice, too
little or never; notifications come once, twice, never, out of order and forged.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from attrs import define, field
from psycopg.rows import dict_row

from tests.e2e.customers import enrol
from tests.e2e.payment_invariants import AtGateway, prove
from tests.support import servers
from tests.support.api_harness import PRICES
from tests.support.program import IS_LONG, Launcher, Running, Site, has_fault, until

PAYMENTS = 1_000 if IS_LONG else 40
BUYERS = 4
ACCOUNTS = max(3, PAYMENTS // 25)
"""Of an account 20 payments may wait to be paid."""
SERVERS = 2
CALM_S = 180.0
LONGEST_LIFE_S = 2.0
"""Seconds between two kills at most."""

SCENES = (
    "paid", "paid", "paid", "notified twice", "never notified", "paid twice", "paid late", "failed",
    "expired", "too little", "forged", "abandoned",
)  # fmt: skip


@define
class Storm:
    """The processes by their places, the keys of the customers, and the scenes that were played."""

    site: Site
    servers: list[Running]
    workers: list[Running]
    keys: list[str]
    played: Counter[str] = field(factory=Counter)
    is_over: threading.Event = field(factory=threading.Event)

    def buy(self, number: int) -> None:
        """Start a payment, retried under one key until it is answered, and play a scene with it."""
        key, scene = self.keys[number % len(self.keys)], random.choice(SCENES)
        payment = self.insist("POST", "/api/v1/credits/topups", key, f"buy-{number}").json()
        again = self.insist("POST", "/api/v1/credits/topups", key, f"buy-{number}").json()
        assert again["id"] == payment["id"]
        address = urlsplit(payment["payment_url"])
        for action, times in _actions(scene):
            self.insist("POST", f"{address.path}{action}?{address.query}&{times}")
        if scene == "forged":
            body = f'{{"payment_id": "{payment["id"]}", "status": "paid"}}'
            refused = self.insist("POST", "/payment-events/sandbox", content=body, is_refused=True)
            assert refused.status_code == 401
        self.played[scene] += 1

    def insist(
        self, method: str, path: str, key: str = "", name: str = "", *, content: str | None = None,
        is_refused: bool = False,
    ) -> httpx.Response:  # fmt: skip
        """Send a request to any server until one answers it."""
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": name} if key else {}
        sent: dict[str, Any] = {"json": {"package_id": "credits-500"}} if key else {"content": content}
        give_up_at = time.monotonic() + CALM_S
        while True:
            assert time.monotonic() < give_up_at, f"{method} {path} is not answered"
            try:
                url = random.choice(self.servers).url
                answer = httpx.request(
                    method, url + path, headers=headers, timeout=20, trust_env=False, **sent
                )
            except httpx.TransportError:
                continue
            if answer.status_code < 400 or (is_refused and answer.status_code < 500):
                return answer
            assert answer.status_code in (502, 503), answer.text

    def kill(self, stack: ExitStack) -> None:
        """Kill servers and workers in turn, at random instants, until the payments are made."""
        for number in range(10_000):
            if self.is_over.wait(random.uniform(0.1, LONGEST_LIFE_S)):
                return
            places, start = [(self.servers, self.site.serve), (self.workers, self.site.worker)][number % 2]
            at = random.randrange(len(places))
            dead = places[at]
            dead.kill()
            log = dead.err.read_text()
            assert not has_fault(log), log[-3000:]
            places[at] = stack.enter_context(start())


def _actions(scene: str) -> list[tuple[str, str]]:
    return {
        "paid": [("/pay", "notify=1")],
        "notified twice": [("/pay", "notify=2")],
        "never notified": [("/pay", "notify=0")],
        "paid twice": [("/pay", "notify=1"), ("/pay", "notify=1")],
        "paid late": [("/expire", "notify=1"), ("/pay", "notify=1")],
        "failed": [("/fail", "notify=1")],
        "expired": [("/expire", "notify=0")],
        "too little": [("/pay", "amount=1")],
        "forged": [],
        "abandoned": [],
    }[scene]


@pytest.fixture
def storm(postgres_server_url: str, launcher: Launcher, tmp_path: Path) -> Iterator[Storm]:
    with ExitStack() as stack:
        url = stack.enter_context(servers.owned_database(postgres_server_url))
        broker = stack.enter_context(servers.own_redis(tmp_path))
        # Small pools: many processes at once, beside other tests, are to stay within what a server admits.
        given = {
            "payment_gateway": "sandbox",
            "tiers_file": PRICES,
            "broker_url": broker,
            "database_pool_size": 4,
        }
        site = Site(launcher, url, given)
        keys = [enrol(site, 0)[2] for _ in range(ACCOUNTS)]
        with ExitStack() as processes:
            running = [processes.enter_context(site.serve()) for _ in range(SERVERS)]
            workers = [processes.enter_context(site.worker()) for _ in range(SERVERS)]
            yield Storm(site, running, workers, keys)


def test_each_paid_payment_has_one_top_up_and_one_receipt(storm: Storm) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(BUYERS + 1) as threads:
        killing = threads.submit(storm.kill, stack)
        bought = [threads.submit(storm.buy, number) for number in range(PAYMENTS)]
        try:
            for each in bought:
                each.result()
        finally:
            storm.is_over.set()
            killing.result()
        with psycopg.connect(storm.site.direct_url, autocommit=True, row_factory=dict_row) as connection:
            until(lambda: _is_settled(connection), "every payment is settled", CALM_S, every_s=0.5)
            _prove(connection, storm)


def _is_settled(connection: psycopg.Connection[Any]) -> bool:
    """Have every pending payment asked about; return whether what the gateway ended has ended here."""
    connection.execute("UPDATE payments SET next_look_at = clock_timestamp() WHERE next_look_at IS NOT NULL")
    left = connection.execute(
        "SELECT count(*) AS left FROM payments p LEFT JOIN sandbox_payments s ON s.payment_id = p.id "
        "WHERE p.status = 'pending' AND p.doubt IS NULL AND s.status IS DISTINCT FROM 'pending'"
        " OR p.status IN ('failed', 'expired') AND s.status = 'paid' AND p.doubt IS NULL"
    ).fetchone()
    assert left is not None
    return bool(left["left"] == 0)


def _prove(connection: psycopg.Connection[Any], storm: Storm) -> None:
    known = connection.execute("SELECT payment_id::text AS id, status, paid_amount FROM sandbox_payments")
    there = {row["id"]: AtGateway(row["paid_amount"] if row["status"] == "paid" else None) for row in known}
    rows = prove(storm.site, there)
    assert len(rows) == PAYMENTS == sum(storm.played.values())
