"""Rate counters in the memory of this process.

It owns counting for one process: right for tests, for a program with a single process, and for the
time during which a shared store is unavailable. It is not shared: two processes count apart, and each
admits the full quota.
"""

from uuid import UUID

from meetcore.domain.requests.rate_window import OperationClass


class MemoryRateCounters:
    """Counters for one event loop, bounded in windows and in counters.

    Args:
        windows: minutes kept. More than one, so that a clock set back finds its counts again.
        counters_per_window: keys and classes counted in one minute; beyond it the ones counted
            first start anew, for memory is worth more than the last word of precision.
    """

    def __init__(self, *, windows: int = 10, counters_per_window: int = 100_000) -> None:
        self._windows = windows
        self._counters_per_window = counters_per_window
        self._hits: dict[int, dict[tuple[UUID, OperationClass], int]] = {}

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        """Add one and return the count, this hit included. Never waits, so hits cannot interleave."""
        window = self._hits.get(window_start)
        if window is None:
            window = self._open(window_start)
        name = (key_id, operation_class)
        count = window.get(name, 0) + 1
        if count == 1 and len(window) >= self._counters_per_window:
            del window[next(iter(window))]
        window[name] = count
        return count

    def _open(self, window_start: int) -> dict[tuple[UUID, OperationClass], int]:
        # The window opened longest ago goes, not the one with the smallest number: after a clock that
        # jumped ahead and came back, the smallest number is the present.
        while len(self._hits) >= self._windows:
            del self._hits[next(iter(self._hits))]
        return self._hits.setdefault(window_start, {})
