"""A creation whose outcome nobody knows: finished where a key can deliver it, undone where there is none."""

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import UpstreamError
from meetcore.domain.meetings import Meeting, MeetingStatus, ProviderAbilities
from tests.unit.usecases.town import Died, Fuse, Town, request

MADE = [SandboxFault.LATE, SandboxFault.DROP]
UNMADE = [SandboxFault.HANG, SandboxFault.LOST]


async def state_of(town: Town, meeting: Meeting) -> SandboxMeetingState | None:
    return await town.sandbox.state.get(f"sandbox-{meeting.id}")


async def left_unknown(town: Town, key: str | None, fault: SandboxFault = SandboxFault.DROP) -> str:
    """Ask for a meeting of which no answer comes; the words of the refusal."""
    town.faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(UpstreamError) as refused:
        await town.create()(town.caller, request(), town.intent(key), town.now())
    assert town.funds().held == 10
    return refused.value.message


@pytest.mark.spec("7/502")
@pytest.mark.parametrize("fault", [*MADE, *UNMADE])
async def test_without_a_key_it_is_undone_whether_it_was_made_or_not(fault: SandboxFault):
    town = await Town().settle_in()
    message = await left_unknown(town, None, fault)
    assert "undone, and nothing is charged" in message
    town.lapse()
    assert await town.reconcile().sweep() == 1
    (meeting,) = town.meetings()
    assert meeting.status is MeetingStatus.ABANDONED
    assert (town.funds().balance, town.funds().held) == (100, 0)
    assert not town.state.committed.reservations
    town.clock.advance(60)
    await town.remove_orphans().sweep()
    assert (await state_of(town, meeting) is SandboxMeetingState.REMOVED) == (fault in MADE)
    town.prove()


async def test_what_was_made_and_undone_counts_for_the_hosts_day_and_what_was_not_does_not():
    town = await Town().settle_in()
    for fault in (SandboxFault.DROP, SandboxFault.LOST):
        await left_unknown(town, None, fault)
        town.lapse()
        await town.reconcile().sweep()
        (host,) = town.state.committed.hosts.values()
        assert (host.creations, fault) == (1, fault)


@pytest.mark.spec("4/idem-replay", "7/502")
async def test_with_a_key_it_is_finished_and_a_retry_gets_the_result():
    town = await Town().settle_in()
    message = await left_unknown(town, "k")
    assert "a retry with the same Idempotency-Key gets its result" in message
    town.lapse()
    assert await town.reconcile().sweep() == 1
    (meeting,) = town.meetings()
    assert meeting.status is MeetingStatus.SCHEDULED
    answer = await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert answer.is_replay
    assert town.funds().balance == 90
    await town.remove_orphans().sweep()
    assert await state_of(town, meeting) is None


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_death_at_any_line_leaves_a_paid_meeting_only_where_a_key_can_deliver_it(key: str | None):
    point, is_alive = 0, False
    while not is_alive:
        point += 1
        town = await Town().settle_in()
        try:
            await town.create(Fuse(point))(town.caller, request(), town.intent(key), town.now())
            is_alive = True
        except Died:
            pass
        before = [meeting.status for meeting in town.meetings()]
        town.lapse()
        await town.reconcile().sweep()
        town.clock.advance(60)
        await town.remove_orphans().sweep()
        town.prove()
        # What was finished before the death stays: its answer may have been on its way.
        is_kept = bool(before) and (key is not None or before == [MeetingStatus.SCHEDULED])
        assert town.funds().balance == (90 if is_kept else 100)
        assert (town.funds().held, len(town.state.committed.reservations)) == (0, is_kept)
        for meeting in town.meetings():
            is_there = await state_of(town, meeting) is not SandboxMeetingState.REMOVED
            assert is_there == (meeting.status is MeetingStatus.SCHEDULED) == is_kept
    assert point > 6


async def test_a_provider_that_refuses_to_remove_keeps_nobodys_credits():
    town = await Town().settle_in()
    await left_unknown(town, None)
    town.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE, SandboxFault.LOST)
    town.lapse()
    assert await town.reconcile().sweep() == 1
    (meeting,) = town.meetings()
    assert (town.funds().balance, town.funds().held) == (100, 0)
    for wait_s in (0, 30, 60):
        town.clock.advance(wait_s)
        assert await state_of(town, meeting) is None
        assert await town.remove_orphans().sweep() == 1
    assert await state_of(town, meeting) is SandboxMeetingState.REMOVED


class Forgetful(SandboxProvider):
    """The sandbox, as if it kept nothing."""

    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, remembers_meetings=False)


async def test_a_provider_that_remembers_nothing_is_not_looked_at():
    town = await Town().settle_in()
    town.provider = Forgetful(
        "http://sandbox", town.sandbox.state, bytes(32), faults=town.faults, patience_s=0
    )
    await left_unknown(town, None)
    town.lapse()
    assert await town.reconcile().sweep() == 1
    assert town.funds().held == 0
    town.clock.advance(3600)
    assert await town.remove_orphans().sweep() == 0
