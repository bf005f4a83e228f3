"""What waits for a key is carried out together; what fails there fails alone or together."""

import asyncio
from collections.abc import Sequence

import pytest
from attrs import define, field

from meetcore.ports.store import CommitLost, ConnectionLost, StoreUnavailable
from meetcore.usecases.turns import Turns


@define
class _Work:
    """Doubles numbers; waits until it is let go; `fault` ends the turns that have it among their items."""

    go: asyncio.Event = field(factory=asyncio.Event)
    turns: list[tuple[str, list[int]]] = field(factory=list)
    faults: dict[int, Exception] = field(factory=dict)

    async def carry_out(self, key: str, items: Sequence[int]) -> Sequence[int]:
        self.turns.append((key, list(items)))
        await self.go.wait()
        await asyncio.sleep(0)
        for each in items:
            if each in self.faults:
                raise self.faults[each]
        return [2 * each for each in items]


async def _run(work: _Work, count: int, most: int = 64, key: str = "a") -> list[int | BaseException]:
    turns = Turns(work.carry_out, most)
    tasks = [asyncio.create_task(turns.run(key, number)) for number in range(count)]
    await asyncio.sleep(0)
    work.go.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


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
    turns = Turns(work.carry_out)
    tasks = [asyncio.create_task(turns.run(key, 1)) for key in "ab"]
    await asyncio.sleep(0)
    assert work.turns == [("a", [1]), ("b", [1])]
    work.go.set()
    assert await asyncio.gather(*tasks) == [2, 2]


async def test_who_comes_again_is_of_the_next_turn() -> None:
    work = _Work()
    turns = Turns(work.carry_out)

    async def client(number: int) -> None:
        for _ in range(3):
            await turns.run("a", number)

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
    assert await _run(work, 5, most=2) == [0, fault, fault, 6, 8]


@pytest.mark.parametrize("first", [0, 1])
async def test_a_store_that_does_not_answer_is_waited_for_once(first: int) -> None:
    frozen = StoreUnavailable("frozen")
    work = _Work(faults={first: frozen})
    assert await _run(work, 6, most=2) == ([frozen] * 6 if first == 0 else [0] + [frozen] * 5)
    assert len(work.turns) == 1 + first


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("fault", [ConnectionLost, CommitLost])
async def test_a_connection_that_was_lost_says_nothing_of_the_next(
    first: int, fault: type[StoreUnavailable]
) -> None:
    lost = fault("cut")
    work = _Work(faults={first: lost})
    found = await _run(work, 5, most=2)
    assert found == ([lost, 2, 4, 6, 8] if first == 0 else [0, lost, lost, 6, 8])


async def test_one_that_was_cancelled_is_not_carried_out_and_others_are() -> None:
    work = _Work()
    turns = Turns(work.carry_out)
    tasks = [asyncio.create_task(turns.run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    work.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [found[0], type(found[1]), found[2]] == [0, asyncio.CancelledError, 4]
    assert [items for _, items in work.turns] == [[0], [2]]


async def test_one_that_is_cancelled_in_its_turn_leaves_the_others_theirs() -> None:
    work = _Work()
    turns = Turns(work.carry_out)
    tasks = [asyncio.create_task(turns.run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    work.go.set()
    assert await asyncio.gather(*tasks[1:]) == [2, 4]
    assert tasks[0].cancelled()


async def test_nobody_waits_for_a_process_that_ends() -> None:
    work = _Work()
    turns = Turns(work.carry_out, 1)
    tasks = [asyncio.create_task(turns.run("a", number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [items for _, items in work.turns] == [[0], [1]]
    [running] = turns._tasks
    running.cancel()
    found = await asyncio.gather(*tasks[1:], return_exceptions=True)
    assert [type(each) for each in found] == [ConnectionLost, StoreUnavailable]  # under way, and not begun
    work.go.set()
    assert await turns.run("a", 4) == 8
