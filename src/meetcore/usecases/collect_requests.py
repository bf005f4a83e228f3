"""Keep what became of requests, without a trip to the database in any of them.

Requests are collected in memory and written by a periodic task, some hundreds in one statement. A process
that is killed loses those of about a second. Nothing here ever fails a request.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final
from uuid import UUID

from attrs import define, field

from meetcore.domain.requests.request_log import LoggedRequest, MinuteSample, is_error, sample
from meetcore.ports.request_log import RequestLog
from meetcore.ports.store import StoreUnavailable

MAX_WAITING: Final = 10_000
MAX_ACCOUNTS: Final = 20_000
BATCH: Final = 500

_NONE: Final = MinuteSample()


def _ignore(_: int) -> None:
    """Report nothing."""


@define
class CollectRequests:
    """Keeps requests until they are written.

    Args:
        store: where they are written.
        report: called with the number of requests that found the queue full, since it was called last.
        at_most: how many wait at most; further ones are dropped, and counted.
    """

    store: RequestLog
    report: Callable[[int], object] = _ignore
    at_most: int = MAX_WAITING
    _waiting: deque[LoggedRequest] = field(factory=deque, init=False, repr=False)
    _minute: int = field(default=-1, init=False)
    _samples: dict[UUID, MinuteSample] = field(factory=dict, init=False, repr=False)
    _dropped: int = field(default=0, init=False)

    def add(self, account_id: UUID, at: datetime, status: int, describe: Callable[[], LoggedRequest]) -> None:
        """Describe and keep a request, if it is among those of its account and minute that are kept."""
        minute = int(at.timestamp()) // 60
        if minute > self._minute:
            self._minute = minute
            self._samples.clear()
        so_far = self._samples.get(account_id, _NONE)
        if so_far is _NONE and len(self._samples) >= MAX_ACCOUNTS:
            self._dropped += 1
            return
        self._samples[account_id], is_kept = sample(so_far, is_error=is_error(status))
        if not is_kept:
            return
        if len(self._waiting) >= self.at_most:
            self._dropped += 1
        else:
            self._waiting.append(describe())

    async def __call__(self) -> None:
        """Write what waits.

        Raises:
            StoreUnavailable: it is kept for the next time.
        """
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self.report(dropped)
        while self._waiting:
            batch = list(islice(self._waiting, BATCH))
            try:
                await self.store.save(batch)
            except StoreUnavailable:
                raise
            except Exception:  # the same batch would be refused for ever, and hold up those behind it
                self._dropped += len(batch)
                self._forget(batch)
                raise
            self._forget(batch)

    def _forget(self, batch: Sequence[LoggedRequest]) -> None:
        for _ in batch:  # those that came meanwhile stand behind them
            self._waiting.popleft()
