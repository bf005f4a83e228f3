"""Credits bought at each gateway through API, notifications and worker, with its stand-in as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from attrs import define, field

from tests.e2e.customers import Customer, customer
from tests.e2e.outbox import ask
from tests.support.program import ROOT, Running, Site, environment, until

PACKAGES = """
[seller]
tax_percent = 11

[[package]]
id = "credits-500"
credits = 500
price = 100000
currency = "IDR"
"""
BOUGHT, AMOUNT = 500, 111_000


@define
class Shop:
    """A customer of a service that sells credits at a gateway."""

    name: str
    customer: Customer
    api: Running
    gateway: httpx.Client = field(repr=False)

    def start(self, key: str | None = None) -> httpx.Response:
        return self.customer.http.post(
            "/credits/topups", json={"package_id": "credits-500"},
            headers={"Idempotency-Key": key or str(uuid4())},
        )  # fmt: skip

    def begin(self) -> str:
        started = self.start()
        assert started.status_code == 201, started.text
        assert (started.json()["amount"], started.json()["status"]) == (AMOUNT, "pending")
        assert started.json()["payment_url"].startswith("http")
        return str(started.json()["id"])

    def play(self, payment_id: str, step: str, **wanted: object) -> Any:
        return self.gateway.post(f"/payments/{payment_id}/{step}", json=wanted).raise_for_status().json()

    def notify(self, payment_id: str, **how: Any) -> list[int]:
        """Let the gateway send notifications; return what the service answered."""
        url = f"{self.api.url}/payment-events/{self.name}"
        return list(self.play(payment_id, "notify", url=url, **how))

    def status(self, payment_id: str) -> str:
        read = self.customer.http.get(f"/credits/topups/{payment_id}").raise_for_status()
        return str(read.json()["status"])

    def balance(self) -> int:
        read = self.customer.http.get("/credits").raise_for_status()
        return int(read.json()["balance"])


@contextmanager
def stand_in(name: str) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", f"meetcore.testing.{name}_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as child:
        try:
            assert child.stdout is not None
            yield json.loads(child.stdout.readline())
        finally:
            child.kill()


@pytest.fixture(params=["midtrans", "xendit", "stripe"])
def shop(request: pytest.FixtureRequest, site: Site, redis_url: str, tmp_path: Path) -> Iterator[Shop]:
    name = request.param
    (tmp_path / "tiers.toml").write_text(PACKAGES)
    with ExitStack() as stack:
        ready = stack.enter_context(stand_in(name))
        settings: dict[str, Any] = {
            "payment_gateway": name, "payment_gateway_url": ready["url"],
            "payment_gateway_secret": ready["secret"],
            "payment_gateway_webhook_secret": ready.get("webhook_secret", ""), "broker_url": redis_url,
            "tiers_file": str(tmp_path / "tiers.toml"),
        }  # fmt: skip
        api = stack.enter_context(site.serve(**settings))
        stack.enter_context(site.worker(**settings))
        gateway = httpx.Client(base_url=f"{ready['url']}/stand-in", trust_env=False, timeout=20)
        stack.callback(gateway.close)
        yield Shop(name, stack.enter_context(customer(site, api)), api, gateway)


def test_credits_are_bought_once_whatever_notifies(site: Site, shop: Shop) -> None:
    before = shop.balance()
    payment_id = shop.begin()
    shop.play(payment_id, "pay")
    assert shop.notify(payment_id, forged=True) == [401]
    assert shop.status(payment_id) == "pending"
    assert shop.notify(payment_id, times=3) == [204] * 3
    until(lambda: shop.status(payment_id) == "paid", "the worker has asked the gateway")
    assert shop.notify(payment_id, which=[0], times=2) == [204] * 2
    due = "SELECT id FROM payments WHERE next_look_at <= now()"
    until(lambda: ask(site, due) == [], "everything that was notified of is looked at")
    assert (shop.status(payment_id), shop.balance()) == ("paid", before + BOUGHT)


def test_a_page_whose_answer_was_lost_is_had_by_a_repeat(shop: Shop) -> None:
    before, key = shop.balance(), str(uuid4())
    shop.gateway.post("/faults", json={"fault": "drop", "call": "open", "is_done": True}).raise_for_status()
    assert shop.start(key).status_code == 502
    payment = shop.start(key).json()
    assert shop.start(key).json() == payment
    shop.play(payment["id"], "pay")
    shop.notify(payment["id"])
    until(lambda: shop.status(payment["id"]) == "paid", "it is paid on the page of the repeat")
    assert shop.balance() == before + BOUGHT
