"""The event loop of the simulation, its faults, and how a failing run is shrunk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.simulation.faults import Fault, Faults, shrink
from tests.simulation.loop import Idle, Process, SimulatedLoop


@contextmanager
def simulated_loop(seed: int) -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(seed)
    try:
        yield loop
    finally:
        loop.close()


def order_of_tasks(seed: int) -> list[int]:
    order: list[int] = []

    async def work(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(number)

    async def work_together() -> None:
        await asyncio.gather(*map(work, range(5)))

    with simulated_loop(seed) as loop:
        loop.run_until_complete(work_together())
    return order


def test_a_seed_decides_the_order_of_callbacks() -> None:
    assert order_of_tasks(1) == order_of_tasks(1)
    assert len({tuple(order_of_tasks(seed)) for seed in range(10)}) > 5


def test_time_passes_when_nothing_is_ready() -> None:
    with simulated_loop(1) as loop:
        loop.run_until_complete(asyncio.sleep(86_400.0))
        assert loop.time() == 86_400.0


def test_a_wait_for_nothing_ends_the_run() -> None:
    with simulated_loop(1) as loop, pytest.raises(Idle):
        loop.run_until_complete(asyncio.Event().wait())


def test_nothing_of_a_dead_process_runs() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1.0)
            done.append("worked")
        finally:
            done.append("cleaned up")

    with simulated_loop(1) as loop:
        process = Process("worker", loop)
        process.start(work())
        loop.call_outside(0.5, process.kill)
        loop.run_until_complete(asyncio.sleep(10.0))
    assert done == []


def test_a_sleeping_process_goes_on_when_it_wakes() -> None:
    done: list[float] = []

    with simulated_loop(1) as loop:
        process = Process("worker", loop)

        async def work() -> None:
            await asyncio.sleep(1.0)
            done.append(loop.time())

        process.start(work())
        loop.call_outside(0.5, lambda: process.sleep(4.0))
        loop.run_until_complete(asyncio.sleep(10.0))
    assert done == [4.5]


def struck(only: frozenset[tuple[str, int]] | None = None) -> list[Fault]:
    faults = Faults(7, only, is_active=True)
    for number in range(300):
        faults.strikes("cut", 0.1)
        if number % 3 == 0:
            faults.strikes("death", 0.1)
    return faults.struck


def test_a_part_of_the_faults_of_a_seed_can_be_had_alone() -> None:
    every = struck()
    part = every[1::2]
    assert len(part) > 10
    assert {each.kind for each in part} == {"cut", "death"}
    assert struck(frozenset((each.kind, each.number) for each in part)) == part


def test_no_fault_happens_before_and_after_their_time() -> None:
    faults = Faults(7)
    assert not any(faults.strikes("cut", 1.0) for _ in range(10))


@pytest.mark.parametrize("needed", [{3}, {3, 17}, {0, 20, 39}, set(range(10, 16)), set()])
def test_a_failure_is_shrunk_to_the_faults_that_it_needs(needed: set[int]) -> None:
    assert set(shrink(range(40), needed.issubset)) == needed


def test_no_fault_of_a_shrunk_failure_can_be_left_out() -> None:
    def fails(items: Sequence[int]) -> bool:
        return sum(items) >= 50 and len(items) % 2 == 1

    left = shrink(range(21), fails)
    assert fails(left)
    assert not any(fails([each for each in left if each != one]) for one in left)


def test_shrinking_ends_after_so_many_tries() -> None:
    tries: list[int] = []

    def fails(items: Sequence[int]) -> bool:
        tries.append(len(items))
        return {1, 38}.issubset(items)

    left = shrink(range(40), fails, tries=5)
    assert len(tries) == 5
    assert {1, 38}.issubset(left)
    assert len(left) < 40
