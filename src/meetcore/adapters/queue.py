"""Wake workers over a message broker: dramatiq on Redis, on RabbitMQ or in process.

A wake-up may be lost, and an unread one makes further ones redundant, so queues are bounded, without dead
letters and without dramatiq's middleware (retries, age limit, timer thread). An unavailable broker is noticed
at first use; its notifications are dropped, and the sweeper finds due work.

`notify` sets a flag; a thread sends at most one message per `spacing_s` while it is set, so the event loop is
not delayed. The receiver only wakes its owner: an actor that worked would hold a thread per message.
Consumers reconnect every three seconds; meanwhile the owner polls.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import dramatiq
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import BrokerConnectionError
from dramatiq.message import Message
from dramatiq.worker import Worker

from meetcore.adapters.tls import redis_options, without_strict
from meetcore.ports.observability import BROKER_AWAY, NO_METRICS, Log, Metrics

QUEUE = "meetcore.wake"
"""Wakes the workers of webhooks and meetings. An actor has its queue's name."""

NOTES_QUEUE = "meetcore.notes"
"""Wakes the workers of recordings and notes."""

BACKLOG = 256
"""Limit of unread wake-ups in a queue."""

_UNREAD_MS = 60_000  # by then the sweeper has run several times


def queue_named(queue: str, *, is_quorum: bool) -> str:
    """Return the name of a queue by its type, for RabbitMQ refuses one of the same name and another type."""
    return f"{queue}.quorum" if is_quorum else queue


def broker_from_url(
    url: str | None, *, namespace: str = "meetcore", is_quorum: bool = False
) -> dramatiq.Broker:
    """Make the broker for an address, without connecting; `None` is an in-process queue.

    `namespace` is the prefix of keys in Redis; `is_quorum` declares replicated queues in RabbitMQ. Raises
    `ValueError` for another scheme than redis(s) and amqp(s), `ImportError` without its extra.
    """
    scheme = urlsplit(url).scheme if url is not None else None
    match scheme:
        case None:
            return _WakeStubBroker(middleware=[])
        case "redis" | "rediss":
            return _redis_broker(str(url), namespace)
        case "amqp" | "amqps":
            return _rabbitmq_broker(str(url), is_quorum)
        case _:
            raise ValueError(f"A broker's address begins with redis:// or amqp://, not {scheme}://.")


class _Forgiving(Consumer):
    """Ignores failed acknowledgements, which dramatiq would retry in its thread: doubles do no harm.

    It calls `on_answer` each time the broker has a message or says that it has none.
    """

    def __init__(self, consumer: Consumer, on_answer: Callable[[], object]) -> None:
        self._consumer = consumer
        self._on_answer = on_answer

    def ack(self, message: MessageProxy) -> None:
        with suppress(BrokerConnectionError):
            self._consumer.ack(message)

    def nack(self, message: MessageProxy) -> None:
        with suppress(BrokerConnectionError):
            self._consumer.nack(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        self._consumer.requeue(messages)

    def __next__(self) -> MessageProxy | None:
        message = next(self._consumer)
        self._on_answer()
        return message

    def close(self) -> None:
        self._consumer.close()


class _RemoteBroker(dramatiq.Broker):
    """A broker that shares what its consumers find out about it, by queue."""

    on_answer: Mapping[str, Callable[[], object]] = {}

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        on_answer = self.on_answer.get(queue_name, lambda: None)
        return _Forgiving(super().consume(queue_name, prefetch, timeout), on_answer)


class _WakeStubBroker(StubBroker):
    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        if self.queues[message.queue_name].qsize() >= BACKLOG:
            return message
        return super().enqueue(message, delay=delay)


def _redis_broker(url: str, namespace: str) -> dramatiq.Broker:
    import redis
    from dramatiq.brokers.redis import RedisBroker

    class WakeRedisBroker(_RemoteBroker, RedisBroker):
        def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
            if self.client.llen(f"{self.namespace}:{message.queue_name}") >= BACKLOG:
                return message
            return super().enqueue(message, delay=delay)

    # Given an address, the broker ignores all other settings; so pass a client.
    client = redis.Redis.from_url(
        url, socket_connect_timeout=1.0, socket_timeout=2.0, health_check_interval=30, **redis_options(url)
    )
    return WakeRedisBroker(  # type: ignore[no-untyped-call]
        client=client,
        middleware=[],
        namespace=namespace,
        # Messages of a killed process come back within 15 s instead of minutes; maintenance costs two
        # range queries per command.
        maintenance_chance=1_000_000,
        heartbeat_timeout=15_000,
        dead_message_ttl=_UNREAD_MS,
    )


def _rabbitmq_broker(url: str, is_quorum: bool) -> dramatiq.Broker:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker
    from dramatiq.common import xq_name

    # No dead-letter exchange: overflow and old messages are dropped on purpose.
    limits = {"x-max-length": BACKLOG, "x-overflow": "drop-head", "x-message-ttl": _UNREAD_MS}
    arguments = limits | ({"x-queue-type": "quorum"} if is_quorum else {})

    class WakeRabbitmqBroker(_RemoteBroker, RabbitmqBroker):
        def _build_queue_arguments(self, queue_name: str) -> dict[str, Any]:
            return arguments

        def _declare_xq_queue(self, queue_name: str) -> Any:
            # Unused, but dramatiq declares it before it sends, and a classic queue cannot be declared while
            # its node is down.
            if not is_quorum:
                return super()._declare_xq_queue(queue_name)  # type: ignore[no-untyped-call]
            return self.channel.queue_declare(queue=xq_name(queue_name), durable=True, arguments=arguments)

    # Confirmed, or a message on a lost connection would not be repeated.
    broker = WakeRabbitmqBroker(url=url, middleware=[], confirm_delivery=True)
    places: Any = broker.parameters  # a list for several addresses separated by ";"
    for place in places if isinstance(places, list) else [places]:
        # The defaults wait 10 s for a socket, and forever for a broker that blocks publishers.
        place.socket_timeout = place.stack_timeout = place.blocked_connection_timeout = 2.0
        place.connection_attempts = 1
        if place.ssl_options is not None:
            without_strict(place.ssl_options.context)
    # pika logs several errors per attempt besides the one that it raises.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    return broker


class _Presence:
    """Whether one end of a queue reaches the broker: a metric, and a line at each change."""

    def __init__(self, log: Log, metrics: Metrics, *, while_away: str, when_back: str) -> None:
        self._log = log
        self._metrics = metrics
        self._while_away = while_away
        self._when_back = when_back
        self._is_away = False

    def note_away(self, error: object) -> None:
        if not self._is_away:
            self._is_away = True
            self._metrics.count(BROKER_AWAY)
            self._log.warning(f"broker away: {self._while_away}", error=repr(error))

    def note_back(self) -> None:
        if self._is_away:
            self._is_away = False
            self._metrics.count(BROKER_AWAY, by=-1)
            self._log.info(f"broker back: {self._when_back}")


class DramatiqWorkerNotifier:
    """Notifies by an empty message to a queue, taken by the first free worker.

    The thread starts at the first notification, so that the process may fork after construction. `spacing_s`
    are the least seconds between two messages, `pause_s` those without an attempt after a failure.
    """

    def __init__(
        self,
        broker: dramatiq.Broker,
        log: Log,
        *,
        queue: str = QUEUE,
        spacing_s: float = 0.005,
        pause_s: float = 1.0,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._broker = broker
        self._presence = _Presence(
            log, metrics, while_away="workers wake by their own rounds only",
            when_back="notifications are sent again",
        )  # fmt: skip
        self._queue = queue
        self._spacing_s = spacing_s
        self._pause_s = pause_s
        self._notified = threading.Event()
        self._closed = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        broker.declare_queue(queue)

    def notify(self) -> None:
        """Notify a worker, in about a microsecond; after `close`, do nothing."""
        if not self._notified.is_set():
            self._notified.set()
            if self._thread is None:
                self._start()

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop the thread within `timeout_s`; unsent and later notifications are dropped."""
        self._closed.set()
        self._notified.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="meetcore-notifier", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._notified.wait() and not self._closed.is_set():
            # Cleared before sending: a notification during it needs another message.
            self._notified.clear()
            pause_s = self._spacing_s if self._send() else self._pause_s
            self._closed.wait(pause_s)

    def _send(self) -> bool:
        message: dramatiq.Message[None] = dramatiq.Message(self._queue, self._queue, (), {}, {})
        try:
            self._broker.enqueue(message)
        except Exception as error:  # noqa: BLE001  # a failed notification must not stop the work
            self._presence.note_away(error)
            return False
        self._presence.note_back()
        return True


_PREFETCH = 16


class NotificationConsumer:
    """Listens for notifications by a broker of its own and calls `on_wake` from its own threads.

    `on_wake`, by queue, is thread-safe, quick, and tolerant of spurious calls, such as `lambda:
    loop.call_soon_threadsafe(event.set)`. `poll_s` is the longest delay in Redis, which is polled; RabbitMQ
    delivers at once.
    """

    def __init__(
        self,
        broker: dramatiq.Broker,
        on_wake: Mapping[str, Callable[[], object]],
        log: Log,
        *,
        threads: int = 1,
        poll_s: float = 0.1,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._broker = broker
        self._log = log
        for queue, wake in on_wake.items():
            dramatiq.actor(actor_name=queue, queue_name=queue, broker=broker)(self._actor(wake))
        # Nothing is delayed; a second consumer would poll for such messages.
        broker.delay_queues.clear()
        poll_ms = max(1, round(poll_s * 1000))
        self._worker = Worker(broker, queues=set(on_wake), worker_timeout=poll_ms, worker_threads=threads)
        self._worker.queue_prefetch = _PREFETCH
        presences = {
            queue: _Presence(
                log, metrics, while_away=f"nothing is received from {queue}",
                when_back=f"{queue} is received from again",
            )
            for queue in on_wake
        }  # fmt: skip
        if isinstance(broker, _RemoteBroker):
            broker.on_answer = {queue: presence.note_back for queue, presence in presences.items()}
        # Loggers of dramatiq's consumers.
        self._filters = {
            logging.getLogger(f"dramatiq.worker.ConsumerThread({queue})"): _ConsumerErrors(presence)
            for queue, presence in presences.items()
        }

    def start(self) -> None:
        """Start the threads, whether or not the broker is available."""
        # First: a consumer may fail, and log, before `start` returns.
        for consumer_log, errors in self._filters.items():
            consumer_log.addFilter(errors)
        self._worker.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop the threads and close the broker within about `timeout_s`; unread messages stay queued."""
        closing = threading.Thread(
            target=self._stop_consumers, args=(timeout_s,), name="meetcore-consumer-stop", daemon=True
        )
        closing.start()
        # In a thread: dramatiq waits for a hanging broker as long as the driver does.
        closing.join(timeout_s + 0.5)

    def _stop_consumers(self, timeout_s: float) -> None:
        try:
            self._worker.stop(timeout=round(timeout_s * 1000))
            self._broker.close()
        except Exception:  # noqa: BLE001  # an unavailable broker must not delay the end
            self._log.exception("the wake-up worker did not stop cleanly")
        finally:
            for consumer_log, errors in self._filters.items():
                consumer_log.removeFilter(errors)

    def _actor(self, on_wake: Callable[[], object]) -> Callable[[], None]:
        def wake() -> None:
            try:
                on_wake()
            except Exception:  # noqa: BLE001  # such as a loop that has just been closed
                self._log.exception("waking failed")

        return wake


class _ConsumerErrors(logging.Filter):
    """Takes the errors of a consumer's connection out of its log, where each attempt has a critical line."""

    def __init__(self, presence: _Presence) -> None:
        super().__init__()
        self._presence = presence

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith("Consumer encountered"):
            return True
        unexpected = record.exc_info[1] if record.exc_info else None
        self._presence.note_away(unexpected or record.getMessage())
        return False
