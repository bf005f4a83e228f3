"""The database becomes unavailable to the running program, and recovers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from attrs import evolve

from tests.e2e.customers import customer
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
            process.stop(within_s=20)
