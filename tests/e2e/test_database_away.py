"""The database becomes unavailable to the running program, and recovers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from attrs import evolve

from tests.e2e.customers import Customer, customer, meeting_body
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.support.program import Running, Site, reached, until
from tests.support.relay import Outage, relaying

SOON_S = 8.0


@pytest.fixture
def relay(site: Site) -> Iterator[Outage]:
    url, _ = reached(site.database_url)
    with relaying(url) as relay:
        yield relay


@pytest.fixture
def far_site(site: Site, relay: Outage) -> Site:
    """The same database behind the relay."""
    _, settings = reached(site.database_url)
    return evolve(site, database_url=relay.relay.url, settings=site.settings | settings)


def is_up(who: Customer) -> bool:
    return who.http.get("/me").status_code == 200


def check_refusal(answer: httpx.Response, limit: str) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.json()["error"]["code"] == "service_unavailable"
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["X-RateLimit-Limit"] == limit
    assert answer.headers["X-RateLimit-Remaining"] == limit, "the quota is untouched"
    assert int(answer.headers["X-RateLimit-Reset"]) % 60 == 0


@pytest.mark.spec("7/503", "8/3")
def test_the_api_refuses_while_the_database_is_unavailable_and_recovers(
    site: Site, far_site: Site, relay: Outage
) -> None:
    with far_site.serve(quota_read=300, quota_credit=20) as api, customer(site, api) as who:
        who.create_meeting()
        for _ in range(2):
            relay.cut()
            check_refusal(who.http.get("/me"), "300")
            check_refusal(who.http.post("/meetings", json=meeting_body()), "20")
            assert httpx.get(f"{api.url}/healthz", trust_env=False, timeout=20).status_code == 200
            assert httpx.get(f"{api.url}/readyz", trust_env=False, timeout=20).status_code == 503
            relay.restore()
            until(lambda: is_up(who), "the API is back by itself", SOON_S)
        who.create_meeting()
        assert who.api.me().credits.balance == 10_000 - 2 * 10, "nothing was charged for what was refused"


def test_the_api_starts_without_a_database_and_finds_it_later(
    site: Site, far_site: Site, relay: Outage
) -> None:
    relay.cut()
    with far_site.serve(is_ready=False) as api:
        assert httpx.get(f"{api.url}/readyz", trust_env=False, timeout=20).status_code == 503
        relay.restore()
        with customer(site, api) as who:
            until(lambda: is_up(who), "the API found its database", 15)


def test_the_worker_continues_when_the_database_is_back(
    site: Site, far_site: Site, relay: Outage, receiver: Receiver, redis_url: str
) -> None:
    settings = receiver.settings | {"broker_url": redis_url}
    with site.serve(**settings) as api, far_site.worker(**settings) as worker, customer(site, api) as who:
        who.hook(receiver.url("w"))
        who.create_meeting()
        until(lambda: receiver.at("w"), "the worker works")
        sent = "SELECT status FROM deliveries WHERE account_id = %s"
        until(lambda: ask(site, sent, who.account_id) == [("succeeded",)], "and has recorded it")
        relay.cut()
        until(lambda: "store unavailable" in worker.err.read_text(), "the worker has noticed")
        made = who.create_meeting()
        relay.restore()

        def is_posted() -> bool:
            return made.id in {json.loads(post.body)["data"]["id"] for post in receiver.at("w")}

        until(is_posted, "the worker works again", SOON_S)


def test_processes_stop_while_the_database_is_unavailable(far_site: Site, relay: Outage) -> None:
    with far_site.serve() as api, far_site.worker() as worker:
        relay.cut()
        until(lambda: httpx.get(f"{api.url}/readyz", trust_env=False, timeout=20).status_code == 503)
        running: list[Running] = [api, worker]
        for process in running:
            process.stop()
