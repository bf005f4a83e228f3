"""The API is killed at random instants under load; afterwards all invariants hold."""

from __future__ import annotations

import random
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest
from attrs import define, field

from tests.e2e.customers import CREDITS, client, enrol, meeting_body
from tests.support.program import Site, free_port, until

KILLS = 30
CLIENTS = 4
CANCELLED_SHARE = 0.3
BALANCE = 1_000_000


@define
class Load:
    """The customer's requests and their answers."""

    wanted: dict[str, dict[str, object]] = field(factory=dict)
    made: dict[str, dict[str, Any]] = field(factory=dict)
    cancels: dict[str, str] = field(factory=dict)
    cancelled: dict[str, dict[str, Any]] = field(factory=dict)
    lock: threading.Lock = field(factory=threading.Lock)

    def ask(self, http: httpx.Client, key: str) -> None:
        """Create a meeting and record an answer."""
        answer = http.post("/meetings", json=self.wanted[key], headers={"Idempotency-Key": key})
        if answer.status_code == 201:
            with self.lock:
                before = self.made.setdefault(key, answer.json())
            assert before == answer.json(), "a replay repeats the first answer"
        else:
            assert answer.status_code == 503, answer.text

    def cancel(self, http: httpx.Client, key: str) -> None:
        """Cancel an acknowledged meeting."""
        path = f"/meetings/{self.made[key]['id']}"
        answer = http.delete(path, headers={"Idempotency-Key": self.cancels[key]})
        if answer.status_code == 200:
            with self.lock:
                self.cancelled[key] = answer.json()
        else:
            assert answer.status_code == 503, answer.text

    def run(self, url: str, api_key: str, until_at: float) -> None:
        with client(url, api_key) as http:
            while time.monotonic() < until_at:
                key = secrets.token_hex(8)
                with self.lock:
                    self.wanted[key] = meeting_body()
                try:
                    self.ask(http, key)
                    if key in self.made and random.random() < CANCELLED_SHARE:
                        with self.lock:
                            self.cancels[key] = f"cancel-{key}"
                        self.cancel(http, key)
                except httpx.TransportError:
                    return

    def settle(self, url: str, api_key: str) -> None:
        """Retry everything unacknowledged."""
        with client(url, api_key) as http:
            for key in self.wanted.keys() - self.made.keys():
                until(lambda key=key: self._is_made(http, key), f"an answer for {key}")  # type: ignore[misc]
            for key in self.cancels.keys() - self.cancelled.keys():
                until(lambda key=key: self._is_gone(http, key), f"an end of {key}")  # type: ignore[misc]

    def _is_made(self, http: httpx.Client, key: str) -> bool:
        self.ask(http, key)
        return key in self.made

    def _is_gone(self, http: httpx.Client, key: str) -> bool:
        self.cancel(http, key)
        return key in self.cancelled


def crash(site: Site, load: Load, port: int, api_key: str, pool: ThreadPoolExecutor) -> None:
    """Serve under load, and kill the server."""
    with site.serve(port, meeting_lease_s=2) as api:
        last = time.monotonic() + 5
        asking = [pool.submit(load.run, api.url, api_key, last) for _ in range(CLIENTS)]
        # The instant of the kill is the point of it; nothing is waited for.
        time.sleep(random.uniform(0.02, 0.25))
        api.kill()
        for each in asking:
            each.result()


@pytest.mark.spec("4/idem-replay", "1/meetings", "3/cancel-before")
def test_thirty_kills_lose_nothing_and_charge_nothing_twice(site: Site) -> None:
    account_id, _, api_key = enrol(site, BALANCE)
    load, port = Load(), free_port()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(KILLS):
            crash(site, load, port, api_key, pool)
    acknowledged = {key: meeting["id"] for key, meeting in load.made.items()}
    with (
        site.serve(port, meeting_lease_s=2) as api,
        psycopg.connect(site.database_url, autocommit=True) as db,
    ):
        load.settle(api.url, api_key)
        until(lambda: count(db, "meetings WHERE lease_until IS NOT NULL") == 0, "nothing is in progress")
        with client(api.url, api_key) as http:
            for key, meeting_id in acknowledged.items():
                shown = http.get(f"/meetings/{meeting_id}").json()
                expected = "cancelled" if key in load.cancelled else "scheduled"
                assert (shown["id"], shown["status"]) == (meeting_id, expected)
            balance = http.get("/me").json()["credits"]["balance"]
        check_ledger(db, load, account_id, balance)
    proof = site.cli("credits", "verify")
    assert proof["is_sound"] is True
    assert proof["findings"] == []


def check_ledger(db: psycopg.Connection, load: Load, account_id: str, balance: int) -> None:
    """Check for one meeting per key, one charge per meeting, one refund per cancellation."""
    ids = [meeting["id"] for meeting in load.made.values()]
    made, cancelled = len(ids), len(load.cancelled)
    assert made > KILLS, "the load was a load"
    assert len(set(ids)) == made
    assert count(db, "meetings WHERE status <> 'abandoned'") == made
    assert count(db, "meetings WHERE status = 'cancelled'") == cancelled
    assert count(db, "meetings WHERE status = 'scheduled'") == made - cancelled
    assert count(db, "ledger_transfers WHERE kind = 'meeting_charge'") == made
    assert count(db, "ledger_transfers WHERE kind = 'meeting_refund'") == cancelled
    assert all(answer["credits_refunded"] == CREDITS for answer in load.cancelled.values())
    assert balance == BALANCE - CREDITS * (made - cancelled)
    assert count(db, "ledger_holds") == 0
    held = db.execute("SELECT held FROM accounts WHERE id = %s", (account_id,)).fetchone()
    assert held == (0,)
    reserved = db.execute("SELECT meeting_id FROM host_reservations ORDER BY 1").fetchall()
    live = db.execute("SELECT id FROM meetings WHERE status = 'scheduled' ORDER BY 1").fetchall()
    assert reserved == live, "a host is reserved exactly for the meetings that will be"


def count(db: psycopg.Connection, what: str) -> int:
    row = db.execute(f"SELECT count(*) FROM {what}".encode()).fetchone()
    assert row is not None
    return int(row[0])
