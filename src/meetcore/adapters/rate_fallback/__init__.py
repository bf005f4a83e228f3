"""The counter to use while the rate store is unavailable.

It owns the decision whom to ask: the shared store, or a substitute, usually this process's memory. It
knows neither, and never refuses a request because the store is unavailable.

During an outage each process admits the full quota by itself, and a minute that the store slept through
is not made up for afterwards: hits counted by the substitute stay there.
"""

import time
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.ports.rate_counters import RateCounters, RateStoreUnavailable

__all__ = ["FallbackRateCounters"]


class _Log(Protocol):
    def warning(self, event: str, /, **fields: object) -> object: ...

    def info(self, event: str, /, **fields: object) -> object: ...


class FallbackRateCounters:
    """Counts in `primary`, and in `fallback` while the primary is unavailable.

    An outage is logged once when it begins and once when it ends. Meanwhile one hit in `probe_every_s`
    seconds tries the primary; the others do not touch it, so that a store that hangs delays one request
    a second and not all of them.

    Args:
        primary: the shared store.
        fallback: what counts meanwhile; it should not fail.
        probe_every_s: seconds between two attempts on an unavailable store.
        monotonic: seconds from a clock that is never set back.
        metrics: take whether the primary is unavailable.
    """

    def __init__(
        self,
        primary: RateCounters,
        fallback: RateCounters,
        log: _Log,
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
        """Add one and return the count of the counter in use, this hit included."""
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
        # Moved on before the attempt, not after: while it hangs, no other hit tries.
        self._next_probe = now + self._probe_every_s
        return True

    def _log_unavailable(self, error: RateStoreUnavailable) -> None:
        if self._next_probe is None:
            self._log.warning("rate store unavailable: counting in this process", error=str(error))
            self._metrics.rate_store(is_away=True)
        self._next_probe = self._monotonic() + self._probe_every_s

    def _note_back(self) -> None:
        if self._next_probe is not None:
            self._next_probe = None
            self._metrics.rate_store(is_away=False)
            self._log.info("rate store back: counting is shared again")
