"""The broker for notifications of workers.

It owns the choice of broker by address and the settings that fit notifications. A wake-up says "look now"
and may be lost, so a queue that already holds a few hundred unread ones needs no more: each broker here
is bounded, keeps no dead letters and runs without dramatiq's middleware (no retries, no age limit, no
timer thread). It does not connect: an unavailable broker is noticed at the first use.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import dramatiq
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import BrokerConnectionError
from dramatiq.message import Message

QUEUE = "meetcore.wake"
"""Wakes those who send webhooks and see to meetings. An actor has its queue's name."""

NOTES_QUEUE = "meetcore.notes"
"""Wakes those who measure recordings and write notes."""

BACKLOG = 256
"""Unread wake-ups that a queue holds. An unread one will wake a worker later than now: that is all that
any further one could do."""

_UNREAD_MS = 60_000  # in RabbitMQ: by then the sweeper has looked several times


def queue_named(queue: str, *, is_quorum: bool) -> str:
    """The name of a queue by its type.

    RabbitMQ refuses a queue of the same name and another type: with names of their own, processes of both
    settings run side by side while the setting is changed.
    """
    return f"{queue}.quorum" if is_quorum else queue


def broker_from_url(
    url: str | None, *, namespace: str = "meetcore", is_quorum: bool = False
) -> dramatiq.Broker:
    """Make the broker for an address; nothing is connected yet.

    Args:
        url: `redis://`, `rediss://` or `amqp://`, `amqps://`; None for a queue in this process.
        namespace: the beginning of the keys in Redis.
        is_quorum: in RabbitMQ, declare queues that every node of a cluster has a copy of. Names come from
            `queue_named`.

    Raises:
        ValueError: another scheme.
        ImportError: the extra for this broker is not installed.
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
    """A consumer that ignores failed acknowledgements.

    dramatiq would try again every five seconds, and hold the worker's thread, until it does; a wake-up
    that is delivered twice costs nothing.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def ack(self, message: MessageProxy) -> None:
        with suppress(BrokerConnectionError):
            self._consumer.ack(message)

    def nack(self, message: MessageProxy) -> None:
        with suppress(BrokerConnectionError):
            self._consumer.nack(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        self._consumer.requeue(messages)

    def __next__(self) -> MessageProxy | None:
        return next(self._consumer)

    def close(self) -> None:
        self._consumer.close()


class _WakeStubBroker(StubBroker):
    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        if self.queues[message.queue_name].qsize() >= BACKLOG:
            return message
        return super().enqueue(message, delay=delay)


def _redis_broker(url: str, namespace: str) -> dramatiq.Broker:
    import redis
    from dramatiq.brokers.redis import RedisBroker

    class WakeRedisBroker(RedisBroker):
        def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
            return _Forgiving(super().consume(queue_name, prefetch, timeout))

        def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
            if self.client.llen(f"{self.namespace}:{message.queue_name}") >= BACKLOG:
                return message
            return super().enqueue(message, delay=delay)

    # The broker drops every setting but the address when it is given one: so it gets a client instead.
    client = redis.Redis.from_url(
        url, socket_connect_timeout=1.0, socket_timeout=2.0, health_check_interval=30
    )
    return WakeRedisBroker(  # type: ignore[no-untyped-call]
        client=client,
        middleware=[],
        namespace=namespace,
        # After a kill -9 its unread messages come back within 15 s instead of minutes; maintenance at
        # every command is two range queries in a queue that is nearly always empty.
        maintenance_chance=1_000_000,
        heartbeat_timeout=15_000,
        dead_message_ttl=_UNREAD_MS,
    )


def _rabbitmq_broker(url: str, is_quorum: bool) -> dramatiq.Broker:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker
    from dramatiq.common import xq_name

    # Without a dead-letter exchange: what overflows or grows old is dropped on purpose.
    limits = {"x-max-length": BACKLOG, "x-overflow": "drop-head", "x-message-ttl": _UNREAD_MS}
    arguments = limits | ({"x-queue-type": "quorum"} if is_quorum else {})

    class WakeRabbitmqBroker(RabbitmqBroker):
        def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
            return _Forgiving(super().consume(queue_name, prefetch, timeout))

        def _build_queue_arguments(self, queue_name: str) -> dict[str, Any]:
            return arguments

        def _declare_xq_queue(self, queue_name: str) -> Any:
            # Nothing is ever put there, but a classic queue whose node is away cannot be declared, and
            # dramatiq declares all three or sends nothing.
            if not is_quorum:
                return super()._declare_xq_queue(queue_name)  # type: ignore[no-untyped-call]
            return self.channel.queue_declare(queue=xq_name(queue_name), durable=True, arguments=arguments)

    # Confirmed: otherwise a notification on a connection lost unnoticed would get no second attempt.
    broker = WakeRabbitmqBroker(url=url, middleware=[], confirm_delivery=True)
    places: Any = broker.parameters  # several, when the address names several separated by ";"
    for place in places if isinstance(places, list) else [places]:
        # The defaults wait ten seconds for a socket, and for ever for a broker that blocks its publishers.
        place.socket_timeout = place.stack_timeout = place.blocked_connection_timeout = 2.0
        place.connection_attempts = 1
    # The client logs a handful of errors at every attempt, on top of the one that it raises.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    return broker
