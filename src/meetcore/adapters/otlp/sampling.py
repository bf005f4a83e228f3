"""Which requests are recorded: a share of all, and what callers ask for up to a limit.

A caller who records its own trace says so in `traceparent`, and so could a caller who wants this service to
record everything. That flag is honoured so many times a second; beyond that, and for every other request,
chance decides: ours, and not the trace's id, which is the caller's, too.
"""

import random
import time
from collections.abc import Callable

from meetcore.domain.requests.trace_context import TraceContext


class Sampling:
    """Decides once for each request.

    Args:
        share: of requests that are recorded, from 0 to 1.
        callers_per_s: requests in a second that are recorded because their callers recorded them; a second's
            worth of them may come at once.
        chance: gives a number from [0, 1).
        clock: gives seconds.
    """

    def __init__(
        self,
        share: float,
        callers_per_s: int,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._callers_per_s = callers_per_s
        self._chance = chance
        self._clock = clock
        self._left = float(callers_per_s)
        self._since = clock()

    def is_recorded(self, caller: TraceContext | None) -> bool:
        """Whether to record a request of this caller."""
        if caller is not None and caller.is_sampled and self._takes_from_callers():
            return True
        return self._chance() < self._share

    def _takes_from_callers(self) -> bool:
        now = self._clock()
        gained = (now - self._since) * self._callers_per_s
        self._left, self._since = min(self._callers_per_s, self._left + gained), now
        if self._left < 1:
            return False
        self._left -= 1
        return True
