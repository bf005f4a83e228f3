"""Read what concurrent callers ask for in one statement.

The first caller is read at once, by a statement of its own. Those that ask while a statement is under way wait for its
end, and the next statement reads them together: nobody waits for company, and each is read by a statement that
began after it asked. A statement that is slow, as where the server is away, holds nobody up for long: the next one
does not wait for its end.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from copy import copy
from typing import Final

from attrs import define, field

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.pool import Pool, translated

LATE_S: Final = 0.02
"""Seconds after which those that wait for the end of a statement are read by another one."""

MAX_ROWS: Final = 64
"""Callers that one statement reads; their rows are decoded without a pause."""

Result = asyncio.Future[Row | None]


@define(eq=False)
class BatchedRead:
    """A statement that reads one row, and another that reads the rows of several callers.

    Belongs to one event loop while a caller waits.

    Args:
        alone: the statement for one caller.
        together: the statement for several. A row has the number of its caller, from 1, in the column `place`.
        parameters_of: makes the parameters of `together` from those of `alone` of each caller.
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
        """Read the row of one caller.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not self._waiting and (self._latest is None or now - self._started_at > LATE_S):
            return await self._find_alone(parameters, now)
        if not self._waiting:
            self._timer = loop.call_at(self._started_at + LATE_S, self._start)
        result: Result = loop.create_future()
        self._waiting.append((parameters, result))
        with self._pool.tracing.span("read"):
            return await result

    async def _find_alone(self, parameters: Row, now: float) -> Row | None:
        this = self._latest = object()
        self._started_at = now
        try:
            with translated():
                found = await self._pool.read(self.alone, parameters)
        finally:
            self._end(this)
        return found[0] if found else None

    def _end(self, this: object) -> None:
        """Let those go on that waited for the end of a statement, whatever became of it."""
        if this is self._latest:
            self._latest = None
            self._start()

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
        task.add_done_callback(self._tasks.discard)

    async def _find_together(self, batch: Sequence[tuple[Row, Result]], this: object) -> None:
        try:
            with translated():
                if len(batch) == 1:
                    found = await self._pool.read_untraced(self.alone, batch[0][0])
                    rows = [row | {"place": 1} for row in found]
                else:
                    parameters = self.parameters_of([each for each, _ in batch])
                    rows = await self._pool.read_untraced(self.together, parameters)
        except BaseException as error:
            _refuse(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            _deal_out(batch, rows)
        finally:
            self._end(this)


def _deal_out(batch: Sequence[tuple[Row, Result]], rows: Sequence[Row]) -> None:
    found = {row["place"]: row for row in rows}
    for place, (_, result) in enumerate(batch, 1):
        if not result.done():
            result.set_result(found.get(place))


def _refuse(batch: Sequence[tuple[Row, Result]], error: BaseException) -> None:
    """Give each caller an error of its own: a traceback grows with each place that raises it."""
    for _, result in batch:
        if result.done():
            continue
        if not isinstance(error, Exception):  # the task was cancelled, as the process ends
            result.cancel()
            continue
        own = copy(error)
        own.__cause__ = error.__cause__ or error
        result.set_exception(own)
