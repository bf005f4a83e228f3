"""A doorbell inside the process: for tests, and where the workers live in the same event loop."""

from collections.abc import Callable

__all__ = ["MemoryWorkerNotifier"]


class MemoryWorkerNotifier:
    """Counts its rings and passes each on to `on_ring`, which must neither block nor raise.

    Attributes:
        rings: how often it was rung so far.
    """

    def __init__(self, on_ring: Callable[[], None] | None = None) -> None:
        self._on_ring = on_ring
        self.rings = 0

    def ring(self) -> None:
        """Say that something is due; look now."""
        self.rings += 1
        if self._on_ring is not None:
            self._on_ring()
