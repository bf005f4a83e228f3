"""Places for posts: bounded, in the order of asking, and none is lost to a wait that ends."""

import asyncio

import pytest

from meetcore.adapters.webhook_sender.places import Places


async def test_a_place_that_comes_free_goes_to_who_has_waited_longest():
    places, order = Places(1), []

    async def wait(name: str) -> None:
        await places.take(10)
        order.append(name)

    await places.take(10)
    waiting = [asyncio.create_task(wait(name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    places.give_back()
    await waiting[0]
    assert order == ["first"]
    places.give_back()
    await waiting[1]
    assert order == ["first", "second"]


async def test_a_wait_ends_in_time_and_takes_nothing():
    places = Places(1)
    await places.take(10)
    with pytest.raises(TimeoutError):
        await places.take(0)
    places.give_back()
    await places.take(0)


async def test_a_place_that_is_given_while_its_wait_is_cancelled_goes_to_the_next():
    places = Places(1)
    await places.take(10)
    cancelled, next_one = (asyncio.create_task(places.take(10)) for _ in range(2))
    await asyncio.sleep(0)
    places.give_back()
    cancelled.cancel()
    await asyncio.wait([cancelled, next_one])
    assert cancelled.cancelled()
    assert next_one.exception() is None
