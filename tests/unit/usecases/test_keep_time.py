"""What the clock does: meetings end, and recordings are looked for."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import UpstreamError
from meetcore.domain.events import EventKind
from meetcore.domain.meetings import Meeting, MeetingStatus
from meetcore.ports.recording_files import FilesAway
from meetcore.usecases.keep_time import LOOKS_AFTER_S, PROVIDER_GRACE
from tests.unit.usecases.studio import filmed
from tests.unit.usecases.town import START, Town, request


async def town_with_meeting() -> tuple[Town, Meeting]:
    town = await Town().settle_in()
    await town.create()(town.caller, request(), town.intent(None), town.now())
    (meeting,) = town.meetings()
    return town, meeting


def ended_events(town: Town) -> int:
    kinds = [event.kind for event in town.state.committed.events.values()]
    return kinds.count(EventKind.MEETING_ENDED)


async def state_of(town: Town, meeting: Meeting) -> SandboxMeetingState | None:
    return await town.sandbox.state.get(f"sandbox-{meeting.id}")


async def test_a_meeting_ends_at_its_end_and_is_told_once():
    town, meeting = await town_with_meeting()
    town.clock.set(meeting.end_at - timedelta(microseconds=1))
    assert await town.keep_time().sweep() == 0
    town.clock.set(meeting.end_at)
    assert await town.keep_time().sweep() == 1
    (after,) = town.meetings()
    assert after.status is MeetingStatus.ENDED
    assert ended_events(town) == 1
    assert not town.state.committed.reservations
    assert town.funds().balance == 90, "it took place as far as anybody knows"
    town.clock.advance(3600)
    assert await town.keep_time().sweep() == 0
    assert ended_events(town) == 1


async def test_nobody_can_meet_there_after_the_end():
    town, meeting = await town_with_meeting()
    town.clock.set(meeting.end_at)
    await town.keep_time().sweep()
    assert await state_of(town, meeting) is SandboxMeetingState.REMOVED


async def test_a_meeting_that_runs_is_ended_at_the_provider():
    town, meeting = await town_with_meeting()
    await town.sandbox.state.put(f"sandbox-{meeting.id}", SandboxMeetingState.STARTED)
    town.clock.set(meeting.end_at)
    await town.keep_time().sweep()
    assert await state_of(town, meeting) is SandboxMeetingState.ENDED
    assert town.meetings()[0].status is MeetingStatus.ENDED


async def test_a_provider_that_is_away_is_waited_for_but_not_for_ever():
    town, meeting = await town_with_meeting()
    town.faults.plan(SandboxCall.REMOVE, *[SandboxFault.LOST] * 100)
    town.clock.set(meeting.end_at)
    for _ in range(14):
        await town.keep_time().sweep()
        assert town.meetings()[0].status is MeetingStatus.SCHEDULED
        town.lapse()
    town.clock.set(meeting.end_at + PROVIDER_GRACE)
    await town.keep_time().sweep()
    assert town.meetings()[0].status is MeetingStatus.ENDED
    assert ended_events(town) == 1


async def test_two_workers_end_a_meeting_once():
    town, meeting = await town_with_meeting()
    town.clock.set(meeting.end_at)
    one, other = town.keep_time(), town.keep_time()
    assert [await one.sweep(), await other.sweep()] == [1, 0]
    town.lapse()  # the first one died, as far as the second knows
    await other.sweep()
    assert ended_events(town) == 1


async def test_many_meetings_that_end_together_are_all_seen_to():
    town = await Town(credits=1000, hosts=40).settle_in()
    for _ in range(40):
        await town.create()(town.caller, request(), town.intent(None), town.now())
    town.clock.set(town.meetings()[0].end_at)
    assert await town.keep_time().sweep() == 40
    assert {meeting.status for meeting in town.meetings()} == {MeetingStatus.ENDED}


async def test_one_that_cannot_be_seen_to_spoils_no_other():
    town = await Town(credits=1000, hosts=3).settle_in()
    for _ in range(3):
        await town.create()(town.caller, request(), town.intent(None), town.now())
    broken = town.meetings()[1]

    class Broken(SandboxProvider):
        """The sandbox with a defect."""

        async def remove(self, provider_meeting_id):
            if provider_meeting_id == broken.provider_meeting_id:
                raise ZeroDivisionError
            return await super().remove(provider_meeting_id)

    town.provider = Broken("http://sandbox", town.sandbox.state, bytes(32))
    town.clock.set(broken.end_at)
    with pytest.RaisesGroup(ZeroDivisionError):
        await town.keep_time().sweep()
    assert [meeting.status is MeetingStatus.ENDED for meeting in town.meetings()] == [True, False, True]


async def test_another_provider_is_not_asked_about_a_meeting_that_is_not_its_own():
    town, meeting = await town_with_meeting()
    (name,) = town.state.committed.meetings
    stored = town.state.committed.meetings[name]
    async with town.state.change() as tables:
        tables.meetings[name] = evolve(stored, meeting=evolve(meeting, provider="zoom"))
    town.clock.set(meeting.end_at)
    await town.keep_time().sweep()
    assert await state_of(town, meeting) is None
    with pytest.raises(UpstreamError):
        await town.cancel()(town.caller, meeting.id, town.intent("c"), START)
    assert await state_of(town, meeting) is None
    assert town.funds().balance == 90, "nothing is refunded while nobody knows"
    town.prove()


async def recorded_meeting() -> tuple[Town, Meeting]:
    """A meeting that was sold with a recording and has ended."""
    town = await Town().settle_in()
    await town.create()(town.caller, request(with_recording=True), town.intent(None), town.now())
    (meeting,) = town.meetings()
    town.clock.set(meeting.end_at)
    assert await town.keep_time().sweep() == 1
    return town, meeting


def due_in_s(town: Town) -> float | None:
    (stored,) = town.state.committed.meetings.values()
    return None if stored.due_at is None else (stored.due_at - town.now()).total_seconds()


async def test_a_recording_is_looked_for_from_the_end_on_for_three_days_and_no_longer():
    town, _ = await recorded_meeting()
    waits = []
    while (wait_s := due_in_s(town)) is not None:
        waits.append(wait_s)
        town.clock.advance(wait_s)
        assert await town.keep_time().sweep() == 1
        assert len(waits) < 50
    assert waits == [0.0, *LOOKS_AFTER_S]
    assert town.studio.calls["find"] == len(waits)
    assert town.recordings() == []


async def test_a_recording_whose_news_was_lost_is_found():
    town, meeting = await recorded_meeting()
    await town.keep_time().sweep()
    town.shelf.put(meeting.provider_meeting_id or "", filmed("rapat"))
    town.clock.advance(5)
    rings = town.recordings_doorbell.rings
    await town.keep_time().sweep()
    assert [one.meeting_id for one in town.recordings()] == [meeting.id]
    assert town.recordings_doorbell.rings == rings + 1
    assert due_in_s(town) is None, "nobody need look again"


async def test_a_provider_that_cannot_tell_is_asked_again():
    town, meeting = await recorded_meeting()
    town.shelf.put(meeting.provider_meeting_id or "", filmed("rapat"))
    town.studio.plan("find", FilesAway("x"))
    await town.keep_time().sweep()
    assert (due_in_s(town), town.recordings()) == (5.0, [])
    town.shelf.provider = "zoom"
    town.clock.advance(5)
    await town.keep_time().sweep()
    assert (due_in_s(town), town.recordings()) == (10.0, []), "its files are another provider's to tell"
    town.shelf.provider = "sandbox"
    town.clock.advance(10)
    await town.keep_time().sweep()
    assert len(town.recordings()) == 1


async def test_what_was_sold_without_recording_is_not_looked_for():
    town, meeting = await town_with_meeting()
    town.clock.set(meeting.end_at)
    await town.keep_time().sweep()
    assert due_in_s(town) is None
    assert town.studio.calls["find"] == 0


async def test_what_an_earlier_release_gave_up_is_looked_for():
    town, meeting = await town_with_meeting()
    (name,) = town.state.committed.meetings
    stored = town.state.committed.meetings[name]
    async with town.state.change() as tables:
        given_up = evolve(meeting, status=MeetingStatus.ABANDONED, provider_meeting_id=None)
        tables.meetings[name] = evolve(stored, meeting=given_up, due_at=town.now())
    assert await town.keep_time().sweep() == 1
    assert await town.keep_time().sweep() == 0
    assert await town.remove_orphans().sweep() == 1
    assert await state_of(town, meeting) is SandboxMeetingState.REMOVED
