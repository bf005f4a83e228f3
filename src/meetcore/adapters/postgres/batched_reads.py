"""Read the rows of concurrent callers by one statement.

Without it `GET /me` of eight clients costs 44 % more processor time.

A statement starts at the end of the turn of the event loop in which a caller asked, and reads all that asked in the
turn. Callers that ask while a statement is under way are read together by the next one; no statement waits longer for
more callers. Each caller is read by a statement that began after it asked. A slow statement delays others by `LATE_S`
at most: then the next one starts beside it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Final

from attrs import define, field

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.domain.errors import own_copy
from meetcore.ports.store import StoreUnavailable

LATE_S: Final = 0.02
"""Seconds after which those that wait for the end of a statement are read by another one."""

MAX_ROWS: Final = 64
"""Callers that one statement reads; their rows are decoded without a pause."""

Result = asyncio.Future[Row | None]


@define(eq=False)
class BatchedRead:
    """A statement that reads one row, and one that reads the rows of several callers.

    It belongs to one event loop while a caller waits. `alone` is the statement for one caller, `together`
    that for several: a row has the number of its caller, from 1, in the column `number`. `parameters_of`
    makes the parameters of `together` from those of `alone` of each caller.
    """

    _pool: Pool
    alone: str
    together: str
    parameters_of: Callable[[Sequence[Row]], Row]
    _waiting: list[tuple[Row, Result]] = field(factory=list, init=False)
    _latest: object = field(default=None, init=False)
    _started_at: float = field(default=0.0, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)

    async def find(self, parameters: Row) -> Row | None:
        """Read the row of one caller. Raises `StoreUnavailable`: the database does not answer."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._start_soon(loop)
        result: Result = loop.create_future()
        self._waiting.append((parameters, result))
        with self._pool.tracing.span("read"):
            return await result

    def _start_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a statement at the end of this turn, or later where one is under way that is not late."""
        if self._latest is None or loop.time() - self._started_at > LATE_S:
            loop.call_soon(self._start)
        else:
            self._timer = loop.call_at(self._started_at + LATE_S, self._start)

    def _end(self, this: object) -> None:
        """Let those go on that waited for the end of a statement, whatever became of it."""
        if this is self._latest:
            self._latest = None
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        """Read those that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [each for each in self._waiting if not each[1].done()]  # not those that were cancelled
        batch, self._waiting = waiting[:MAX_ROWS], waiting[MAX_ROWS:]
        if not batch:
            return
        loop = asyncio.get_running_loop()
        self._latest = this = object()
        self._started_at = loop.time()
        if self._waiting:
            self._timer = loop.call_at(self._started_at + LATE_S, self._start)
        # Nothing of the request in whose turn it starts belongs to it.
        task = loop.create_task(self._find_together(batch, this), context=Context())
        self._tasks.add(task)
        task.add_done_callback(partial(self._close, batch, this))

    async def _find_together(self, batch: Sequence[tuple[Row, Result]], this: object) -> None:
        try:
            _deal_out(batch, await self._read(batch))
        except StoreUnavailable as error:
            _refuse(batch, error)
        except Exception as error:  # noqa: BLE001  # it is raised where each is waited for
            if len(batch) == 1:
                _refuse(batch, error)
            else:
                await self._find_each(batch)
        finally:
            self._end(this)

    async def _find_each(self, batch: Sequence[tuple[Row, Result]]) -> None:
        """Read each caller alone: a fault of one row does not fail the others."""
        for number, each in enumerate(batch):
            if each[1].done():
                continue
            try:
                _deal_out([each], await self._read([each]))
            except StoreUnavailable as error:  # it would not answer the others either
                _refuse(batch[number:], error)
                return
            except Exception as error:  # noqa: BLE001  # it is raised where it is waited for
                _refuse([each], error)

    async def _read(self, batch: Sequence[tuple[Row, Result]]) -> Sequence[Row]:
        with translated():
            if len(batch) == 1:
                found = await self._pool.read_untraced(self.alone, batch[0][0])
                return [row | {"number": 1} for row in found]
            parameters = self.parameters_of([each for each, _ in batch])
            return await self._pool.read_untraced(self.together, parameters)

    def _close(self, batch: Sequence[tuple[Row, Result]], this: object, task: asyncio.Task[None]) -> None:
        """Forget a task; where it was cancelled, before its first step, too, cancel those that it was to read."""
        self._tasks.discard(task)
        for _, result in batch:
            result.cancel()
        self._end(this)


def _deal_out(batch: Sequence[tuple[Row, Result]], rows: Sequence[Row]) -> None:
    found = {row["number"]: row for row in rows}
    for number, (_, result) in enumerate(batch, 1):
        if not result.done():
            result.set_result(found.get(number))


def _refuse(batch: Sequence[tuple[Row, Result]], error: Exception) -> None:
    for _, result in batch:
        if not result.done():
            result.set_exception(own_copy(error))
