"""Work on one thing in turns: what waits while it is worked on is carried out together, as the next turn.

Between processes nothing is ordered here: what is carried out says itself what it finds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from typing import Final, Generic, TypeVar

from attrs import define, field, frozen

from meetcore.ports.store import CommitLost, ConnectionLost, StoreUnavailable

MOST_AT_ONCE: Final = 64
"""How much one turn carries out: each delays the results of the others."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")


@frozen(eq=False)
class _Waiting(Generic[T, R]):
    item: T
    result: asyncio.Future[R]


@define
class Turns(Generic[K, T, R]):
    """Carry out items of a key one turn after another, in the caller's task where nobody else is at the key.

    `carry_out` returns a result for each item, in their order; where it raises, all items of the turn fail.
    """

    carry_out: Callable[[K, Sequence[T]], Awaitable[Sequence[R]]]
    most: int = MOST_AT_ONCE
    _waiting: dict[K, list[_Waiting[T, R]]] = field(factory=dict, init=False, repr=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False, repr=False)

    async def run(self, key: K, item: T) -> R:
        """Carry out an item in the next turn of its key, and return its result.

        Raises:
            StoreUnavailable: of the turn, or of the one before it: where a turn finds that the store does not
                answer, those that wait fail at once.
            ConnectionLost, CommitLost: of the turn; whether it was kept is not known.
        """
        waiting = self._waiting.get(key)
        if waiting is not None:
            result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(item, result))
            return await result
        self._waiting[key] = []
        try:
            return (await self.carry_out(key, [item]))[0]
        except StoreUnavailable as error:
            self._give_up(key, error)
            raise
        finally:
            self._go_on(key)

    def _go_on(self, key: K) -> None:
        if not self._waiting[key]:
            del self._waiting[key]
            return
        task = asyncio.create_task(self._run_waiting(key), context=Context())  # of no request
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_waiting(self, key: K) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                batch = [each for each in waiting[: self.most] if not each.result.done()]
                del waiting[: self.most]
                if batch:
                    await self._run_together(key, batch)
                # Those that have their result now may come again at once, and belong to the next turn.
                await asyncio.sleep(0)
        finally:
            del self._waiting[key]
            _fail(waiting, StoreUnavailable("interrupted"))  # where the process ends

    async def _run_together(self, key: K, batch: Sequence[_Waiting[T, R]]) -> None:
        try:
            results = await self.carry_out(key, [each.item for each in batch])
        except Exception as error:  # noqa: BLE001  # it is raised where each is waited for
            _fail(batch, error)
            self._give_up(key, error)
        except BaseException:  # where the process ends: what is under way may be kept
            _fail(batch, ConnectionLost("interrupted"))
            raise
        else:
            for each, result in zip(batch, results, strict=True):
                if not each.result.done():  # its caller was cancelled meanwhile
                    each.result.set_result(result)

    def _give_up(self, key: K, error: Exception) -> None:
        # After a lost connection another one may do.
        if isinstance(error, StoreUnavailable) and not isinstance(error, (ConnectionLost, CommitLost)):
            _fail(self._waiting[key], error)
            self._waiting[key].clear()


def _fail(waiting: Sequence[_Waiting[T, R]], error: Exception) -> None:
    for each in waiting:
        if not each.result.done():
            each.result.set_exception(error)
