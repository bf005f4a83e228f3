"""Creations without a lock: whole or not at all, wherever the connection is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import pytest
from attrs import define, evolve

from meetcore.domain.errors import ServiceUnavailable
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.observability import CREDITS, NO_METRICS, Metric, Metrics, NoMetrics
from meetcore.ports.queries import Caller, CallerIncludes
from meetcore.ports.store import CommitLost, OutcomeUnknown, Store
from meetcore.usecases.meetings.create_meeting import CreateMeeting
from meetcore.usecases.meetings.creation import Provisioner
from meetcore.usecases.money.turns import AccountTurns
from meetcore.usecases.webhooks.endpoints import Registration
from tests.unit.usecases.application import (
    ApplicationHarness,
    CrashPoint,
    SimulatedCrash,
    crash_points,
    request,
)
from tests.unit.usecases.fakes import losing

OTHERS = 3


async def caller_of(harness: ApplicationHarness) -> Caller:
    """The caller with the account's state, as the API reads it."""
    found = await harness.queries.find_caller(harness.digest, CallerIncludes(state_on=cap_day(harness.now())))
    assert found is not None
    return found


@define
class _Failing:
    """A store that raises an error at one of its statements outside a transaction, kept or not."""

    store: Store
    is_kept: bool
    number: int = 1
    error: type[Exception] = CommitLost
    calls: int = 0

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[Any]:
        self.calls += 1
        fails = self.calls == self.number
        if fails and not self.is_kept:
            raise self.error("no answer")
        async with self.store.at_once() as tx:
            yield tx
        if fails:
            raise self.error("no answer")

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        async with self.store.begin() as tx:
            yield tx


@define
class _LosingCommit:
    """A store whose account changes before its second call at once, and which loses the commit after that."""

    store: Store
    is_kept: bool
    change: Callable[[], Awaitable[object]]
    calls: int = 0
    begun: int = 0

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[Any]:
        self.calls += 1
        if self.calls == 2:
            await self.change()
        async with self.store.at_once() as tx:
            yield tx

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        self.begun += 1
        async with losing(self.store.begin(), self.is_kept if self.begun == 1 else None) as tx:
            yield tx


class _CreditsMoved(NoMetrics):
    """Keeps which credits were moved."""

    def __init__(self) -> None:
        self.moved: list[tuple[str | int, float]] = []

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None:
        if metric is CREDITS:
            self.moved.append((labels[0], by))


@define
class _Cut:
    """A store of turns: the first waits for others, whose transactions are cut at their end, kept or not."""

    store: Store
    is_kept: bool
    turns: AccountTurns | None = None
    cut: int = 0

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[Any]:
        assert self.turns is not None
        while not self.cut and sum(map(len, self.turns._turns._waiting.values())) < OTHERS:  # noqa: ASYNC110
            await asyncio.sleep(0)
        async with self.store.at_once() as tx:
            yield tx

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        try:
            async with losing(self.store.begin(), self.is_kept) as tx:
                yield tx
        finally:
            self.cut += 1


async def register_webhook(harness: ApplicationHarness) -> None:
    """Have something due with each meeting that is made."""
    wanted = Registration(parse_webhook_url("https://93.184.216.34/"), (EventKind.MEETING_CREATED,))
    register = harness.process().api.webhooks.register
    await register(harness.caller, wanted, harness.request_key(None), harness.now())


def with_store(create: CreateMeeting, store: Store, metrics: Metrics = NO_METRICS) -> CreateMeeting:
    runtime = evolve(create.runtime, metrics=metrics)
    return evolve(create, store=store, provisioner=Provisioner(store, runtime, AccountTurns(store)))


def failing(
    harness: ApplicationHarness, is_kept: bool, number: int = 1, error: type[Exception] = CommitLost,
    metrics: Metrics = NO_METRICS,
) -> CreateMeeting:  # fmt: skip
    """The use case on a store that fails."""
    create = harness.create()
    return with_store(create, cast("Store", _Failing(create.store, is_kept, number, error)), metrics)


async def test_after_a_crash_at_any_point_the_customer_has_the_meeting_and_paid_once_or_neither() -> None:
    for point in crash_points():
        harness = await ApplicationHarness().start()
        with suppress(SimulatedCrash):
            await harness.make("k", point, by=await caller_of(harness))
        await harness.recover()
        harness.prove()
        made = [each for each in harness.meetings() if each.status is MeetingStatus.SCHEDULED]
        assert harness.money() == (100 - 10 * len(made), 0)
        assert harness.count("host_reservations") == len(made)


async def test_it_is_two_transactions_and_replays() -> None:
    harness, crash_point = await ApplicationHarness().start(), CrashPoint()
    create = harness.create(crash_point)
    first = await harness.make("k", by=await caller_of(harness), use=create)
    assert crash_point.burnt == 8, "three points each, and two of the provider's call"
    again = await harness.make("k", by=await caller_of(harness), use=create)
    assert again == evolve(first, is_replay=True, due=again.due)
    assert harness.funds().balance == 90


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_reservation_whose_answer_was_lost_is_found_or_made(is_kept: bool):
    harness = await ApplicationHarness().start()
    await harness.make("k", by=await caller_of(harness), use=failing(harness, is_kept))
    assert [each.status for each in harness.meetings()] == [MeetingStatus.SCHEDULED]
    assert harness.money() == (90, 0)
    harness.prove()


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("key", [None, "k"])
async def test_a_settlement_whose_answer_was_lost_is_counted_and_workers_are_notified_once(
    is_kept: bool, key: str | None, harness: ApplicationHarness
):
    metrics = _CreditsMoved()
    create = failing(harness, is_kept, 2, metrics=metrics)
    await register_webhook(harness)
    made = await harness.make(key, by=await caller_of(harness), use=create)
    (meeting,) = harness.meetings()
    assert made.record is not None
    assert (made.record["id"], made.is_replay) == (str(meeting.id), False)
    assert harness.notifier.notifications == 1
    assert metrics.moved == [(TransferKind.MEETING_CHARGE, 10)]
    assert harness.money() == (90, 0)
    harness.prove()


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_settlement_whose_commit_was_lost_is_found_or_made(is_kept: bool):
    harness = await ApplicationHarness().start()
    create, account_id = harness.create(), harness.caller.account.id
    change = partial(harness.administration.top_up, account_id, 10, "r")
    store, metrics = cast("Store", _LosingCommit(create.store, is_kept, change)), _CreditsMoved()
    create = with_store(create, store, metrics)
    await harness.make(by=await caller_of(harness), use=create)
    assert [each.status for each in harness.meetings()] == [MeetingStatus.SCHEDULED]
    assert metrics.moved == [(TransferKind.MEETING_CHARGE, 10)]
    assert harness.money() == (100, 0)
    harness.prove()


@pytest.mark.parametrize("is_kept", [False, True])
async def test_those_who_wrote_together_and_do_not_know_whether_it_was_kept_pay_once_each(is_kept: bool):
    harness = await ApplicationHarness(hosts=1 + OTHERS).start()
    create = harness.create()
    cut = _Cut(create.store, is_kept)
    cut.turns = AccountTurns(cast("Store", cut))
    create = evolve(create, provisioner=evolve(create.provisioner, turns=cut.turns))
    caller, now = await caller_of(harness), harness.now()
    keys = [harness.request_key(f"k{number}") for number in range(1 + OTHERS)]
    made = await asyncio.gather(*(create(caller, request(), key, now) for key in keys))
    assert cut.cut
    assert [each.status for each in harness.meetings()] == [MeetingStatus.SCHEDULED] * len(keys)
    ids = {str(each.id) for each in harness.meetings()}
    assert {each.record["id"] for each in made if each.record} == ids
    assert harness.money() == (100 - 10 * len(keys), 0)
    harness.prove()


@pytest.mark.parametrize("number", [1, 2], ids=["reservation", "settlement"])
@pytest.mark.parametrize("is_kept", [False, True])
async def test_after_a_statement_that_was_not_answered_in_time_a_retry_gets_the_meeting_and_pays_once(
    number: int, is_kept: bool, harness: ApplicationHarness
):
    """Nothing is looked up meanwhile: another connection would wait as long."""
    create = failing(harness, is_kept, number, OutcomeUnknown)
    with pytest.raises(OutcomeUnknown):
        await harness.make("k", by=await caller_of(harness), use=create)
    await harness.recover()
    await harness.make("k", by=await caller_of(harness), use=create)
    made = [each for each in harness.meetings() if each.status is MeetingStatus.SCHEDULED]
    assert len(made) == 1
    assert harness.money() == (90, 0)
    harness.prove()


@pytest.mark.parametrize("is_kept", [False, True])
async def test_without_a_key_a_settlement_that_was_not_answered_in_time_is_refused_as_in_doubt(is_kept: bool):
    """It cannot be undone where it was kept: the meeting is in the list, and its event is sent."""
    harness = await ApplicationHarness().start()
    create = failing(harness, is_kept, 2, OutcomeUnknown)
    with pytest.raises(ServiceUnavailable, match="GET /meetings") as refused:
        await harness.make(by=await caller_of(harness), use=create)
    harness.clock.advance(refused.value.retry_after_s)
    await harness.reconcile().sweep()
    status = MeetingStatus.SCHEDULED if is_kept else MeetingStatus.ABANDONED
    assert [each.status for each in harness.meetings()] == [status]
    assert harness.money() == (90 if is_kept else 100, 0)
    harness.prove()


async def test_without_a_key_nothing_is_in_doubt_where_the_reservation_was_not_answered_in_time():
    harness = await ApplicationHarness().start()
    create = failing(harness, True, 1, OutcomeUnknown)
    with pytest.raises(OutcomeUnknown):
        await harness.make(by=await caller_of(harness), use=create)
    await harness.recover()
    assert [each.status for each in harness.meetings()] == [MeetingStatus.ABANDONED]
    assert harness.money() == (100, 0)
