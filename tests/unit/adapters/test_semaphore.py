"""Permits are bounded, given in the order of asking, and none is lost to a wait that ends."""

import asyncio

import pytest

from meetcore.adapters.webhook_sender.semaphore import Semaphore


async def test_a_permit_that_is_released_goes_to_the_task_that_has_waited_longest():
    semaphore, order = Semaphore(1), []

    async def wait(name: str) -> None:
        await semaphore.acquire(10)
        order.append(name)

    await semaphore.acquire(10)
    waiting = [asyncio.create_task(wait(name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    semaphore.release()
    await waiting[0]
    assert order == ["first"]
    semaphore.release()
    await waiting[1]
    assert order == ["first", "second"]


async def test_a_wait_ends_in_time_and_takes_nothing():
    semaphore = Semaphore(1)
    await semaphore.acquire(10)
    with pytest.raises(TimeoutError):
        await semaphore.acquire(0)
    semaphore.release()
    await semaphore.acquire(0)


async def test_a_permit_that_is_passed_on_while_its_wait_is_cancelled_goes_to_the_next():
    semaphore = Semaphore(1)
    await semaphore.acquire(10)
    cancelled, next_one = (asyncio.create_task(semaphore.acquire(10)) for _ in range(2))
    await asyncio.sleep(0)
    semaphore.release()
    cancelled.cancel()
    await asyncio.wait([cancelled, next_one])
    assert cancelled.cancelled()
    assert next_one.exception() is None
