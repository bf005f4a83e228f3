"""Cancellations: one refund, however many ask and wherever the process dies."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import ServiceUnavailable, UpstreamError
from meetcore.domain.fields import as_json
from meetcore.domain.meetings.meetings import HOST_KEY_SHOWN_BEFORE, MeetingStatus, shown_host_key
from meetcore.domain.records.meetings import cancellation_record
from meetcore.ports.runtime import Lease
from meetcore.usecases.requests.idempotency import DuplicateLimit, Outcome
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, crash_points

UNKNOWN = (SandboxFault.DROP, SandboxFault.LOST)


def code_of(outcome: Outcome) -> str:
    assert outcome.refusal is not None
    return outcome.refusal.code


async def test_after_a_crash_at_any_point_a_retry_refunds_exactly_once() -> None:
    for point in crash_points():
        meeting = await (harness := ApplicationHarness()).with_meeting()
        with suppress(SimulatedCrash):
            await harness.call_off(meeting.id, "c", point)
        await harness.recover()
        harness.prove()
        assert harness.funds().balance in (90, 100)
        for key in ("c", "c", None):
            await harness.call_off(meeting.id, key)
        assert [entry.amount for entry in harness.entries()] == [100, -10, 10]
        assert harness.count("host_reservations") == 0
        harness.prove()


@pytest.mark.spec("3/cancel-before")
@pytest.mark.parametrize("with_key", [True, False])
async def test_many_at_once_get_one_refund_and_the_same_answer(with_key: bool):
    meeting = await (harness := ApplicationHarness()).with_meeting()
    use_case = evolve(harness.cancel(wait_s=60), limit=DuplicateLimit(20))  # as from several processes
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


@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize("is_retried", [True, False])
async def test_a_meeting_that_may_be_removed_at_the_provider_is_not_restored(
    fault: SandboxFault, is_retried: bool
):
    meeting = await (harness := ApplicationHarness()).with_meeting()
    harness.faults.plan(SandboxCall.REMOVE, fault)
    with pytest.raises(UpstreamError):
        await harness.call_off(meeting.id, "c")
    assert harness.funds().balance == 90
    if is_retried:
        await harness.call_off(meeting.id, "c", use=harness.cancel(wait_s=60))
    else:
        assert await harness.reconcile().sweep() == 1, "nobody has to wait for a lease"
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.CANCELLED
    assert harness.funds().balance == 100
    harness.prove()


@pytest.mark.parametrize("fault", [SandboxFault.REFUSE, SandboxFault.LOST])
async def test_a_meeting_a_crashed_process_may_have_removed_waits_for_an_answer(fault: SandboxFault):
    meeting = await (harness := ApplicationHarness()).with_meeting()
    with pytest.raises(SimulatedCrash):
        await harness.call_off(meeting.id, "c", CrashPoint(5))
    for _ in range(2):
        harness.expire_leases()
        harness.faults.plan(SandboxCall.REMOVE, fault)
        assert await harness.reconcile().sweep() == 0
        (after,) = harness.meetings()
        assert after.status is MeetingStatus.CANCELLING, "removed already, so it is not scheduled again"
    assert await harness.recover() == 1
    assert harness.funds().balance == 100
    harness.prove()


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_slow_cancellation_returns_the_outcome_of_its_new_owner(is_over: bool):
    meeting = await (harness := ApplicationHarness()).with_meeting()

    class Slow(SandboxProvider):
        """The sandbox on a day when its answer comes after the lease."""

        async def remove(self, provider_meeting_id):
            harness.expire_leases()
            if not is_over:
                harness.faults.plan(SandboxCall.REMOVE, SandboxFault.LOST)
            await harness.reconcile().sweep()
            return await harness.provider.remove(provider_meeting_id)

    slow = Slow("http://sandbox", harness.sandbox.state, bytes(32))
    use_case = harness.cancel()
    use_case = evolve(use_case, cancellation=evolve(use_case.cancellation, provider=slow))
    if is_over:
        answer = await use_case(harness.caller, meeting.id, harness.request_key("c"), harness.now())
        assert answer.record == as_json(cancellation_record(harness.meetings()[0], harness.now()))
    else:
        with pytest.raises(ServiceUnavailable):
            await use_case(harness.caller, meeting.id, harness.request_key("c"), harness.now())
        await harness.recover()
    assert harness.meetings()[0].status is MeetingStatus.CANCELLED
    assert harness.funds().balance == 100
    harness.prove()


@pytest.mark.parametrize("starts_early", [False, True])
async def test_a_key_that_was_shown_during_the_provider_call_is_replaced(starts_early: bool):
    meeting = await (harness := ApplicationHarness()).with_meeting()
    async with harness.store.begin() as tx:
        (due,) = await tx.host_keys.claim_due(1, Lease(harness.runtime.new_id(harness.now()), 20))
        assert await tx.host_keys.save(due.host_id, due.token, "012345")
        if starts_early:
            begun = evolve(meeting, status=MeetingStatus.STARTED)
            await tx.meetings.save_progress(begun, begun.end_at)
    near = meeting.start_at - HOST_KEY_SHOWN_BEFORE
    shown_keys = []

    class Slow(SandboxProvider):
        """The sandbox, which takes its time; meanwhile the customer looks."""

        async def remove(self, provider_meeting_id):
            harness.clock.set(near)
            found = await harness.queries.find_meeting(meeting.account_id, meeting.id)
            assert found is not None
            shown_keys.append(shown_host_key(found, harness.now()))
            return await super().remove(provider_meeting_id)

    harness.provider = Slow("http://sandbox", harness.sandbox.state, bytes(32))
    harness.clock.set(near - timedelta(minutes=2))
    await harness.call_off(meeting.id, "c")
    assert shown_keys == ["012345"]
    async with harness.store.begin() as tx:
        assert len(await tx.host_keys.claim_due(1, Lease(harness.runtime.new_id(harness.now()), 20))) == 1
