"""Repeated requests and transactions: one outcome for each key, one turn at a time."""

from __future__ import annotations

import asyncio
import json

import pytest
from attrs import define, evolve, field

from meetcore.domain.errors import HostUnresolved, NotFound, ServiceUnavailable
from meetcore.ports.store import ConnectionLost, StoreUnavailable, Transaction
from meetcore.usecases import runtime as repeat
from meetcore.usecases.requests.idempotency import (
    DuplicateLimit,
    Outcome,
    Refusal,
    decode_outcome,
    encode_outcome,
    run_once,
    wait_while_in_progress,
)
from meetcore.usecases.runtime import REPEATS, repeated_when_lost
from tests.unit.usecases.application import (
    ApplicationHarness,
    CrashPoint,
    DyingStore,
    SimulatedCrash,
    request,
)

RECORD = {
    "id": "018f",
    "title": "Rapat “pagi” ✓",
    "credits": 10,
    "is": [True, None, {"at": 1}],
    "b": 1,
    "a": 2,
}
REFUSAL = Refusal("conflict", "There is one.", {"id": "018f", "aa": 1}, "request-1")


@pytest.mark.parametrize("outcome", [Outcome(), Outcome(RECORD), Outcome(refusal=REFUSAL)])
def test_a_stored_outcome_is_read_back_in_its_order(outcome: Outcome) -> None:
    read = decode_outcome(encode_outcome(outcome))
    assert read == outcome
    assert json.dumps([read.record, read.refusal and read.refusal.details]) == json.dumps(
        [outcome.record, outcome.refusal and outcome.refusal.details]
    )


def test_the_deliveries_of_the_first_request_are_not_due_again() -> None:
    assert decode_outcome(encode_outcome(Outcome(RECORD, due=2))) == Outcome(RECORD)


async def work(_: Transaction) -> Outcome:
    return Outcome(RECORD)


async def test_work_without_preparation_needs_one_transaction() -> None:
    harness, crash_point = await ApplicationHarness().start(), CrashPoint()
    store = DyingStore(harness.store, crash_point)
    await run_once(store, harness.caller.account.id, harness.request_key("k"), work)
    assert crash_point.burnt == 3, "before, at the end of and after one transaction"


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_refusal_of_the_preparation_is_the_outcome_if_it_is_final(key: str | None) -> None:
    harness = await ApplicationHarness().start()

    async def refuse() -> None:
        raise NotFound("No such thing.")

    async def refuse_for_now() -> None:
        raise HostUnresolved("Not now.")

    async def prepare() -> None:
        raise AssertionError("a replay prepares nothing")

    account_id, request = harness.caller.account.id, harness.request_key(key)
    with pytest.raises(HostUnresolved):
        await run_once(harness.store, account_id, request, work, refuse_for_now)
    first = await run_once(harness.store, account_id, request, work, refuse)
    assert first.refusal == Refusal("not_found", "No such thing.", {}, request.request_id)
    if key is not None:
        again = await run_once(harness.store, account_id, request, work, prepare)
        assert (again.refusal, again.is_replay) == (first.refusal, True)


async def test_work_whose_first_request_is_unfinished_is_not_repeated(harness: ApplicationHarness) -> None:
    key = harness.request_key("k")
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(4))(harness.caller, request(), key, harness.now())
    with pytest.raises(ServiceUnavailable):
        await run_once(harness.store, harness.caller.account.id, key, work)


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


async def test_a_meeting_without_an_active_worker_is_not_waited_for(harness: ApplicationHarness) -> None:
    await harness.make()
    (meeting,) = harness.meetings()
    deadline = asyncio.get_running_loop().time() + 10
    assert await wait_while_in_progress(harness.queries, meeting.account_id, meeting.id, deadline, 0.001)
    assert not await wait_while_in_progress(harness.queries, meeting.account_id, meeting.id, 0, 0.001)


class Cut:
    """A transaction that fails so many times, each time after so many seconds."""

    def __init__(self, times: int, error: type[Exception] = ConnectionLost, seconds: float = 0.0) -> None:
        self.times, self.error, self.seconds, self.calls = times, error, seconds, 0

    async def __call__(self, number: int) -> int:
        self.calls += 1
        if self.calls <= self.times:
            await asyncio.sleep(self.seconds)
            raise self.error("cut")
        return number


@pytest.mark.parametrize("times", range(REPEATS + 1))
async def test_a_lost_transaction_is_repeated(times: int) -> None:
    cut = Cut(times)
    assert await repeated_when_lost(cut.__call__)(7) == 7
    assert cut.calls == times + 1


@pytest.mark.parametrize(("cut", "within_s", "calls"), [
    (Cut(REPEATS + 1), 3.0, REPEATS + 1),
    (Cut(1, StoreUnavailable), 3.0, 1),  # its commit may have arrived
    (Cut(REPEATS, seconds=0.01), 0.0, 2),
], ids=["too often", "not lost", "too long"])  # fmt: skip
async def test_the_repeats_end(
    cut: Cut, within_s: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeat, "_REPEATED_FOR_S", within_s)
    with pytest.raises(cut.error):
        await repeated_when_lost(cut.__call__)(7)
    assert cut.calls == calls
