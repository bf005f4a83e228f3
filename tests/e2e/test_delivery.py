"""From the API through the queue to the receiver, in separate processes (spec 6)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from attrs import evolve, frozen
from standardwebhooks import Webhook

from meetcore.client import verify_webhook
from meetcore.domain.webhooks.signature import verify
from tests.e2e.customers import Customer, customer
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.support.program import Running, Site, free_port, until

PROMPTLY_S = 3.0
LEASE_S = 60


@frozen
class Setup:
    """The service, its workers, and a customer with a receiver."""

    site: Site
    receiver: Receiver
    customer: Customer
    settings: dict[str, Any]
    workers: list[Running]


@contextmanager
def set_up(
    site: Site, receiver: Receiver, *, broker: str = "", workers: int = 1, **more: object
) -> Iterator[Setup]:
    """Run the API, workers if there is a broker, and a customer."""
    settings = receiver.settings | {"broker_url": broker} | more
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        crew = [stack.enter_context(site.worker(**settings)) for _ in range(workers if broker else 0)]
        for worker in crew:
            worker.wait_until_working()
        who = stack.enter_context(customer(site, api))
        stack.callback(receiver.release.set)
        yield Setup(site, receiver, who, settings, crew)


@pytest.fixture(params=["redis", "rabbitmq", "in process"])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of a broker, or "" for no broker."""
    name = {"redis": "redis_url", "rabbitmq": "rabbitmq_url"}.get(request.param)
    return "" if name is None else str(request.getfixturevalue(name))


@pytest.mark.spec("1/webhooks", "6/1", "6/2", "6/3", "5/9")
def test_a_new_meeting_is_delivered_signed_and_at_once(site: Site, receiver: Receiver, broker: str) -> None:
    with set_up(site, receiver, broker=broker) as setup:
        endpoint = setup.customer.hook(receiver.url("a"))
        meeting = setup.customer.create_meeting()
        (post,) = until(lambda: receiver.at("a"), "a post", PROMPTLY_S)

        secret = str(endpoint.secret)
        verify([secret], post.body, post.headers["X-Service-Signature"], int(time.time()))
        event = Webhook(secret).verify(post.body, post.headers)
        assert event == json.loads(post.body)
        assert event["type"] == post.headers["X-Service-Event"] == "meeting.created"
        assert event["id"] == post.event_id
        shown = setup.customer.http.get(f"/meetings/{meeting.id}").json()
        assert event["data"] == shown | {"password": None}
        record = verify_webhook([secret], post.headers, post.body).record
        assert record == evolve(meeting, password=None)
        until(lambda: delivery_of(site, endpoint.id)[0] == "succeeded", "it is recorded")
        assert len(receiver.posts) == 1


def test_another_worker_posts_deliveries_of_a_killed_worker(
    site: Site, receiver: Receiver, redis_url: str
) -> None:
    with set_up(site, receiver, broker=redis_url, webhook_lease_s=LEASE_S) as setup:
        endpoint = setup.customer.hook(receiver.url("hang"))
        setup.customer.create_meeting()
        until(lambda: receiver.at("hang"), "the post hangs")
        setup.workers[0].kill()
        lease = "SELECT extract(epoch FROM due_at)::float FROM deliveries WHERE endpoint_id = %s"
        ((first_lease_until,),) = ask(site, lease, endpoint.id)
        # As if it had been short: it would have run out before the kill on a busy machine.
        shorten = """UPDATE deliveries SET due_at = clock_timestamp() + interval '2 s' WHERE endpoint_id = %s
            RETURNING extract(epoch FROM due_at)::float"""
        ((lease_until,),) = ask(site, shorten, endpoint.id)
        receiver.release.set()
        with site.worker(**setup.settings):
            first, second = until(lambda: receiver.at("hang")[1:] and receiver.at("hang"), "posted again")
            until(lambda: delivery_of(site, endpoint.id)[0] == "succeeded", "it is recorded")
        assert first.event_id == second.event_id
        assert first.body == second.body
        assert second.at >= float(str(lease_until)), "not before the lease had run out"
        assert float(str(first_lease_until)) - first.at <= LEASE_S, "which was taken before the post"
        assert delivery_of(site, endpoint.id) == ("succeeded", 1)


def test_an_unavailable_broker_delays_delivery_by_one_round(site: Site, receiver: Receiver) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    with set_up(site, receiver, broker=nowhere) as setup:
        setup.customer.hook(receiver.url("slow"))
        setup.customer.create_meeting()
        until(lambda: receiver.at("slow"), "found by the worker's own round", PROMPTLY_S)


def delivery_of(site: Site, endpoint_id: str) -> tuple[object, ...]:
    """Return status and attempts of an endpoint's only delivery."""
    (row,) = ask(
        site, "SELECT status, attempts_made FROM deliveries WHERE endpoint_id = %s", endpoint_id
    )  # fmt: skip
    return row
