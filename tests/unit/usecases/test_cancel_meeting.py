"""Cancelling: one refund however many ask, wherever the process died."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import Conflict, NotFound, ServiceUnavailable, UpstreamError
from meetcore.domain.events import EventKind
from meetcore.domain.meetings import HOST_KEY_SHOWN_BEFORE, MeetingStatus, shown_host_key
from meetcore.ports.lease import Lease
from meetcore.usecases.cancellation import Cancellation
from tests.unit.usecases.town import Died, Fuse, Town, request, told

CRASH_POINTS = 8
UNKNOWN = (SandboxFault.DROP, SandboxFault.LATE, SandboxFault.LOST, SandboxFault.HANG)


async def town_with_meeting(**settings):
    town = await Town(**settings).settle_in()
    await town.create()(town.caller, request(), town.intent(None), town.now())
    (meeting,) = town.meetings()
    return town, meeting


@pytest.mark.spec("3/cancel-before")
async def test_cancelling_before_the_start_returns_the_credits_and_frees_the_host():
    town, meeting = await town_with_meeting()
    await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    (after,) = town.meetings()
    assert after.status is MeetingStatus.CANCELLED
    assert after.credits_refunded == 10
    assert town.funds().balance == 100
    assert [usage.spent for usage in town.usage()] == [0], "the day's cap gets it back"
    assert not town.state.committed.reservations
    town.prove()


@pytest.mark.parametrize("point", range(1, CRASH_POINTS + 1))
async def test_wherever_it_dies_a_retry_refunds_exactly_once(point: int):
    town, meeting = await town_with_meeting()
    with pytest.raises(Died):
        await town.cancel(Fuse(point))(town.caller, meeting.id, town.intent("c"), town.now())
    town.lapse()
    await town.reconcile().sweep()
    town.prove()
    assert town.funds().balance in (90, 100)
    for key in ("c", "c", None):
        await town.cancel()(town.caller, meeting.id, town.intent(key), town.now())
    assert town.funds().balance == 100
    assert [entry.amount for entry in town.entries()] == [100, -10, 10]
    assert not town.state.committed.reservations
    town.prove()


async def test_the_crash_points_are_all_there_are():
    town, meeting = await town_with_meeting()
    fuse = Fuse()
    await town.cancel(fuse)(town.caller, meeting.id, town.intent("c"), town.now())
    assert fuse.burnt == CRASH_POINTS


@pytest.mark.spec("3/cancel-before")
@pytest.mark.parametrize("with_key", [True, False])
async def test_many_at_once_get_one_refund_and_the_same_answer(with_key: bool):
    town, meeting = await town_with_meeting()
    use_case = town.cancel(wait_s=5)
    answers = await asyncio.gather(
        *(
            use_case(town.caller, meeting.id, town.intent(f"c{n}" if with_key else None), town.now())
            for n in range(20)
        )
    )
    assert len({answer.payload for answer in answers}) == 1
    assert town.funds().balance == 100
    town.prove()


@pytest.mark.spec("3/cancel-running")
async def test_ending_a_meeting_that_runs_returns_nothing():
    town, meeting = await town_with_meeting()
    town.clock.set(meeting.start_at + timedelta(minutes=1))
    answer = await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    again = await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    (after,) = town.meetings()
    assert again.payload == answer.payload
    assert after.status is MeetingStatus.ENDED
    assert town.funds().balance == 90
    kinds = [event.kind for event in town.state.committed.events.values()]
    assert kinds.count(EventKind.MEETING_ENDED) == 1


async def test_a_meeting_that_started_early_at_the_provider_is_ended_there_without_a_refund():
    town, meeting = await town_with_meeting()
    from meetcore.adapters.sandbox import SandboxMeetingState

    await town.sandbox.state.put(meeting.provider_meeting_id, SandboxMeetingState.STARTED)
    await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    (after,) = town.meetings()
    assert after.status is MeetingStatus.ENDED
    assert town.funds().balance == 90


@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize("is_retried", [True, False])
async def test_what_may_be_gone_at_the_provider_is_not_put_back(fault: SandboxFault, is_retried: bool):
    town, meeting = await town_with_meeting()
    town.faults.plan(SandboxCall.REMOVE, fault)
    with pytest.raises(UpstreamError):
        await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    assert town.funds().balance == 90
    if is_retried:
        await town.cancel(wait_s=5)(town.caller, meeting.id, town.intent("c"), town.now())
    else:
        assert await town.reconcile().sweep() == 1, "nobody has to wait for a lease"
    (after,) = town.meetings()
    assert after.status is MeetingStatus.CANCELLED
    assert town.funds().balance == 100
    town.prove()


@pytest.mark.parametrize("fault", [SandboxFault.REFUSE, SandboxFault.LOST])
async def test_what_a_dead_process_may_have_removed_waits_for_an_answer(fault: SandboxFault):
    town, meeting = await town_with_meeting()
    with pytest.raises(Died):
        await town.cancel(Fuse(5))(town.caller, meeting.id, town.intent("c"), town.now())
    for _ in range(2):
        town.lapse()
        town.faults.plan(SandboxCall.REMOVE, fault)
        assert await town.reconcile().sweep() == 0
        (after,) = town.meetings()
        assert after.status is MeetingStatus.CANCELLING, "removed already, so it is not scheduled again"
    town.lapse()
    assert await town.reconcile().sweep() == 1
    assert town.funds().balance == 100
    town.prove()


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_slow_cancellation_tells_what_its_new_owner_made_of_it(is_over: bool):
    town, meeting = await town_with_meeting()

    class Slow(SandboxProvider):
        """The sandbox on a day when its answer comes after the lease."""

        async def remove(self, provider_meeting_id):
            town.lapse()
            if not is_over:
                town.faults.plan(SandboxCall.REMOVE, SandboxFault.LOST)
            await town.reconcile().sweep()
            return await town.provider.remove(provider_meeting_id)

    slow = Slow("http://sandbox", town.sandbox.state, bytes(32))
    use_case = evolve(town.cancel(), cancellation=Cancellation(town.store, slow, town.world))
    if is_over:
        answer = await use_case(town.caller, meeting.id, town.intent("c"), town.now())
        assert answer.payload == told(town.meetings()[0])
    else:
        with pytest.raises(ServiceUnavailable):
            await use_case(town.caller, meeting.id, town.intent("c"), town.now())
        town.lapse()
        await town.reconcile().sweep()
    assert town.meetings()[0].status is MeetingStatus.CANCELLED
    assert town.funds().balance == 100
    town.prove()


async def test_a_provider_that_refuses_refunds_nothing_and_the_meeting_stays():
    town, meeting = await town_with_meeting()
    town.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE)
    with pytest.raises(UpstreamError):
        await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    (after,) = town.meetings()
    assert after.status is MeetingStatus.SCHEDULED
    assert town.funds().balance == 90
    assert len(town.state.committed.reservations) == 1
    await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    assert town.funds().balance == 100
    town.prove()


async def test_what_ended_cannot_be_cancelled_and_what_is_unknown_is_not_found():
    town, meeting = await town_with_meeting()
    with pytest.raises(NotFound):
        await town.cancel()(town.caller, town.world.new_id(town.now()), town.intent(None), town.now())
    town.clock.set(meeting.end_at)
    with pytest.raises(Conflict) as refused:
        await town.cancel()(town.caller, meeting.id, town.intent(None), town.now())
    assert refused.value.details == {"id": str(meeting.id)}


async def test_a_meeting_in_the_making_cannot_be_cancelled():
    town = await Town().settle_in()
    with pytest.raises(Died):
        await town.create(Fuse(4))(town.caller, request(), town.intent("k"), town.now())
    (meeting,) = town.meetings()
    with pytest.raises(NotFound):
        await town.cancel()(town.caller, meeting.id, town.intent(None), town.now())


@pytest.mark.parametrize("starts_early", [False, True])
async def test_a_key_that_was_shown_while_the_provider_was_asked_is_replaced(starts_early: bool):
    town, meeting = await town_with_meeting()
    async with town.store.begin() as tx:
        (due,) = await tx.host_keys.claim_due(1, Lease(town.world.new_id(town.now()), 20))
        assert await tx.host_keys.save(due.host_id, due.token, "012345")
        if starts_early:
            begun = evolve(meeting, status=MeetingStatus.STARTED)
            await tx.meetings.save_lifecycle(begun, [], spoils_host_key=False)
    near = meeting.start_at - HOST_KEY_SHOWN_BEFORE
    seen = []

    class Slow(SandboxProvider):
        """The sandbox, which takes its time; meanwhile the customer looks."""

        async def remove(self, provider_meeting_id):
            town.clock.set(near)
            found = await town.queries.find_meeting(meeting.account_id, meeting.id)
            seen.append(shown_host_key(found, town.now()))
            return await super().remove(provider_meeting_id)

    town.provider = Slow("http://sandbox", town.sandbox.state, bytes(32))
    town.clock.set(near - timedelta(minutes=2))
    await town.cancel()(town.caller, meeting.id, town.intent("c"), town.now())
    assert seen == ["012345"]
    async with town.store.begin() as tx:
        assert len(await tx.host_keys.claim_due(1, Lease(town.world.new_id(town.now()), 20))) == 1
