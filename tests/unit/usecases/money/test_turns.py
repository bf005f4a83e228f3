"""Requests that wait for one account: shared transactions, and the outcome of each when one fails."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import date
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds
from meetcore.domain.money.views import AccountState
from meetcore.ports.store import (
    CommitLost,
    ConnectionLost,
    OutcomeUnknown,
    Store,
    StoreUnavailable,
    Transaction,
)
from meetcore.usecases.money.turns import AccountTurns, FailedBatch, Spender, Turns
from meetcore.usecases.runtime import ignore

ID = UUID(int=1)


@define
class _Work:
    """Doubles numbers; waits until it is let go; `fault` ends the turns that have it among their items."""

    go: asyncio.Event = field(factory=asyncio.Event)
    turns: list[tuple[str, list[int]]] = field(factory=list)
    faults: dict[int, Exception] = field(factory=dict)

    async def do(self, key: str, items: Sequence[int]) -> Sequence[int]:
        self.turns.append((key, list(items)))
        await self.go.wait()
        await asyncio.sleep(0)
        for each in items:
            if each in self.faults:
                raise self.faults[each]
        return [2 * each for each in items]


async def _run(work: _Work, count: int, most: int = 64) -> list[int | BaseException]:
    run = Turns(work.do, most).run
    tasks = [asyncio.ensure_future(run("a", number)) for number in range(count)]
    await asyncio.sleep(0)
    work.go.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (the turns have no event for it)
            await asyncio.sleep(0)


def _types(found: Sequence[object]) -> list[type]:
    return [type(each) for each in found]


async def test_what_waits_is_one_turn_and_each_has_its_own_result() -> None:
    work = _Work()
    assert await _run(work, 4) == [0, 2, 4, 6]
    assert work.turns == [("a", [0]), ("a", [1, 2, 3])]


async def test_a_turn_has_so_many_items_at_most() -> None:
    work = _Work()
    assert await _run(work, 6, most=2) == [0, 2, 4, 6, 8, 10]
    assert [items for _, items in work.turns] == [[0], [1, 2], [3, 4], [5]]


async def test_keys_do_not_wait_for_each_other() -> None:
    work = _Work()
    run = Turns(work.do).run
    tasks = [asyncio.ensure_future(run(key, 1)) for key in "ab"]
    await asyncio.sleep(0)
    assert work.turns == [("a", [1]), ("b", [1])]
    work.go.set()
    assert await asyncio.gather(*tasks) == [2, 2]


async def test_who_comes_again_is_of_the_next_turn() -> None:
    work = _Work()
    run = Turns(work.do).run

    async def client(number: int) -> None:
        for _ in range(3):
            await run("a", number)

    clients = [asyncio.create_task(client(number)) for number in range(4)]
    await asyncio.sleep(0)
    work.go.set()
    await asyncio.gather(*clients)
    sizes = [len(items) for _, items in work.turns]
    assert sum(sizes) == 12
    assert max(sizes) == 4  # the first one, too, which began alone


async def test_a_fault_is_of_its_turn_only() -> None:
    fault = ZeroDivisionError("one")
    work = _Work(faults={1: fault})
    found = await _run(work, 5, most=2)
    assert [found[0], *found[3:]] == [0, 6, 8]
    assert _types(found[1:3]) == [ZeroDivisionError] * 2


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("fault", [StoreUnavailable, OutcomeUnknown])
async def test_a_store_that_does_not_answer_is_waited_for_once(
    first: int, fault: type[StoreUnavailable]
) -> None:
    """Of what waits nothing was begun: that is known, whatever became of the turn under way."""
    work = _Work(faults={first: fault("frozen")})
    found = await _run(work, 6, most=2)
    if first == 0:
        assert _types(found) == [fault] + [StoreUnavailable] * 5
    else:
        assert _types(found) == [int, fault, fault] + [StoreUnavailable] * 3
    assert len(work.turns) == 1 + first
    errors = [each for each in found if isinstance(each, Exception)]
    assert len({id(each) for each in errors}) == len(errors), "each has an error of its own"
    assert all(each.__cause__ is not None for each in errors[1:])


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("fault", [ConnectionLost, CommitLost])
async def test_a_connection_that_was_lost_says_nothing_of_the_next(
    first: int, fault: type[StoreUnavailable]
) -> None:
    work = _Work(faults={first: fault("cut")})
    found = await _run(work, 5, most=2)
    if first == 0:
        assert [type(found[0]), *found[1:]] == [fault, 2, 4, 6, 8]
        return
    assert [found[0], *found[3:]] == [0, 6, 8]
    assert _types(found[1:3]) == [fault] * 2


async def test_one_that_was_cancelled_is_left_out_and_others_are_not() -> None:
    work = _Work()
    run = Turns(work.do).run
    tasks = [asyncio.ensure_future(run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    work.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [found[0], type(found[1]), found[2]] == [0, asyncio.CancelledError, 4]
    assert [items for _, items in work.turns] == [[0], [2]]


async def test_one_that_is_cancelled_in_its_turn_leaves_the_others_theirs() -> None:
    work = _Work()
    run = Turns(work.do).run
    tasks = [asyncio.ensure_future(run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    work.go.set()
    assert await asyncio.gather(*tasks[1:]) == [2, 4]
    assert tasks[0].cancelled()


async def test_nobody_waits_for_a_process_that_ends() -> None:
    work = _Work()
    turns = Turns(work.do, 1)
    run = turns.run
    tasks = [asyncio.ensure_future(run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await _until(lambda: len(work.turns) == 2)
    assert [items for _, items in work.turns] == [[0], [1]]
    [running] = turns._tasks
    running.cancel()
    found = await asyncio.gather(*tasks[1:], return_exceptions=True)
    assert _types(found) == [CommitLost, StoreUnavailable]  # it may be kept, and not begun
    work.go.set()
    assert await run("a", 4) == 8


async def test_nobody_waits_for_a_turn_that_is_cancelled_before_it_begins() -> None:
    work = _Work()
    turns = Turns(work.do)
    run = turns.run
    tasks = [asyncio.ensure_future(run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    work.go.set()
    await _until(lambda: bool(turns._tasks))
    [next_turn] = turns._tasks
    next_turn.cancel()  # it was made by the step before, and has not run
    async with asyncio.timeout(5):
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [found[0], *_types(found[1:])] == [0, StoreUnavailable, StoreUnavailable]
    assert [items for _, items in work.turns] == [[0]]
    assert await run("a", 4) == 8


SPENDER = Spender(ID, ID, date(2026, 12, 1))
READ = AccountState(7, Funds(ID, balance=100), CapUsage(ID, SPENDER.cap_day), None)


@define
class _CountingStore:
    """Counts transactions; those at once wait until they are let go. `fault` ends those of `begin`."""

    go: asyncio.Event = field(factory=asyncio.Event)
    opened: list[str] = field(factory=list)
    fault: Exception | None = None
    seen: Callable[[], object] = lambda: None
    begun_in: list[object] = field(factory=list)

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[Any]:
        self.opened.append("at once")
        await self.go.wait()
        yield self

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        self.opened.append("begin")
        self.begun_in.append(self.seen())
        yield self
        if self.fault is not None:
            raise self.fault

    @property
    def meetings(self) -> "_CountingStore":
        return self

    async def load_state(self, *_: object) -> AccountState:
        return evolve(READ, version=None)


async def _spend_one(_: Transaction, state: AccountState) -> tuple[AccountState, AccountState]:
    left = evolve(state, funds=evolve(state.funds, balance=state.funds.balance - 1))
    return state, left


async def _started(
    store: _CountingStore, count: int, report: Callable[[FailedBatch], object] = ignore
) -> list[asyncio.Task[Any]]:
    turns = AccountTurns(cast("Store", store), report)
    tasks = [asyncio.create_task(turns.run(SPENDER, READ, _spend_one)) for _ in range(count)]
    await asyncio.sleep(0)
    store.go.set()
    return tasks


async def test_those_that_wait_share_a_transaction_and_follow_each_other() -> None:
    store = _CountingStore()
    first, *others = await asyncio.gather(*await _started(store, 4))
    assert store.opened == ["at once", "begin"]
    assert first == READ
    assert [(state.version, state.funds.balance) for state in others] == [(None, 100), (None, 99), (None, 98)]


async def test_a_fault_of_one_is_reported_once_and_has_each_decide_alone() -> None:
    store, reported = _CountingStore(fault=RuntimeError("a constraint")), list[FailedBatch]()
    tasks = await _started(store, 3, reported.append)
    assert await asyncio.gather(*tasks) == [READ, None, None]
    assert reported == [FailedBatch("meetings", 2, cast("Exception", store.fault))]


@pytest.mark.parametrize("fault", [ConnectionLost, CommitLost, OutcomeUnknown])
async def test_those_of_a_transaction_that_was_lost_are_decided_alone_if_nothing_of_it_was_kept(
    fault: type[StoreUnavailable],
) -> None:
    store = _CountingStore(fault=fault("cut"))
    _, *others = await asyncio.gather(*await _started(store, 3), return_exceptions=True)
    assert _types(others) == [type(None) if fault is ConnectionLost else fault] * 2


async def test_each_writes_in_the_context_of_its_own_request() -> None:
    request: ContextVar[int | None] = ContextVar("request", default=None)
    store = _CountingStore(seen=request.get)
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
