"""The receiver of notifications: a dramatiq worker that only wakes its owner.

It owns the consumers' threads in this process. It does no work itself: an actor that worked would
hold a thread for as long as the message is in flight, so it hands over and returns at once.

An unavailable broker never ends the process: the consumers try again every three seconds, and the owner
looks by its own rounds meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import dramatiq
from dramatiq.worker import Worker

_PREFETCH = 16
_COMPLAIN_EVERY_S = 60.0


class _Log(Protocol):
    def exception(self, event: str, /, **fields: object) -> object: ...


class NotificationConsumer:
    """Listens for notifications and calls `on_wake` from a thread of its own.

    Args:
        broker: from `broker_from_url`, one for each worker; `stop` closes it.
        on_wake: for each queue of notifications: thread-safe, quick, and fine to be called for no
            reason, such as `lambda: loop.call_soon_threadsafe(event.set)`.
        threads: threads that call `on_wake`.
        poll_s: seconds that a notification may lie in Redis, which is polled; the others deliver at once.
    """

    def __init__(
        self,
        broker: dramatiq.Broker,
        on_wake: Mapping[str, Callable[[], object]],
        log: _Log,
        *,
        threads: int = 1,
        poll_s: float = 0.1,
    ) -> None:
        self._broker = broker
        self._log = log
        for queue, wake in on_wake.items():
            dramatiq.actor(actor_name=queue, queue_name=queue, broker=broker)(self._actor(wake))
        # Notifications are never delayed: without this a second consumer would poll for such messages.
        broker.delay_queues.clear()
        poll_ms = max(1, round(poll_s * 1000))
        self._worker = Worker(broker, queues=set(on_wake), worker_timeout=poll_ms, worker_threads=threads)
        self._worker.queue_prefetch = _PREFETCH
        self._quiet = _Quiet()
        # The names that dramatiq gives its consumers' loggers.
        self._consumer_logs = [
            logging.getLogger(f"dramatiq.worker.ConsumerThread({queue})") for queue in on_wake
        ]

    def start(self) -> None:
        """Start the threads. Returns at once, whether the broker is there or not."""
        # Before the thread is there: it may fail, and complain, before `start` returns.
        for consumer_log in self._consumer_logs:
            consumer_log.addFilter(self._quiet)
        self._worker.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop the threads and close the broker, within about `timeout_s` seconds.

        Unread messages go back to the queue; one that is lost costs nothing.
        """
        closing = threading.Thread(
            target=self._stop_consumers, args=(timeout_s,), name="meetcore-consumer-stop", daemon=True
        )
        closing.start()
        # A thread, for dramatiq waits for a broker that hangs as long as its driver likes.
        closing.join(timeout_s + 0.5)

    def _stop_consumers(self, timeout_s: float) -> None:
        try:
            self._worker.stop(timeout=round(timeout_s * 1000))
            self._broker.close()
        except Exception:  # noqa: BLE001  # an unavailable broker must not delay the end
            self._log.exception("the wake-up worker did not stop cleanly")
        finally:
            for consumer_log in self._consumer_logs:
                consumer_log.removeFilter(self._quiet)

    def _actor(self, on_wake: Callable[[], object]) -> Callable[[], None]:
        def wake() -> None:
            try:
                on_wake()
            except Exception:  # noqa: BLE001  # such as a loop that has just been closed
                self._log.exception("waking failed")

        return wake


class _Quiet(logging.Filter):
    """Lets one complaint of a consumer through in a minute: it tries, and fails, every three seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _COMPLAIN_EVERY_S
        return True
