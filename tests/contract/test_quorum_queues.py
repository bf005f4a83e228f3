"""Quorum queues of RabbitMQ: the suite of the worker notifiers, their bound, a setting that is changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import dramatiq
import pika.exceptions
import pytest

from meetcore.adapters.queue.broker import BACKLOG, broker_from_url, queue_named
from meetcore.testing.contracts.worker_notifier import WorkerNotifierContract
from tests.contract.test_worker_notifier import (
    TIMEOUT_S,
    Place,
    QueueRig,
    delete_queues,
    drained,
    sends,
)


class QuorumPlace(Place):
    """A place whose brokers declare quorum queues."""

    def broker(self) -> dramatiq.Broker:
        return broker_from_url(self.url, is_quorum=True)


@pytest.fixture
def places(rabbitmq_url: str, queue_namespace: str) -> Iterator[tuple[Place, QuorumPlace]]:
    """The same queue for processes of both settings."""
    name = f"{queue_namespace}.wake"
    classic = Place(rabbitmq_url, queue_named(name, is_quorum=False), queue_namespace)
    quorum = QuorumPlace(rabbitmq_url, queue_named(name, is_quorum=True), queue_namespace)
    yield classic, quorum
    for each in (classic, quorum):
        delete_queues(each.url, each.queue)


@pytest.fixture
def place(places: tuple[Place, QuorumPlace]) -> QuorumPlace:
    return places[1]


class TestQuorumQueue(WorkerNotifierContract):
    @pytest.fixture
    def rig(self, place: QuorumPlace) -> Iterator[QueueRig]:
        with place.notifier() as notifier:
            yield QueueRig(place, notifier)


@pytest.mark.parametrize("suffix", ["", ".DQ", ".XQ"])
def test_every_queue_that_is_declared_is_a_quorum_queue(place: QuorumPlace, suffix: str) -> None:
    broker: Any = place.broker()
    broker.declare_queue(place.queue, ensure=True)
    arguments = broker._build_queue_arguments(place.queue) | {"x-queue-type": "classic"}
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="'classic' but current is 'quorum'"):
        broker.channel.queue_declare(place.queue + suffix, durable=True, arguments=arguments)
    broker.close()


def test_a_quorum_queue_without_a_reader_stays_small(place: QuorumPlace) -> None:
    woken = threading.Semaphore(0)
    with place.notifier(spacing_s=0) as notifier:
        sent = sends(notifier)
        for _ in range(BACKLOG + 50):
            notifier.notify()
            assert sent.acquire(timeout=TIMEOUT_S)
        with place.worker(woken.release):
            assert woken.acquire(timeout=TIMEOUT_S)
            wakes = 1 + drained(woken)
    assert wakes <= BACKLOG + 1


def test_processes_of_both_settings_run_side_by_side(places: tuple[Place, QuorumPlace]) -> None:
    with ExitStack() as stack:
        woken = [threading.Event() for _ in places]
        for place, event in zip(places, woken, strict=True):
            stack.enter_context(place.worker(event.set))
        for place in places:
            stack.enter_context(place.notifier()).notify()
        for event in woken:
            assert event.wait(TIMEOUT_S)
    assert [place.log.events for place in places] == [[], []]
