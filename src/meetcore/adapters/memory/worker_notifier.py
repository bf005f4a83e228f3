"""A notifier inside the process: for tests, and for workers in the same event loop."""

from collections.abc import Callable


class MemoryWorkerNotifier:
    """Counts its notifications and passes each on to `on_notify`, which must neither block nor raise.

    Attributes:
        notifications: how often it was notified so far.
    """

    def __init__(self, on_notify: Callable[[], None] | None = None) -> None:
        self._on_notify = on_notify
        self.notifications = 0

    def notify(self) -> None:
        self.notifications += 1
        if self._on_notify is not None:
            self._on_notify()
