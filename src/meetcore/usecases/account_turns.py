"""Spending of one account, in turns: what waits for it in this process is written in one transaction.

Each reservation and each settlement of an account needs its row, one after another. While nobody else here is
at it, one statement does, on the account as it was read. What comes meanwhile waits, and is then written
together: one lock, one reading, a statement for each, one commit. Between processes, the account's lock
decides as before. `turns` says what bounds the waiting.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from datetime import date
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from attrs import define, field, frozen

from meetcore.domain.errors import DomainError
from meetcore.ports.account_state import AccountState
from meetcore.ports.store import ConnectionLost, Store, StoreUnavailable, Transaction
from meetcore.usecases.turns import FailedBatch, Turns, no_report

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
class _Spending:
    """An attempt, the state that its caller has read, and the context of its request."""

    state: AccountState
    attempt: Attempt[Any]
    context: Context = field(factory=copy_context)


@define
class AccountTurns:
    """Run attempts on an account one after another, those that wait for each other in one transaction."""

    store: Store
    report: Callable[[FailedBatch], object] = no_report
    _turns: Turns[Spender, _Spending, Any] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._turns = Turns(self._write_together, MOST_AT_ONCE, self._write_first)

    async def run(self, spender: Spender, state: AccountState, attempt: Attempt[T]) -> T | None:
        """Run an attempt, on the state if nobody else here is at this account, else on what they left.

        Returns:
            Its result; None where nothing was written, and the decision is to be made alone.

        Raises:
            OutcomeUnknown: whether it was kept is not known. With `CommitLost`, another connection can tell.
            StoreUnavailable: of `at_once`, or of a transaction with others.
        """
        found: T | None = await self._turns.run(spender, _Spending(state, attempt))
        return found

    async def _write_first(self, _: Spender, spending: _Spending) -> Any:
        async with self.store.at_once() as tx:
            done = await spending.attempt(tx, spending.state)
        return None if done is None else done[0]

    async def _write_together(self, spender: Spender, batch: Sequence[_Spending]) -> Sequence[Any]:
        try:
            return await self._commit_together(spender, batch)
        except ConnectionLost:
            pass
        except StoreUnavailable:
            raise
        except Exception as fault:  # noqa: BLE001  # it is raised where each is decided alone
            if not isinstance(fault, DomainError):  # such as an account that was erased
                self.report(FailedBatch("meetings", len(batch), fault))
        return [None] * len(batch)  # nothing was kept: each is decided alone, and fails alone

    async def _commit_together(self, spender: Spender, batch: Sequence[_Spending]) -> list[Any]:
        results = []
        async with self.store.begin() as tx:
            state = await tx.meetings.load_state(spender.account_id, spender.api_key_id, spender.cap_day)
            for each in batch:
                done = await asyncio.create_task(each.attempt(tx, state), context=each.context)
                if done is not None:
                    state = done[1]
                results.append(None if done is None else done[0])
        return results
