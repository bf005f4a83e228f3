"""Rate counters of one process, and the fallback from a shared store to them.

They suit a single process, or the time of an outage of the shared store; each process then admits the full
quota. Hits counted here during an outage are not transferred.
"""

import time
from collections.abc import Callable
from uuid import UUID

from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.observability import NO_METRICS, RATE_FALLBACK, Log, Metrics
from meetcore.ports.requests import RateCounters, RateStoreUnavailable

__all__ = ["FallbackRateCounters", "InProcessRateCounters"]


class InProcessRateCounters:
    """Counters for one event loop, bounded in number: beyond that the oldest of a minute restart.

    More than one of its `windows` of a minute are kept, so that a clock set back finds its counts.
    """

    def __init__(self, *, windows: int = 10, counters_per_window: int = 100_000) -> None:
        self._windows = windows
        self._counters_per_window = counters_per_window
        self._hits: dict[int, dict[tuple[UUID, OperationClass], int]] = {}

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        """Add one and return the count. Never waits, so hits cannot interleave."""
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
        # Drop the window opened first, not the lowest: after a clock jumped back, the lowest is now.
        while len(self._hits) >= self._windows:
            del self._hits[next(iter(self._hits))]
        return self._hits.setdefault(window_start, {})


class FallbackRateCounters:
    """Counts in `primary`, and in `fallback`, which must not fail, while the primary is unavailable.

    The begin and the end of an outage are logged. During it one hit per `probe_every_s` tries the primary, so
    that a hanging store delays only that one.
    """

    def __init__(
        self,
        primary: RateCounters,
        fallback: RateCounters,
        log: Log,
        *,
        probe_every_s: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._primary = primary
        self._fallback = fallback
        self._log = log
        self._metrics = metrics
        self._probe_every_s = probe_every_s
        self._monotonic = monotonic
        self._next_probe: float | None = None  # None while the primary is available

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        if not self._may_ask_primary():
            return await self._fallback.hit(key_id, operation_class, window_start)
        try:
            count = await self._primary.hit(key_id, operation_class, window_start)
        except RateStoreUnavailable as error:
            self._log_unavailable(error)
            return await self._fallback.hit(key_id, operation_class, window_start)
        self._note_back()
        return count

    def _may_ask_primary(self) -> bool:
        if self._next_probe is None:
            return True
        now = self._monotonic()
        if now < self._next_probe:
            return False
        # Before the attempt: while it hangs, no other hit tries.
        self._next_probe = now + self._probe_every_s
        return True

    def _log_unavailable(self, error: RateStoreUnavailable) -> None:
        if self._next_probe is None:
            self._log.warning("rate store unavailable: counting in this process", error=str(error))
            self._metrics.observe(RATE_FALLBACK, 1)
        self._next_probe = self._monotonic() + self._probe_every_s

    def _note_back(self) -> None:
        if self._next_probe is not None:
            self._next_probe = None
            self._metrics.observe(RATE_FALLBACK, 0)
            self._log.info("rate store back: counting is shared again")
