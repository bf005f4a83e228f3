"""The notifier on a queue: one thread that sends notifications to the broker.

A notification costs the event loop almost nothing: `notify` sets a flag, and a thread of its own
sends at most one message in `spacing_s` while it is set. Notifications for an unavailable broker are
dropped: the sweeper finds what was due.
"""

import threading
from typing import Protocol

import dramatiq

from meetcore.adapters.queue.broker import QUEUE


class _Log(Protocol):
    def warning(self, event: str, /, **fields: object) -> object: ...

    def info(self, event: str, /, **fields: object) -> object: ...


class DramatiqWorkerNotifier:
    """Notifies by an empty message that the first free worker takes.

    The thread starts at the first notification, so that a process may still fork after building this.

    Args:
        broker: from `broker_from_url`.
        queue: the queue's name; the workers listen on the same.
        spacing_s: seconds between two messages, at least.
        pause_s: seconds without an attempt after the broker failed.
    """

    def __init__(
        self,
        broker: dramatiq.Broker,
        log: _Log,
        *,
        queue: str = QUEUE,
        spacing_s: float = 0.005,
        pause_s: float = 1.0,
    ) -> None:
        self._broker = broker
        self._log = log
        self._queue = queue
        self._spacing_s = spacing_s
        self._pause_s = pause_s
        self._notified = threading.Event()
        self._closed = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_unavailable = False
        broker.declare_queue(queue)

    def notify(self) -> None:
        """Notify the worker that something is due. Takes about a microsecond; after `close`, does nothing."""
        if not self._notified.is_set():
            self._notified.set()
            if self._thread is None:
                self._start()

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop the thread. A notification not sent by now is lost, and so are all later ones.

        Does not close the broker, and does not wait longer than `timeout_s` for one that hangs.
        """
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
            # Cleared before the message leaves: a notification during the sending needs another message.
            self._notified.clear()
            pause_s = self._spacing_s if self._send() else self._pause_s
            self._closed.wait(pause_s)

    def _send(self) -> bool:
        message: dramatiq.Message[None] = dramatiq.Message(self._queue, self._queue, (), {}, {})
        try:
            self._broker.enqueue(message)
        except Exception as error:  # noqa: BLE001  # a failed notification must not stop the work
            self._log_unavailable(error)
            return False
        self._note_back()
        return True

    def _log_unavailable(self, error: Exception) -> None:
        if not self._is_unavailable:
            self._is_unavailable = True
            self._log.warning("broker away: workers wake by their own rounds only", error=repr(error))

    def _note_back(self) -> None:
        if self._is_unavailable:
            self._is_unavailable = False
            self._log.info("broker back: notifications are sent again")
