"""Spending of one account, in turns: what waits for it in this process is written in one transaction.

Each reservation and each settlement of an account needs its row, one after another. While nobody else here is
at it, one statement does, on the account as it was read. What comes meanwhile waits, and is then carried out
together: one lock, one reading, a statement for each, one commit. Between processes, the account's lock
decides as before.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from datetime import date
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from attrs import define, field, frozen

from meetcore.ports.account_state import AccountState
from meetcore.ports.store import CommitLost, ConnectionLost, Store, StoreUnavailable, Transaction

MOST_AT_ONCE: Final = 16
"""How many are written in one transaction: each delays the answers of those before it."""

T = TypeVar("T")
Attempt: TypeAlias = Callable[[Transaction, AccountState], Coroutine[Any, Any, tuple[T, AccountState] | None]]
"""Decides on a state and writes; returns its result and the next state, `None` where nothing was written."""


@frozen
class Spender:
    """Whose turn it is: a key of an account, on a day of its cap."""

    account_id: UUID
    api_key_id: UUID
    cap_day: date


@frozen(eq=False)
class _Waiting:
    attempt: Attempt[Any]
    result: asyncio.Future[Any]
    context: Context = field(factory=copy_context)


@define
class AccountTurns:
    """Run attempts on an account one after another, those that wait for each other in one transaction."""

    store: Store
    _waiting: dict[Spender, list[_Waiting]] = field(factory=dict, init=False, repr=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False, repr=False)

    async def run(self, spender: Spender, state: AccountState, attempt: Attempt[T]) -> T | None:
        """Run an attempt, on the state if nobody else here is at this account, else on what they left.

        Returns:
            Its result; None where nothing was written, and the decision is to be made alone.

        Raises:
            ConnectionLost: whether it was kept is not known.
            StoreUnavailable: of `at_once`, or of a transaction with others.
        """
        waiting = self._waiting.get(spender)
        if waiting is not None:
            result = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(attempt, result))
            found: T | None = await result
            return found
        self._waiting[spender] = []
        try:
            async with self.store.at_once() as tx:
                done = await attempt(tx, state)
        except StoreUnavailable as error:
            _give_up(self._waiting[spender], error)
            raise
        finally:
            self._go_on(spender)
        return None if done is None else done[0]

    def _go_on(self, spender: Spender) -> None:
        if not self._waiting[spender]:
            del self._waiting[spender]
            return
        # Of no request: each attempt runs in the context of its own, which says whose events they are.
        task = asyncio.create_task(self._run_waiting(spender), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_waiting(self, spender: Spender) -> None:
        waiting = self._waiting[spender]
        batch = [each for each in waiting[:MOST_AT_ONCE] if not each.result.done()]
        del waiting[:MOST_AT_ONCE]
        try:
            results = await self._run_together(spender, batch)
        except StoreUnavailable as error:
            _fail(batch, error)
            _give_up(waiting, error)
        else:
            for each, result in zip(batch, results, strict=True):
                if not each.result.done():  # its request was cancelled meanwhile
                    each.result.set_result(result)
        finally:
            for each in batch:
                if not each.result.done():  # nothing was kept: each is decided alone, and fails alone
                    each.result.set_result(None)
            self._go_on(spender)

    async def _run_together(self, spender: Spender, batch: list[_Waiting]) -> list[Any]:
        try:
            return await self._commit_together(spender, batch)
        except CommitLost as error:  # for each of them it is as with a call of `at_once`
            raise ConnectionLost("the connection was lost") from error

    async def _commit_together(self, spender: Spender, batch: list[_Waiting]) -> list[Any]:
        results = []
        async with self.store.begin() as tx:
            state = await tx.meetings.load_state(spender.account_id, spender.api_key_id, spender.cap_day)
            for each in batch:
                done = await asyncio.create_task(each.attempt(tx, state), context=each.context)
                if done is not None:
                    state = done[1]
                results.append(None if done is None else done[0])
        return results


def _fail(waiting: list[_Waiting], error: StoreUnavailable) -> None:
    for each in waiting:
        if not each.result.done():
            each.result.set_exception(error)


def _give_up(waiting: list[_Waiting], error: StoreUnavailable) -> None:
    """Have nobody wait once more for a store that does not answer; after a lost connection another may."""
    if not isinstance(error, ConnectionLost):
        _fail(waiting, error)
        waiting.clear()
