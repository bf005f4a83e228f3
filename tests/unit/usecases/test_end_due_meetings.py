"""What the clock does: meetings end, and recordings are looked for."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.recording_files import FilesUnavailable
from meetcore.usecases.end_due_meetings import CHECKS_AFTER_S, PROVIDER_GRACE
from tests.unit.usecases.application import START, ApplicationHarness, request
from tests.unit.usecases.fakes import recorded


async def application_with_meeting() -> tuple[ApplicationHarness, Meeting]:
    harness = await ApplicationHarness().start()
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    (meeting,) = harness.meetings()
    return harness, meeting


def ended_events(harness: ApplicationHarness) -> int:
    kinds = [event.kind for event in harness.state.committed.events.values()]
    return kinds.count(EventKind.MEETING_ENDED)


async def state_of(harness: ApplicationHarness, meeting: Meeting) -> SandboxMeetingState | None:
    return await harness.sandbox.state.get(f"sandbox-{meeting.id}")


async def test_a_meeting_ends_at_its_end_and_is_reported_once():
    harness, meeting = await application_with_meeting()
    harness.clock.set(meeting.end_at - timedelta(microseconds=1))
    assert await harness.end_due_meetings().sweep() == 0
    harness.clock.set(meeting.end_at)
    assert await harness.end_due_meetings().sweep() == 1
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.ENDED
    assert ended_events(harness) == 1
    assert not harness.state.committed.reservations
    assert harness.funds().balance == 90, "it took place as far as anybody knows"
    harness.clock.advance(3600)
    assert await harness.end_due_meetings().sweep() == 0
    assert ended_events(harness) == 1


async def test_the_meeting_is_ended_at_the_provider_after_its_end():
    harness, meeting = await application_with_meeting()
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert await state_of(harness, meeting) is SandboxMeetingState.REMOVED


async def test_a_meeting_that_runs_is_ended_at_the_provider():
    harness, meeting = await application_with_meeting()
    await harness.sandbox.state.put(f"sandbox-{meeting.id}", SandboxMeetingState.STARTED)
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert await state_of(harness, meeting) is SandboxMeetingState.ENDED
    assert harness.meetings()[0].status is MeetingStatus.ENDED


async def test_an_unavailable_provider_is_waited_for_but_not_for_ever():
    harness, meeting = await application_with_meeting()
    harness.faults.plan(SandboxCall.REMOVE, *[SandboxFault.LOST] * 100)
    harness.clock.set(meeting.end_at)
    for _ in range(14):
        await harness.end_due_meetings().sweep()
        assert harness.meetings()[0].status is MeetingStatus.SCHEDULED
        harness.expire_leases()
    harness.clock.set(meeting.end_at + PROVIDER_GRACE)
    await harness.end_due_meetings().sweep()
    assert harness.meetings()[0].status is MeetingStatus.ENDED
    assert ended_events(harness) == 1


async def test_two_workers_end_a_meeting_once():
    harness, meeting = await application_with_meeting()
    harness.clock.set(meeting.end_at)
    one, other = harness.end_due_meetings(), harness.end_due_meetings()
    assert [await one.sweep(), await other.sweep()] == [1, 0]
    harness.expire_leases()  # the first one died, as far as the second knows
    await other.sweep()
    assert ended_events(harness) == 1


async def test_many_meetings_that_end_together_are_all_processed():
    harness = await ApplicationHarness(credits=1000, hosts=40).start()
    for _ in range(40):
        await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    harness.clock.set(harness.meetings()[0].end_at)
    assert await harness.end_due_meetings().sweep() == 40
    assert {meeting.status for meeting in harness.meetings()} == {MeetingStatus.ENDED}


async def test_one_failing_meeting_does_not_affect_the_others():
    harness = await ApplicationHarness(credits=1000, hosts=3).start()
    for _ in range(3):
        await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    broken = harness.meetings()[1]

    class Broken(SandboxProvider):
        """The sandbox with a defect."""

        async def remove(self, provider_meeting_id):
            if provider_meeting_id == broken.provider_meeting_id:
                raise ZeroDivisionError
            return await super().remove(provider_meeting_id)

    harness.provider = Broken("http://sandbox", harness.sandbox.state, bytes(32))
    harness.clock.set(broken.end_at)
    with pytest.RaisesGroup(ZeroDivisionError):
        await harness.end_due_meetings().sweep()
    assert [meeting.status is MeetingStatus.ENDED for meeting in harness.meetings()] == [True, False, True]


async def test_another_provider_is_not_queried_about_a_foreign_meeting():
    harness, meeting = await application_with_meeting()
    (name,) = harness.state.committed.meetings
    stored = harness.state.committed.meetings[name]
    async with harness.state.change() as tables:
        tables.meetings[name] = evolve(stored, meeting=evolve(meeting, provider="zoom"))
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert await state_of(harness, meeting) is None
    with pytest.raises(UpstreamError):
        await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), START)
    assert await state_of(harness, meeting) is None
    assert harness.funds().balance == 90, "nothing is refunded while nobody knows"
    harness.prove()


async def recorded_meeting() -> tuple[ApplicationHarness, Meeting]:
    """A meeting that was sold with a recording and has ended."""
    harness = await ApplicationHarness().start()
    await harness.create()(
        harness.caller, request(with_recording=True), harness.request_key(None), harness.now()
    )
    (meeting,) = harness.meetings()
    harness.clock.set(meeting.end_at)
    assert await harness.end_due_meetings().sweep() == 1
    return harness, meeting


def due_in_s(harness: ApplicationHarness) -> float | None:
    (stored,) = harness.state.committed.meetings.values()
    return None if stored.due_at is None else (stored.due_at - harness.now()).total_seconds()


async def test_a_recording_is_looked_for_from_the_end_on_for_three_days_and_no_longer():
    harness, _ = await recorded_meeting()
    waits = []
    while (wait_s := due_in_s(harness)) is not None:
        waits.append(wait_s)
        harness.clock.advance(wait_s)
        assert await harness.end_due_meetings().sweep() == 1
        assert len(waits) < 50
    assert waits == [0.0, *CHECKS_AFTER_S]
    assert harness.fault_plan.calls["find"] == len(waits)
    assert harness.recordings() == []


async def test_a_recording_whose_event_was_lost_is_found():
    harness, meeting = await recorded_meeting()
    await harness.end_due_meetings().sweep()
    harness.fake_recordings.put(meeting.provider_meeting_id or "", recorded("rapat"))
    harness.clock.advance(5)
    notifications = harness.notes_notifier.notifications
    await harness.end_due_meetings().sweep()
    assert [one.meeting_id for one in harness.recordings()] == [meeting.id]
    assert harness.notes_notifier.notifications == notifications + 1
    assert due_in_s(harness) is None, "nobody need look again"


async def test_a_provider_without_an_answer_is_queried_again():
    harness, meeting = await recorded_meeting()
    harness.fake_recordings.put(meeting.provider_meeting_id or "", recorded("rapat"))
    harness.fault_plan.plan("find", FilesUnavailable("x"))
    await harness.end_due_meetings().sweep()
    assert (due_in_s(harness), harness.recordings()) == (5.0, [])
    harness.fake_recordings.provider = "zoom"
    harness.clock.advance(5)
    await harness.end_due_meetings().sweep()
    assert (due_in_s(harness), harness.recordings()) == (10.0, []), "its files are another provider's to tell"
    harness.fake_recordings.provider = "sandbox"
    harness.clock.advance(10)
    await harness.end_due_meetings().sweep()
    assert len(harness.recordings()) == 1


async def test_a_meeting_without_recording_is_not_searched_for_one():
    harness, meeting = await application_with_meeting()
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert due_in_s(harness) is None
    assert harness.fault_plan.calls["find"] == 0


async def test_recordings_that_an_earlier_release_gave_up_are_looked_for():
    harness, meeting = await application_with_meeting()
    (name,) = harness.state.committed.meetings
    stored = harness.state.committed.meetings[name]
    async with harness.state.change() as tables:
        given_up = evolve(meeting, status=MeetingStatus.ABANDONED, provider_meeting_id=None)
        tables.meetings[name] = evolve(stored, meeting=given_up, due_at=harness.now())
    assert await harness.end_due_meetings().sweep() == 1
    assert await harness.end_due_meetings().sweep() == 0
    assert await harness.remove_orphans().sweep() == 1
    assert await state_of(harness, meeting) is SandboxMeetingState.REMOVED
