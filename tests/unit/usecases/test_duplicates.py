"""Duplicates of a running request: one runs, a few wait their turn, the others are refused at once."""

import asyncio

import pytest
from attrs import define, evolve, field

from meetcore.domain.errors import ServiceUnavailable
from meetcore.usecases.duplicates import DuplicateLimit, wait_while_in_progress
from tests.unit.usecases.application import ApplicationHarness, request


@define
class Running:
    """Requests that hold their turn until they are released."""

    limit: DuplicateLimit
    release: asyncio.Event = field(factory=asyncio.Event)
    at_once: int = 0
    most_at_once: int = 0

    async def one(self, identity: str = "same") -> str:
        async with self.limit.turn(identity):
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                await self.release.wait()
            finally:
                self.at_once -= 1
            return "done"


async def settled(*tasks: asyncio.Task[str]) -> None:
    """Let every task run until it waits."""
    for _ in range(5 + len(tasks)):
        await asyncio.sleep(0)


async def started(running: Running, count: int, identity: str = "same") -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(running.one(identity)) for _ in range(count)]
    await settled(*tasks)
    return tasks


async def test_one_runs_four_wait_and_the_others_are_refused_at_once() -> None:
    running = Running(DuplicateLimit())
    tasks = await started(running, 80)
    refused = [task for task in tasks if task.done()]
    assert len(refused) == 75
    for task in refused:
        error = task.exception()
        assert isinstance(error, ServiceUnavailable)
        assert error.retry_after_s == 1
    running.release.set()
    assert await asyncio.gather(*(task for task in tasks if task not in refused)) == ["done"] * 5
    assert running.most_at_once == 1


async def test_other_identities_do_not_wait() -> None:
    running = Running(DuplicateLimit())
    tasks = [task for name in "abcdef" for task in await started(running, 1, name)]
    assert running.at_once == 6
    running.release.set()
    assert await asyncio.gather(*tasks) == ["done"] * 6


async def test_a_place_that_was_given_up_is_free_again() -> None:
    running = Running(DuplicateLimit(max_waiting=1))
    first, waiting = await started(running, 2)
    waiting.cancel()
    await settled(waiting)
    assert waiting.cancelled()
    (another,) = await started(running, 1)
    assert not another.done()
    running.release.set()
    assert set(await asyncio.gather(first, another)) == {"done"}


async def test_a_failed_request_passes_its_turn_on() -> None:
    limit = DuplicateLimit()
    with pytest.raises(ZeroDivisionError):
        async with limit.turn("same"):
            raise ZeroDivisionError
    async with limit.turn("same"):
        pass


async def test_a_duplicate_waits_no_longer_than_it_may() -> None:
    running = Running(DuplicateLimit(wait_s=0.01))
    first, waiting = await started(running, 2)
    with pytest.raises(ServiceUnavailable) as refused:
        await waiting
    assert refused.value.retry_after_s == 1
    assert not first.done()
    running.release.set()
    assert await first == "done"


async def test_nothing_is_kept_of_requests_that_are_over() -> None:
    running = Running(DuplicateLimit(wait_s=0.01))
    first, late = await started(running, 2)
    with pytest.raises(ServiceUnavailable):
        await late
    running.limit.wait_s = 10
    others = await started(running, 2)
    running.release.set()
    await asyncio.gather(first, *others)
    assert not running.limit._turns


async def test_the_waits_in_one_process_and_for_another_share_a_deadline() -> None:
    now = asyncio.get_running_loop().time
    harness = await ApplicationHarness().start()
    async with DuplicateLimit(wait_s=10).turn("same") as wait_until:
        assert now() + 9 < wait_until <= now() + 10
        waited = evolve(harness.request_key("k"), wait_until=wait_until)
        assert waited.deadline(60) == wait_until
        assert waited.deadline(5) == pytest.approx(now() + 5, abs=1)
        assert harness.request_key("k").deadline(60) == pytest.approx(now() + 60, abs=1)


async def test_a_meeting_without_an_active_worker_is_not_waited_for() -> None:
    harness = await ApplicationHarness().start()
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    (meeting,) = harness.meetings()
    deadline = asyncio.get_running_loop().time() + 10
    assert await wait_while_in_progress(harness.queries, meeting.account_id, meeting.id, deadline, 0.001)
    assert not await wait_while_in_progress(harness.queries, meeting.account_id, meeting.id, 0, 0.001)
