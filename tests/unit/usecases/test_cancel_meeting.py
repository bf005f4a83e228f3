"""Cancelling: one refund however many ask, wherever the process died."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import Conflict, NotFound, ServiceUnavailable, UpstreamError
from meetcore.domain.field_info import as_json
from meetcore.domain.meetings.meetings import HOST_KEY_SHOWN_BEFORE, MeetingStatus, shown_host_key
from meetcore.domain.records.meetings import cancellation_record
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.lease import Lease
from meetcore.usecases.cancellation import Cancellation
from meetcore.usecases.idempotency import Outcome
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, request

CRASH_POINTS = 8
UNKNOWN = (SandboxFault.DROP, SandboxFault.LATE, SandboxFault.LOST, SandboxFault.HANG)


async def application_with_meeting(**settings):
    harness = await ApplicationHarness(**settings).start()
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    (meeting,) = harness.meetings()
    return harness, meeting


def code_of(outcome: Outcome) -> str:
    assert outcome.refusal is not None
    return outcome.refusal.code


@pytest.mark.spec("3/cancel-before")
async def test_cancelling_before_the_start_returns_the_credits_and_frees_the_host():
    harness, meeting = await application_with_meeting()
    await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.CANCELLED
    assert after.credits_refunded == 10
    assert harness.funds().balance == 100
    assert [usage.spent for usage in harness.usage()] == [0], "the day's cap gets it back"
    assert not harness.state.committed.reservations
    harness.prove()


@pytest.mark.parametrize("point", range(1, CRASH_POINTS + 1))
async def test_after_a_crash_at_any_point_a_retry_refunds_exactly_once(point: int):
    harness, meeting = await application_with_meeting()
    with pytest.raises(SimulatedCrash):
        await harness.cancel(CrashPoint(point))(
            harness.caller, meeting.id, harness.request_key("c"), harness.now()
        )
    harness.expire_leases()
    await harness.reconcile().sweep()
    harness.prove()
    assert harness.funds().balance in (90, 100)
    for key in ("c", "c", None):
        await harness.cancel()(harness.caller, meeting.id, harness.request_key(key), harness.now())
    assert harness.funds().balance == 100
    assert [entry.amount for entry in harness.entries()] == [100, -10, 10]
    assert not harness.state.committed.reservations
    harness.prove()


async def test_the_list_of_crash_points_is_complete():
    harness, meeting = await application_with_meeting()
    crash_point = CrashPoint()
    await harness.cancel(crash_point)(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    assert crash_point.burnt == CRASH_POINTS


@pytest.mark.spec("3/cancel-before")
@pytest.mark.parametrize("with_key", [True, False])
async def test_many_at_once_get_one_refund_and_the_same_answer(with_key: bool):
    harness, meeting = await application_with_meeting()
    use_case = harness.cancel(wait_s=5)
    answers = await asyncio.gather(
        *(
            use_case(
                harness.caller, meeting.id, harness.request_key(f"c{n}" if with_key else None), harness.now()
            )
            for n in range(20)
        )
    )
    assert all(answer.record == answers[0].record for answer in answers)
    assert harness.funds().balance == 100
    harness.prove()


@pytest.mark.spec("3/cancel-running")
async def test_ending_a_meeting_that_runs_returns_nothing():
    harness, meeting = await application_with_meeting()
    harness.clock.set(meeting.start_at + timedelta(minutes=1))
    answer = await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    again = await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    (after,) = harness.meetings()
    assert (again.record, again.is_replay) == (answer.record, True)
    assert after.status is MeetingStatus.ENDED
    assert harness.funds().balance == 90
    kinds = [event.kind for event in harness.state.committed.events.values()]
    assert kinds.count(EventKind.MEETING_ENDED) == 1


async def test_a_meeting_that_started_early_at_the_provider_is_ended_there_without_a_refund():
    harness, meeting = await application_with_meeting()
    from meetcore.adapters.sandbox import SandboxMeetingState

    await harness.sandbox.state.put(meeting.provider_meeting_id, SandboxMeetingState.STARTED)
    await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.ENDED
    assert harness.funds().balance == 90


@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize("is_retried", [True, False])
async def test_a_meeting_that_may_be_removed_at_the_provider_is_not_restored(
    fault: SandboxFault, is_retried: bool
):
    harness, meeting = await application_with_meeting()
    harness.faults.plan(SandboxCall.REMOVE, fault)
    with pytest.raises(UpstreamError):
        await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    assert harness.funds().balance == 90
    if is_retried:
        await harness.cancel(wait_s=5)(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    else:
        assert await harness.reconcile().sweep() == 1, "nobody has to wait for a lease"
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.CANCELLED
    assert harness.funds().balance == 100
    harness.prove()


@pytest.mark.parametrize("fault", [SandboxFault.REFUSE, SandboxFault.LOST])
async def test_a_meeting_a_crashed_process_may_have_removed_waits_for_an_answer(fault: SandboxFault):
    harness, meeting = await application_with_meeting()
    with pytest.raises(SimulatedCrash):
        await harness.cancel(CrashPoint(5))(
            harness.caller, meeting.id, harness.request_key("c"), harness.now()
        )
    for _ in range(2):
        harness.expire_leases()
        harness.faults.plan(SandboxCall.REMOVE, fault)
        assert await harness.reconcile().sweep() == 0
        (after,) = harness.meetings()
        assert after.status is MeetingStatus.CANCELLING, "removed already, so it is not scheduled again"
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    assert harness.funds().balance == 100
    harness.prove()


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_slow_cancellation_returns_the_outcome_of_its_new_owner(is_over: bool):
    harness, meeting = await application_with_meeting()

    class Slow(SandboxProvider):
        """The sandbox on a day when its answer comes after the lease."""

        async def remove(self, provider_meeting_id):
            harness.expire_leases()
            if not is_over:
                harness.faults.plan(SandboxCall.REMOVE, SandboxFault.LOST)
            await harness.reconcile().sweep()
            return await harness.provider.remove(provider_meeting_id)

    slow = Slow("http://sandbox", harness.sandbox.state, bytes(32))
    use_case = evolve(harness.cancel(), cancellation=Cancellation(harness.store, slow, harness.runtime))
    if is_over:
        answer = await use_case(harness.caller, meeting.id, harness.request_key("c"), harness.now())
        assert answer.record == as_json(cancellation_record(harness.meetings()[0], harness.now()))
    else:
        with pytest.raises(ServiceUnavailable):
            await use_case(harness.caller, meeting.id, harness.request_key("c"), harness.now())
        harness.expire_leases()
        await harness.reconcile().sweep()
    assert harness.meetings()[0].status is MeetingStatus.CANCELLED
    assert harness.funds().balance == 100
    harness.prove()


async def test_a_provider_that_refuses_refunds_nothing_and_the_meeting_stays():
    harness, meeting = await application_with_meeting()
    harness.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE)
    with pytest.raises(UpstreamError):
        await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.SCHEDULED
    assert harness.funds().balance == 90
    assert len(harness.state.committed.reservations) == 1
    await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    assert harness.funds().balance == 100
    harness.prove()


async def test_an_ended_meeting_cannot_be_cancelled_and_an_unknown_one_is_not_found():
    harness, meeting = await application_with_meeting()
    unknown = harness.runtime.new_id(harness.now())
    answer = await harness.cancel()(harness.caller, unknown, harness.request_key(None), harness.now())
    assert code_of(answer) == NotFound.code
    harness.clock.set(meeting.end_at)
    answer = await harness.cancel()(harness.caller, meeting.id, harness.request_key(None), harness.now())
    assert code_of(answer) == Conflict.code
    assert answer.refusal is not None
    assert answer.refusal.details == {"id": str(meeting.id)}


async def test_a_meeting_in_the_making_cannot_be_cancelled():
    harness = await ApplicationHarness().start()
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(4))(
            harness.caller, request(), harness.request_key("k"), harness.now()
        )
    (meeting,) = harness.meetings()
    answer = await harness.cancel()(harness.caller, meeting.id, harness.request_key(None), harness.now())
    assert code_of(answer) == NotFound.code


async def test_a_replay_without_a_stored_outcome_shows_what_became_of_the_meeting():
    harness, meeting = await application_with_meeting()
    first = await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    name = meeting.account_id, "c"
    async with harness.state.change() as tables:  # as an earlier release's reconciler left it
        tables.idempotency[name] = evolve(tables.idempotency[name], encoded_outcome=None)
    again = await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    assert (again.record, again.is_replay) == (first.record, True)


@pytest.mark.parametrize("starts_early", [False, True])
async def test_a_key_that_was_shown_during_the_provider_call_is_replaced(starts_early: bool):
    harness, meeting = await application_with_meeting()
    async with harness.store.begin() as tx:
        (due,) = await tx.host_keys.claim_due(1, Lease(harness.runtime.new_id(harness.now()), 20))
        assert await tx.host_keys.save(due.host_id, due.token, "012345")
        if starts_early:
            begun = evolve(meeting, status=MeetingStatus.STARTED)
            await tx.meetings.save_lifecycle(begun, [], invalidates_host_key=False)
    near = meeting.start_at - HOST_KEY_SHOWN_BEFORE
    shown_keys = []

    class Slow(SandboxProvider):
        """The sandbox, which takes its time; meanwhile the customer looks."""

        async def remove(self, provider_meeting_id):
            harness.clock.set(near)
            found = await harness.queries.find_meeting(meeting.account_id, meeting.id)
            shown_keys.append(shown_host_key(found, harness.now()))
            return await super().remove(provider_meeting_id)

    harness.provider = Slow("http://sandbox", harness.sandbox.state, bytes(32))
    harness.clock.set(near - timedelta(minutes=2))
    await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), harness.now())
    assert shown_keys == ["012345"]
    async with harness.store.begin() as tx:
        assert len(await tx.host_keys.claim_due(1, Lease(harness.runtime.new_id(harness.now()), 20))) == 1
