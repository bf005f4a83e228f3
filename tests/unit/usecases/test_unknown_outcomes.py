"""A creation whose outcome nobody knows: finished where a key can deliver it, undone where there is none."""

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, ProviderAbilities
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, request

MADE = [SandboxFault.LATE, SandboxFault.DROP]
UNMADE = [SandboxFault.HANG, SandboxFault.LOST]


async def state_of(harness: ApplicationHarness, meeting: Meeting) -> SandboxMeetingState | None:
    return await harness.sandbox.state.get(f"sandbox-{meeting.id}")


async def left_unknown(
    harness: ApplicationHarness, key: str | None, fault: SandboxFault = SandboxFault.DROP
) -> str:
    """Ask for a meeting of which no answer comes; the words of the refusal."""
    harness.faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(UpstreamError) as refused:
        await harness.create()(harness.caller, request(), harness.request_key(key), harness.now())
    assert harness.funds().held == 10
    return refused.value.message


@pytest.mark.spec("7/502")
@pytest.mark.parametrize("fault", [*MADE, *UNMADE])
async def test_without_a_key_it_is_undone_whether_it_was_made_or_not(fault: SandboxFault):
    harness = await ApplicationHarness().start()
    message = await left_unknown(harness, None, fault)
    assert "undone, and nothing is charged" in message
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    (meeting,) = harness.meetings()
    assert meeting.status is MeetingStatus.ABANDONED
    assert (harness.funds().balance, harness.funds().held) == (100, 0)
    assert not harness.state.committed.reservations
    harness.clock.advance(60)
    await harness.remove_orphans().sweep()
    assert (await state_of(harness, meeting) is SandboxMeetingState.REMOVED) == (fault in MADE)
    harness.prove()


async def test_an_undone_creation_counts_for_the_hosts_day_only_if_it_was_made():
    harness = await ApplicationHarness().start()
    for fault in (SandboxFault.DROP, SandboxFault.LOST):
        await left_unknown(harness, None, fault)
        harness.expire_leases()
        await harness.reconcile().sweep()
        (host,) = harness.state.committed.hosts.values()
        assert (host.creations, fault) == (1, fault)


@pytest.mark.spec("4/idem-replay", "7/502")
async def test_with_a_key_it_is_finished_and_a_retry_gets_the_result():
    harness = await ApplicationHarness().start()
    message = await left_unknown(harness, "k")
    assert "a retry with the same Idempotency-Key gets its result" in message
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    (meeting,) = harness.meetings()
    assert meeting.status is MeetingStatus.SCHEDULED
    answer = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert answer.is_replay
    assert harness.funds().balance == 90
    await harness.remove_orphans().sweep()
    assert await state_of(harness, meeting) is None


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_crash_at_any_line_leaves_a_paid_meeting_only_where_a_key_can_deliver_it(key: str | None):
    point, is_alive = 0, False
    while not is_alive:
        point += 1
        harness = await ApplicationHarness().start()
        try:
            await harness.create(CrashPoint(point))(
                harness.caller, request(), harness.request_key(key), harness.now()
            )
            is_alive = True
        except SimulatedCrash:
            pass
        before = [meeting.status for meeting in harness.meetings()]
        harness.expire_leases()
        await harness.reconcile().sweep()
        harness.clock.advance(60)
        await harness.remove_orphans().sweep()
        harness.prove()
        # What was finished before the death stays: its answer may have been on its way.
        is_kept = bool(before) and (key is not None or before == [MeetingStatus.SCHEDULED])
        assert harness.funds().balance == (90 if is_kept else 100)
        assert (harness.funds().held, len(harness.state.committed.reservations)) == (0, is_kept)
        for meeting in harness.meetings():
            is_there = await state_of(harness, meeting) is not SandboxMeetingState.REMOVED
            assert is_there == (meeting.status is MeetingStatus.SCHEDULED) == is_kept
    assert point > 6


async def test_a_provider_that_refuses_to_remove_keeps_no_credits():
    harness = await ApplicationHarness().start()
    await left_unknown(harness, None)
    harness.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE, SandboxFault.LOST)
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    (meeting,) = harness.meetings()
    assert (harness.funds().balance, harness.funds().held) == (100, 0)
    for wait_s in (0, 30, 60):
        harness.clock.advance(wait_s)
        assert await state_of(harness, meeting) is None
        assert await harness.remove_orphans().sweep() == 1
    assert await state_of(harness, meeting) is SandboxMeetingState.REMOVED


class Forgetful(SandboxProvider):
    """The sandbox, as if it kept nothing."""

    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, remembers_meetings=False)


async def test_a_provider_without_meeting_lookup_is_not_checked():
    harness = await ApplicationHarness().start()
    harness.provider = Forgetful(
        "http://sandbox", harness.sandbox.state, bytes(32), faults=harness.faults, timeout_s=0
    )
    await left_unknown(harness, None)
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    assert harness.funds().held == 0
    harness.clock.advance(3600)
    assert await harness.remove_orphans().sweep() == 0
