"""Work on one thing in turns: what waits while it is worked on is done together, as the next turn.

Between processes nothing is ordered here: the work itself finds out whether it may be kept.

An item waits for the turn under way and for those of the items before it, `most` in each. The store bounds
each turn by its time limit for a connection, and where it does not answer, nothing that waits tries again.
How many items wait is not bounded here: they are as many as the process takes requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from functools import partial
from typing import Final, Generic, TypeVar

from attrs import define, field, frozen

from meetcore.domain.errors import own_copy
from meetcore.ports.store import CommitLost, ConnectionLost, OutcomeUnknown, StoreUnavailable

MOST_AT_ONCE: Final = 64
"""How many items one turn has: each delays the results of the others."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")


@frozen
class FailedBatch:
    """Writes of several callers that failed together. Nothing was kept, and each is tried again alone."""

    what: str
    size: int
    fault: Exception


def no_report(_: FailedBatch) -> None:
    """Report nothing."""


@frozen(eq=False)
class _Waiting(Generic[T, R]):
    item: T
    result: asyncio.Future[R]


@define
class Turns(Generic[K, T, R]):
    """Work on items of a key one turn after another, in the caller's task where nobody else is at the key.

    `work` returns a result for each item, in their order; where it raises, all items of the turn fail.
    `first` does it for an item that comes while its key has no turn under way; by default `work` does.
    """

    work: Callable[[K, Sequence[T]], Awaitable[Sequence[R]]]
    most: int = MOST_AT_ONCE
    first: Callable[[K, T], Awaitable[R]] | None = None
    _waiting: dict[K, list[_Waiting[T, R]]] = field(factory=dict, init=False, repr=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False, repr=False)

    async def run(self, key: K, item: T) -> R:
        """Do an item in the next turn of its key, and return its result.

        Raises:
            OutcomeUnknown: of the turn; whether it was kept is not known.
            StoreUnavailable: of the turn, or of one before it, where the store did not answer.
        """
        waiting = self._waiting.get(key)
        if waiting is not None:
            result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(item, result))
            return await result
        self._waiting[key] = waiting = []
        try:
            if self.first is not None:
                return await self.first(key, item)
            return (await self.work(key, [item]))[0]
        except StoreUnavailable as error:
            _give_up(waiting, error)
            raise
        finally:
            self._go_on(key, waiting)

    def _go_on(self, key: K, waiting: list[_Waiting[T, R]]) -> None:
        if not waiting:
            del self._waiting[key]
            return
        task = asyncio.create_task(self._run_waiting(key, waiting), context=Context())  # of no request
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, key, waiting))

    async def _run_waiting(self, key: K, waiting: list[_Waiting[T, R]]) -> None:
        try:
            while waiting:
                batch = [each for each in waiting[: self.most] if not each.result.done()]
                del waiting[: self.most]
                if batch:
                    await self._run_together(key, batch, waiting)
                # Those that have their result now may come again at once, and belong to the next turn.
                await asyncio.sleep(0)
        finally:
            self._close(key, waiting)

    async def _run_together(
        self, key: K, batch: Sequence[_Waiting[T, R]], waiting: list[_Waiting[T, R]]
    ) -> None:
        try:
            results = await self.work(key, [each.item for each in batch])
        except Exception as error:  # noqa: BLE001  # it is raised where each is waited for
            _fail(batch, error)
            _give_up(waiting, error)
        except BaseException:  # where the process ends: what is under way may be kept
            _fail(batch, CommitLost("interrupted"))
            raise
        else:
            for each, result in zip(batch, results, strict=True):
                if not each.result.done():  # its caller was cancelled meanwhile
                    each.result.set_result(result)

    def _end(self, key: K, waiting: list[_Waiting[T, R]], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._waiting.get(key) is waiting:  # it was cancelled before its first step
            self._close(key, waiting)

    def _close(self, key: K, waiting: list[_Waiting[T, R]]) -> None:
        del self._waiting[key]
        _fail(waiting, StoreUnavailable("interrupted"))  # there are some only where the process ends


def failure_of_waiting(error: Exception) -> StoreUnavailable | None:
    """Return the error of items that wait while a turn fails with this; `None` where they are to be tried.

    Another connection may work where one was lost. A store that does not answer would be waited for again. Of
    what waits nothing was begun, whatever is unknown of the turn.
    """
    if not isinstance(error, StoreUnavailable) or isinstance(error, (ConnectionLost, CommitLost)):
        return None
    if not isinstance(error, OutcomeUnknown):
        return error
    waiting = StoreUnavailable("the store did not answer in time")
    waiting.__cause__ = error.__cause__ or error
    return waiting


def _give_up(waiting: list[_Waiting[T, R]], error: Exception) -> None:
    if (failure := failure_of_waiting(error)) is not None:
        _fail(waiting, failure)
        waiting.clear()


def _fail(waiting: Sequence[_Waiting[T, R]], error: Exception) -> None:
    for each in waiting:
        if not each.result.done():
            each.result.set_exception(own_copy(error))
