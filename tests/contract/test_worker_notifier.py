"""The contract of WorkerNotifier in the process, in Redis and in RabbitMQ, and its quorum queues."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import dramatiq
import pika.exceptions
import pytest

from meetcore.adapters.queue import (
    BACKLOG,
    DramatiqWorkerNotifier,
    NotificationConsumer,
    broker_from_url,
    queue_named,
)
from meetcore.ports.observability import BROKER_AWAY, Metric, NoMetrics
from meetcore.testing.contracts.infrastructure import (
    RemoteNotifierContract,
    WorkerNotifierContract,
    assert_is_cheap,
)
from tests.support.fakes import FakeNotifier
from tests.support.program import free_port
from tests.support.running_time import running_time

TIMEOUT_S = 15.0


class Lines:
    """A log that keeps its lines, and that a test can wait on."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.written = threading.Condition()

    def warning(self, event: str, /, **fields: object) -> None:
        with self.written:
            self.events.append(event)
            self.written.notify_all()

    info = error = exception = warning

    def wait_for(self, beginning: str) -> bool:
        with self.written:
            return self.written.wait_for(
                lambda: any(line.startswith(beginning) for line in self.events), TIMEOUT_S
            )


class Away(NoMetrics):
    """Metrics that keep how many ends of queues the broker is away for."""

    def __init__(self) -> None:
        self.away = 0.0

    def count(self, metric: Metric, *_labels: str | int, by: float = 1) -> None:
        assert metric is BROKER_AWAY
        self.away += by


class Place:
    """One queue: brokers for both ends of it, and its surroundings."""

    def __init__(self, url: str | None, queue: str, namespace: str) -> None:
        self.url, self.queue, self.namespace = url, queue, namespace
        self.log = Lines()
        self.metrics = Away()
        self._shared = broker_from_url(None) if url is None else None

    def broker(self) -> dramatiq.Broker:
        """In process both ends share one broker; otherwise each has its own, as in two processes."""
        return self._shared or broker_from_url(self.url, namespace=self.namespace)

    @contextmanager
    def notifier(self, **settings: Any):
        broker = self.broker()
        notifier = DramatiqWorkerNotifier(broker, self.log, queue=self.queue, **settings)
        try:
            yield notifier
        finally:
            notifier.close()
            broker.close()

    @contextmanager
    def worker(self, on_wake: Callable[[], object]):
        worker = NotificationConsumer(self.broker(), {self.queue: on_wake}, self.log, metrics=self.metrics)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop()


class QuorumPlace(Place):
    """A place whose brokers declare quorum queues."""

    def broker(self) -> dramatiq.Broker:
        return broker_from_url(self.url, is_quorum=True)


@pytest.fixture(params=["stub", "redis", "rabbitmq", "quorum"])
def place(request, queue_namespace):
    if request.param == "quorum":
        yield request.getfixturevalue("quorum_place")
        return
    url, namespace = None, queue_namespace
    if request.param == "redis":
        url, namespace = (
            request.getfixturevalue("redis_url"),
            request.getfixturevalue("redis_prefix") + "queue",
        )
    elif request.param == "rabbitmq":
        url = request.getfixturevalue("rabbitmq_url")
    place = Place(url, f"{queue_namespace}.wake", namespace)
    yield place
    if request.param == "rabbitmq":
        delete_queues(place.url, place.queue)


def delete_queues(url: str | None, queue: str) -> None:
    """Leave nothing behind in RabbitMQ; dramatiq makes three queues for one."""
    broker: Any = broker_from_url(url)
    for suffix in ("", ".DQ", ".XQ"):
        broker.channel.queue_delete(queue + suffix)
    broker.close()


def test_a_notification_before_the_worker_is_up_wakes_it_later(place: Place):
    woken = threading.Event()
    with place.notifier() as notifier:
        sent = sends(notifier)
        notifier.notify()
        assert sent.acquire(timeout=TIMEOUT_S)
        with place.worker(woken.set):
            assert woken.wait(TIMEOUT_S)


def test_a_queue_without_a_reader_stays_small(place: Place):
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


def test_an_owner_that_fails_is_called_again(place: Place):
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise RuntimeError("the loop is closed")

    with place.worker(fail), place.notifier() as notifier:
        for _ in range(2):
            notifier.notify()
            assert calls.acquire(timeout=TIMEOUT_S)
    assert set(place.log.events) == {"waking failed"}


def sends(notifier: DramatiqWorkerNotifier) -> threading.Semaphore:
    """Released once for each message that the notifier has handed to its broker."""
    done, enqueue = threading.Semaphore(0), notifier._broker.enqueue

    def counted(message, *, delay=None):
        enqueue(message, delay=delay)
        done.release()

    notifier._broker.enqueue = counted  # type: ignore[method-assign]
    return done


def drained(semaphore: threading.Semaphore) -> int:
    """How many releases there were, until none comes for a while."""
    count = 0
    while semaphore.acquire(timeout=0.7):
        count += 1
    return count


# A broker that is away


class Relay:
    """A port that leads to a server when it is open, and has no listener when it is closed."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._ends: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = free_port()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self._cut()

    def _cut(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._ends += [near, far]
            if self._listener is not listener:  # closed since it accepted
                self._cut()
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


class RemotePlace(Place):
    """A place that can be reached through its relay only."""

    relay: Relay


@pytest.fixture(params=["redis", "rabbitmq"])
def remote(request, queue_namespace):
    """A place behind a relay, closed at first."""
    url = request.getfixturevalue(f"{request.param}_url")
    namespace = (
        request.getfixturevalue("redis_prefix") + "queue" if request.param == "redis" else queue_namespace
    )
    at = urlsplit(url)
    relay = Relay(at.hostname, at.port)
    login = at.netloc.rpartition("@")[0] + "@" if "@" in at.netloc else ""
    behind = at._replace(netloc=f"{login}127.0.0.1:{relay.port}").geturl()
    place = RemotePlace(behind, f"{queue_namespace}.wake", namespace)
    place.relay = relay
    yield place
    relay.close()
    if request.param == "rabbitmq":
        delete_queues(url, place.queue)
    for end in relay._ends:
        end.close()


def test_an_absent_broker_neither_raises_nor_blocks_and_is_logged_once(remote: RemotePlace):
    with remote.notifier(pause_s=0.01) as notifier:
        sent = sends(notifier)
        assert_is_cheap(notifier)  # a connection alone would take longer
        assert remote.log.wait_for("broker away")
        remote.relay.open()
        deadline = time.monotonic() + TIMEOUT_S
        while not sent.acquire(timeout=0.05):
            assert time.monotonic() < deadline
            notifier.notify()
        assert remote.log.wait_for("broker back")
    assert [line.partition(":")[0] for line in remote.log.events] == ["broker away", "broker back"]


def test_a_worker_outlives_a_broker_that_is_away_at_the_start_and_goes_later(remote: RemotePlace, caplog):
    woken = threading.Event()
    with remote.worker(woken.set), remote.notifier(pause_s=0.05) as notifier:
        for _ in range(2):
            woken.clear()
            while woken.wait(0.5):  # by what the worker had already fetched when its broker went
                woken.clear()
            remote.relay.open()
            notify_until(notifier, woken)
            assert remote.log.wait_for(f"broker back: {remote.queue}")
            assert remote.metrics.away == 0
            remote.log.events.clear()
            remote.relay.close()
            notifier.notify()
            assert remote.log.wait_for(f"broker away: nothing is received from {remote.queue}")
            assert remote.metrics.away >= 1
    records = [record for record in caplog.records if remote.queue in record.name]
    assert [record for record in records if record.levelno > logging.INFO] == []


def notify_until(notifier: DramatiqWorkerNotifier, woken: threading.Event) -> None:
    """Notify until one arrives, as a busy service does: some are lost while the broker comes back."""
    deadline = time.monotonic() + TIMEOUT_S
    while not woken.wait(0.1):
        assert time.monotonic() < deadline
        notifier.notify()


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_never_answers_delays_no_caller(scheme: str, queue_namespace: str):
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        place = Place(
            f"{scheme}://127.0.0.1:{silent.getsockname()[1]}", f"{queue_namespace}.wake", queue_namespace
        )
        notifier = DramatiqWorkerNotifier(place.broker(), place.log, queue=place.queue)
        worker = NotificationConsumer(place.broker(), {place.queue: lambda: None}, place.log)
        with running_time() as passed_s:
            worker.start()
            for _ in range(100):
                notifier.notify()
            notifier.close(timeout_s=0.2)
            worker.stop(timeout_s=0.2)
            assert passed_s() < 3.0


# The port


class MemoryRig:
    """A notifier whose notifications reach every listener of that moment."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], object]] = []
        self.notifier = FakeNotifier(self._pass_on)

    def _pass_on(self) -> None:
        for on_wake in self._listeners:
            on_wake()

    @asynccontextmanager
    async def listening(self, on_wake: Callable[[], object]):
        self._listeners.append(on_wake)
        yield
        self._listeners.remove(on_wake)


class QueueRig:
    """A notifier and its workers on a queue, in threads of their own."""

    def __init__(self, place: Place, notifier: DramatiqWorkerNotifier) -> None:
        self.place, self.notifier = place, notifier

    @asynccontextmanager
    async def listening(self, on_wake: Callable[[], object]):
        with self.place.worker(on_wake):
            yield


class RemoteRig(QueueRig):
    """A queue behind a relay, which is open at first."""

    place: RemotePlace

    async def disconnect(self) -> None:
        self.place.relay.close()

    async def bring_back(self) -> None:
        self.place.relay.open()


class TestMemory(WorkerNotifierContract):
    @pytest.fixture
    def rig(self):
        return MemoryRig()


class TestQueueInProcess(WorkerNotifierContract):
    @pytest.fixture
    def rig(self, queue_namespace):
        place = Place(None, f"{queue_namespace}.wake", queue_namespace)
        with place.notifier() as notifier:
            yield QueueRig(place, notifier)


class TestQueueAcrossProcesses(RemoteNotifierContract):
    @pytest.fixture
    def rig(self, remote):
        """On Redis and on RabbitMQ."""
        remote.relay.open()
        with remote.notifier(pause_s=0.05) as notifier:
            yield RemoteRig(remote, notifier)


# Closing


def test_after_closing_a_notification_is_dropped_silently():
    place = Place(None, "wake", "unused")
    with place.notifier() as notifier:
        notifier.notify()
    notifier.notify()
    notifier.close()
    assert place.log.events == []


@pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:5672", ""])
def test_an_address_that_is_no_brokers_is_refused(url: str):
    with pytest.raises(ValueError, match="broker"):
        broker_from_url(url)


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
def quorum_place(places: tuple[Place, QuorumPlace]) -> QuorumPlace:
    return places[1]


class TestQuorumQueue(WorkerNotifierContract):
    @pytest.fixture
    def rig(self, quorum_place: QuorumPlace) -> Iterator[QueueRig]:
        with quorum_place.notifier() as notifier:
            yield QueueRig(quorum_place, notifier)


@pytest.mark.parametrize("suffix", ["", ".DQ", ".XQ"])
def test_every_queue_that_is_declared_is_a_quorum_queue(quorum_place: QuorumPlace, suffix: str) -> None:
    broker: Any = quorum_place.broker()
    broker.declare_queue(quorum_place.queue, ensure=True)
    arguments = broker._build_queue_arguments(quorum_place.queue) | {"x-queue-type": "classic"}
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="'classic' but current is 'quorum'"):
        broker.channel.queue_declare(quorum_place.queue + suffix, durable=True, arguments=arguments)
    broker.close()


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
