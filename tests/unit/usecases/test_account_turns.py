"""What waits for one account is written in one transaction; what fails there is decided alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import date
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds
from meetcore.ports.account_state import AccountState
from meetcore.ports.store import (
    CommitLost,
    ConnectionLost,
    OutcomeUnknown,
    Store,
    StoreUnavailable,
    Transaction,
)
from meetcore.usecases.account_turns import MOST_AT_ONCE, AccountTurns, Spender
from meetcore.usecases.turns import FailedBatch, no_report

ID = UUID(int=1)
SPENDER = Spender(ID, ID, date(2026, 12, 1))
READ = AccountState(7, Funds(ID, balance=100), CapUsage(ID, SPENDER.cap_day), None)


@define
class _Store:
    """Counts transactions; those at once wait until they are let go.

    `fault` ends those of `begin`, `fault_alone` the others.
    """

    go: asyncio.Event = field(factory=asyncio.Event)
    opened: list[str] = field(factory=list)
    fault: Exception | None = None
    fault_alone: Exception | None = None
    seen: Callable[[], object] = lambda: None
    begun_in: list[object] = field(factory=list)

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[Any]:
        self.opened.append("at once")
        await self.go.wait()
        if self.fault_alone is not None:
            raise self.fault_alone
        yield self

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        self.opened.append("begin")
        self.begun_in.append(self.seen())
        yield self
        if self.fault is not None:
            raise self.fault

    @property
    def meetings(self) -> "_Store":
        return self

    async def load_state(self, *_: object) -> AccountState:
        return evolve(READ, version=None)


async def _spend_one(_: Transaction, state: AccountState) -> tuple[AccountState, AccountState]:
    left = evolve(state, funds=evolve(state.funds, balance=state.funds.balance - 1))
    return state, left


async def _started(
    store: _Store, count: int, report: Callable[[FailedBatch], object] = no_report
) -> list[asyncio.Task[Any]]:
    turns = AccountTurns(cast("Store", store), report)
    tasks = [asyncio.create_task(turns.run(SPENDER, READ, _spend_one)) for _ in range(count)]
    await asyncio.sleep(0)
    store.go.set()
    return tasks


async def test_who_is_alone_decides_on_what_was_read() -> None:
    store = _Store()
    assert await asyncio.gather(*await _started(store, 1)) == [READ]
    assert store.opened == ["at once"]


async def test_those_that_wait_share_a_transaction_and_follow_each_other() -> None:
    store = _Store()
    first, *others = await asyncio.gather(*await _started(store, 4))
    assert store.opened == ["at once", "begin"]
    assert first == READ
    assert [(state.version, state.funds.balance) for state in others] == [(None, 100), (None, 99), (None, 98)]


async def test_no_transaction_is_longer_than_some() -> None:
    store = _Store()
    await asyncio.gather(*await _started(store, 2 + 2 * MOST_AT_ONCE))
    assert store.opened == ["at once", "begin", "begin", "begin"]


async def test_those_whose_connection_was_lost_before_the_commit_decide_alone() -> None:
    store = _Store(fault=ConnectionLost("gone"))
    assert await asyncio.gather(*await _started(store, 3)) == [READ, None, None]


@pytest.mark.parametrize("fault", [CommitLost, OutcomeUnknown])
async def test_each_of_a_commit_without_an_answer_learns_that_its_outcome_is_unknown(
    fault: type[OutcomeUnknown],
) -> None:
    store = _Store(fault=fault("cut"))
    first, *others = await asyncio.gather(*await _started(store, 3), return_exceptions=True)
    assert first == READ
    assert [type(error) for error in others] == [fault, fault]
    assert len({id(error) for error in others}) == 2


@pytest.mark.parametrize("fault", [StoreUnavailable, OutcomeUnknown])
@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_store_that_does_not_answer_is_waited_for_once(
    is_alone: bool, fault: type[StoreUnavailable]
) -> None:
    frozen = fault("frozen")
    store = _Store(fault_alone=frozen) if is_alone else _Store(fault=frozen)
    found = await asyncio.gather(*await _started(store, 2 + 2 * MOST_AT_ONCE), return_exceptions=True)
    assert store.opened == (["at once"] if is_alone else ["at once", "begin"])
    begun = 1 if is_alone else 1 + MOST_AT_ONCE
    assert {type(each) for each in found[begun:]} == {StoreUnavailable}, "nothing of them was begun"
    assert {type(each) for each in found[:begun]} == ({fault} if is_alone else {fault, AccountState})


@pytest.mark.parametrize(
    ("is_alone", "lost"),
    [(True, CommitLost("gone")), (False, CommitLost("gone")), (False, ConnectionLost("gone"))],
)
async def test_a_connection_that_was_lost_says_nothing_of_the_next(
    is_alone: bool, lost: StoreUnavailable
) -> None:
    store = _Store(fault_alone=lost) if is_alone else _Store(fault=lost)
    await asyncio.gather(*await _started(store, 2 + 2 * MOST_AT_ONCE), return_exceptions=True)
    assert store.opened == ["at once", "begin", "begin", "begin"]


async def test_a_fault_of_one_is_reported_once_and_has_each_decide_alone() -> None:
    store, reported = _Store(fault=RuntimeError("a constraint")), list[FailedBatch]()
    tasks = await _started(store, 3, reported.append)
    assert await asyncio.gather(*tasks) == [READ, None, None]
    assert reported == [FailedBatch("meetings", 2, cast("Exception", store.fault))]


async def test_each_writes_in_the_context_of_its_own_request() -> None:
    request: ContextVar[int | None] = ContextVar("request", default=None)
    store = _Store(seen=request.get)
    turns = AccountTurns(cast("Store", store))

    async def spend(_: Transaction, state: AccountState) -> tuple[int | None, AccountState]:
        return request.get(), state

    async def ask(number: int) -> int | None:
        request.set(number)
        return await turns.run(SPENDER, READ, spend)

    tasks = [asyncio.create_task(ask(number)) for number in range(4)]
    await asyncio.sleep(0)
    store.go.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3]
    assert store.begun_in == [None], "what is common is of no request"


async def test_who_gives_up_waiting_is_left_out() -> None:
    store = _Store()
    tasks = await _started(store, 3)
    tasks[1].cancel()
    first, given_up, last = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(given_up, asyncio.CancelledError)
    assert (first, cast("AccountState", last).funds.balance) == (READ, 100)
