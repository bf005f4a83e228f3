"""Meetings end at their end, and their recordings are looked for."""

from contextlib import suppress
from datetime import timedelta

import pytest

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.notes import Language, NoteFault, NoteStatus, describe
from meetcore.domain.notes.recordings import FileKind, RecordingStatus
from meetcore.domain.requests.retention import Retention
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.recording_files import FilesUnavailable
from meetcore.ports.runtime import Lease
from meetcore.usecases.meetings.cancellation import mark_cancelling
from meetcore.usecases.meetings.end_due_meetings import CHECKS_AFTER_S, PROVIDER_GRACE
from meetcore.usecases.requests.erasure import RemovePastRetention
from tests.unit.usecases.application import START, ApplicationHarness, SimulatedCrash, crash_points
from tests.unit.usecases.fakes import recorded
from tests.unit.usecases.note_scenario import NoteScenario


def ended_events(harness: ApplicationHarness) -> int:
    kinds = [kind for kind, _ in harness.events()]
    return kinds.count(EventKind.MEETING_ENDED)


async def test_a_meeting_ends_at_its_end_and_is_reported_once():
    meeting = await (harness := ApplicationHarness()).with_meeting()
    harness.clock.set(meeting.end_at - timedelta(microseconds=1))
    assert await harness.end_due_meetings().sweep() == 0
    harness.clock.set(meeting.end_at)
    assert await harness.end_due_meetings().sweep() == 1
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.ENDED
    assert ended_events(harness) == 1
    assert harness.count("host_reservations") == 0
    assert harness.funds().balance == 90, "it took place as far as anybody knows"
    assert due_in_s(harness) is None, "it was sold without a recording"
    harness.clock.advance(3600)
    assert await harness.end_due_meetings().sweep() == 0
    assert (ended_events(harness), harness.fault_plan.calls["find"]) == (1, 0)


async def test_an_unavailable_provider_is_waited_for_but_not_for_ever():
    meeting = await (harness := ApplicationHarness()).with_meeting()
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
    meeting = await (harness := ApplicationHarness()).with_meeting()
    harness.clock.set(meeting.end_at)
    one, other = harness.end_due_meetings(), harness.end_due_meetings()
    assert [await one.sweep(), await other.sweep()] == [1, 0]
    harness.expire_leases()  # the first one died, as far as the second knows
    await other.sweep()
    assert ended_events(harness) == 1


async def test_many_meetings_that_end_together_are_all_processed():
    harness = await ApplicationHarness(credits=1000, hosts=40).start()
    for _ in range(40):
        await harness.make()
    harness.clock.set(harness.meetings()[0].end_at)
    assert await harness.end_due_meetings().sweep() == 40
    assert {meeting.status for meeting in harness.meetings()} == {MeetingStatus.ENDED}


async def test_one_failing_meeting_does_not_affect_the_others():
    harness = await ApplicationHarness(credits=1000, hosts=3).start()
    for _ in range(3):
        await harness.make()
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
    meeting = await (harness := ApplicationHarness()).with_meeting()
    harness.write("UPDATE meetings SET provider = 'zoom'")
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert await harness.at_sandbox(meeting) is None
    with pytest.raises(UpstreamError):
        await harness.cancel()(harness.caller, meeting.id, harness.request_key("c"), START)
    assert await harness.at_sandbox(meeting) is None
    assert harness.funds().balance == 90, "nothing is refunded while nobody knows"
    harness.prove()


async def recorded_meeting() -> tuple[ApplicationHarness, Meeting]:
    """A meeting that was sold with a recording and has ended."""
    meeting = await (harness := ApplicationHarness()).with_meeting(with_recording=True)
    harness.clock.set(meeting.end_at)
    assert await harness.end_due_meetings().sweep() == 1
    return harness, meeting


def due_in_s(harness: ApplicationHarness) -> float | None:
    (row,) = harness.read("SELECT due_at FROM meetings")
    return None if row["due_at"] is None else (row["due_at"] - harness.now()).total_seconds()


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


async def test_media_is_looked_for_on_where_only_a_chat_is_ready():
    harness, meeting = await recorded_meeting()
    name = meeting.provider_meeting_id or ""
    harness.fake_recordings.put(name, recorded("chat", kind=FileKind.OTHER))
    await harness.end_due_meetings().sweep()
    assert due_in_s(harness) == 5.0
    harness.fake_recordings.put(name, recorded("rapat"))
    harness.clock.advance(5)
    await harness.end_due_meetings().sweep()
    assert [file.kind for file in harness.recordings()[0].files] == [FileKind.OTHER, FileKind.AUDIO]
    assert due_in_s(harness) is None


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


async def test_a_meeting_whose_cancellation_failed_at_its_end_is_ended():
    meeting = await (harness := ApplicationHarness()).with_meeting()
    lease = Lease(harness.runtime.new_id(harness.now()), 20)
    async with harness.store.begin() as tx:
        marked = await mark_cancelling(tx, meeting, lease, None)
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    await harness.cancel().cancellation.put_back(marked, lease.token)
    harness.expire_leases()
    assert await harness.end_due_meetings().sweep() == 1
    assert harness.meetings()[0].status is MeetingStatus.ENDED


async def look_until_the_last(harness: ApplicationHarness) -> None:
    """Look for the recording as often as it is looked for."""
    for _ in range(len(CHECKS_AFTER_S) + 1):
        harness.clock.advance(due_in_s(harness) or 0.0)
        await harness.end_due_meetings().sweep()
    assert due_in_s(harness) is None


@pytest.mark.parametrize("auto_notulen", [True, False])
async def test_a_recording_that_never_comes_is_given_back_and_its_notes_fail(auto_notulen: bool):
    meeting = await (harness := ApplicationHarness()).with_meeting(
        with_recording=True, auto_notulen=auto_notulen
    )
    assert (meeting.credits, meeting.recording_credits) == (15, 5)
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert (harness.funds().balance, harness.notes()) == (85, [])
    await look_until_the_last(harness)
    assert harness.funds().balance == 90
    assert [entry.amount for entry in harness.entries()] == [100, -15, 5]
    assert [event["error"] for event in harness.events_of(EventKind.NOTE_FAILED)] == (
        [describe(NoteFault.NO_RECORDING)] if auto_notulen else []
    )
    assert [note.recording_id for note in harness.notes()] == ([None] if auto_notulen else [])
    (after,) = harness.meetings()
    assert (after.status, after.credits_refunded) == (MeetingStatus.ENDED, 5)
    assert sum(usage.spent for usage in harness.usage()) == 10
    harness.prove()


async def test_a_recording_is_not_given_back_by_a_last_look_without_an_answer():
    harness, meeting = await recorded_meeting()
    for _ in CHECKS_AFTER_S:
        await harness.end_due_meetings().sweep()
        harness.clock.advance(due_in_s(harness) or 0.0)
    harness.fault_plan.plan("find", FilesUnavailable("x"))
    await harness.end_due_meetings().sweep()
    assert (due_in_s(harness), meeting.credits_refunded) == (24 * 3600, None)
    harness.fake_recordings.put(meeting.provider_meeting_id or "", recorded("rapat"))
    harness.clock.advance(24 * 3600)
    await harness.end_due_meetings().sweep()
    assert (len(harness.recordings()), due_in_s(harness)) == (1, None)
    assert harness.meetings()[0].credits_refunded is None


async def test_a_recording_that_no_provider_answers_for_is_given_back_after_another_week():
    harness, meeting = await recorded_meeting()
    harness.fake_recordings.provider = "zoom"
    while (wait_s := due_in_s(harness)) is not None:
        harness.clock.advance(wait_s)
        await harness.end_due_meetings().sweep()
    assert harness.meetings()[0].credits_refunded == meeting.recording_credits
    assert harness.now() - meeting.end_at > timedelta(days=8)


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_meeting_whose_recording_does_not_open_is_not_looked_at_more_often(is_listed: bool):
    harness, meeting = await recorded_meeting()
    await NoteScenario(harness, meeting).record(recorded("rapat"))
    harness.write("UPDATE recordings SET files = '\\x00'")
    if not is_listed:
        harness.fake_recordings.listed.clear()
    harness.fault_plan.calls.clear()
    waits: list[float] = []
    while (wait_s := due_in_s(harness)) is not None and len(waits) < 50:
        waits.append(wait_s)
        harness.clock.advance(wait_s)
        with pytest.raises(ExceptionGroup):
            await harness.end_due_meetings().sweep()
    assert waits == [0.0, *CHECKS_AFTER_S]
    assert harness.fault_plan.calls["find"] == len(waits)


async def looked_for_with_a_chat_alone() -> ApplicationHarness:
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    harness.fake_recordings.put(meeting.provider_meeting_id or "", recorded("chat", kind=FileKind.OTHER))
    await look_until_the_last(harness)
    return harness


async def test_a_recording_of_which_only_a_chat_came_is_given_back():
    harness = await looked_for_with_a_chat_alone()
    assert (harness.funds().balance, len(harness.events_of(EventKind.NOTE_FAILED))) == (90, 1)
    harness.prove()


async def test_notes_that_failed_without_media_are_not_reported_again_when_the_chat_expires():
    harness = await looked_for_with_a_chat_alone()
    remove = RemovePastRetention(harness.rig.retention, Retention(note_days=1))
    harness.clock.advance(2 * 24 * 3600)
    await remove()
    one = NoteScenario(harness, harness.meetings()[0])
    await one.expire()
    assert one.status() is RecordingStatus.EXPIRED
    assert len(harness.events_of(EventKind.NOTE_FAILED)) == 1
    harness.clock.advance(2 * 24 * 3600)
    await remove()
    assert harness.notes() == []


async def test_a_recording_is_given_back_once_after_a_crash_at_any_point() -> None:
    for point in crash_points():
        meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
        harness.clock.set(meeting.end_at)
        for _ in range(1 + len(CHECKS_AFTER_S)):
            await harness.end_due_meetings().sweep()
            harness.clock.advance(due_in_s(harness) or 0.0)
        with suppress(SimulatedCrash):
            await harness.process(point).meetings.end_due.sweep()
        harness.expire_leases()
        await harness.end_due_meetings().sweep()
        assert harness.funds().balance == 90
        assert len(harness.events_of(EventKind.NOTE_FAILED)) == 1
        harness.prove()


async def test_notes_that_failed_without_a_recording_are_not_reported_again_after_a_late_session():
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    await look_until_the_last(harness)
    name, now = meeting.provider_meeting_id or "", harness.now()
    late = ProviderEvent(
        "sandbox", ProviderEventKind.MEETING_STARTED, name, now, session=Session("late", now)
    )
    await harness.process().meetings.track(late, now)
    assert due_in_s(harness) == 0.0
    while due_in_s(harness) == 0.0:
        await harness.end_due_meetings().sweep()
    assert (len(harness.notes()), len(harness.events_of(EventKind.NOTE_FAILED))) == (1, 1)


async def test_notes_begin_when_the_meeting_is_over_and_not_after_a_test_call():
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    one = NoteScenario(harness, meeting)
    await one.record(recorded("call", 60.0))
    await one.measure()
    assert (one.recording.status, harness.notes()) == (RecordingStatus.AVAILABLE, [])
    harness.clock.set(meeting.end_at)
    for _ in range(3):
        await harness.end_due_meetings().sweep()
    assert len(harness.notes()) == 1
    await look_until_the_last(harness)
    assert len(harness.notes()) == 1


async def test_notes_wait_for_the_files_of_a_later_session_to_be_measured():
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    one = NoteScenario(harness, meeting)
    await one.record(recorded("call", 60.0))
    await one.measure()
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    await one.record(recorded("rapat", minutes_in=30))
    for _ in range(2):
        await harness.end_due_meetings().sweep()
        assert harness.notes() == []
    assert due_in_s(harness) is None
    await one.measure()
    await one.finish()
    (note,) = harness.notes()
    assert (note.status, note.duration_s) == (NoteStatus.COMPLETED, 660)
    one.prove()


async def ended_after_a_test_call() -> NoteScenario:
    """A meeting with notes that has just ended: a test call is measured, and its note is not queued yet."""
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    one = NoteScenario(harness, meeting)
    await one.record(recorded("call", 60.0))
    await one.measure()
    harness.clock.set(meeting.end_at)
    await harness.end_due_meetings().sweep()
    assert harness.notes() == []
    return one


async def end_looks(one: NoteScenario) -> None:
    """Look for the recording until it is not looked for any more."""
    while (wait_s := due_in_s(one.harness)) is not None:
        one.harness.clock.advance(wait_s)
        await one.harness.end_due_meetings().sweep()
        await one.measure()


@pytest.mark.spec("6/6")
@pytest.mark.parametrize("is_growing", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_notes_fail_where_their_recording_ends_before_they_are_queued(
    is_growing: bool, is_deleted: bool
):
    one = await ended_after_a_test_call()
    if is_growing:
        await one.record(recorded("rapat", minutes_in=30))
        await one.harness.end_due_meetings().sweep()
        assert (due_in_s(one.harness), one.harness.notes()) == (None, [])
    await (one.delete() if is_deleted else one.expire())
    (event,) = one.harness.events_of(EventKind.NOTE_FAILED)
    assert event["error"] == describe(NoteFault.RECORDING_GONE)
    assert event["recording_id"] == str(one.recording.id)
    await one.delete()
    await end_looks(one)
    assert [note.status for note in one.harness.notes()] == [NoteStatus.FAILED]
    assert len(one.harness.events_of(EventKind.NOTE_FAILED)) == 1
    one.prove()


async def test_notes_that_are_deleted_with_their_recording_before_they_are_queued_are_not_reported():
    one = await ended_after_a_test_call()
    await one.delete(with_notes=True)
    await end_looks(one)
    assert (one.harness.notes(), one.harness.events_of(EventKind.NOTE_FAILED)) == ([], [])


async def test_notes_that_are_past_their_retention_are_not_reported_when_their_recording_is_deleted():
    one = await ended_after_a_test_call()
    await end_looks(one)
    await one.finish()
    one.harness.clock.advance(2 * 24 * 3600)
    await RemovePastRetention(one.harness.rig.retention, Retention(note_days=1))()
    assert one.harness.notes() == []
    await one.delete()
    assert one.harness.events_of(EventKind.NOTE_FAILED) == []


async def ended_after_a_silent_test_call() -> NoteScenario:
    """A meeting with notes that had two sessions: only the files of the first are there, without sound."""
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    one = NoteScenario(harness, meeting)
    async with harness.store.begin() as tx:
        await tx.lock_account(meeting.account_id)
        for id in ("call", "rapat"):
            await tx.meetings.save_session(meeting, Session(id, None, meeting.start_at))
    await one.record(recorded("call", 0.0, session_id="call"))
    harness.clock.set(meeting.end_at)
    for _ in range(2):
        await harness.end_due_meetings().sweep()
        await one.measure()
    return one


async def test_a_test_call_without_sound_leaves_the_note_to_the_session_after_it():
    one = await ended_after_a_silent_test_call()
    assert one.harness.notes() == []
    await one.record(recorded("rapat", 90.0, minutes_in=30, session_id="rapat"))
    await one.measure()
    await end_looks(one)
    await one.finish()
    (note,) = one.harness.notes()
    assert (note.status, note.duration_s) == (NoteStatus.COMPLETED, 90)
    assert one.harness.events_of(EventKind.NOTE_FAILED) == []
    one.prove()


@pytest.mark.parametrize("is_silent", [False, True])
async def test_without_sound_notes_fail_once_when_no_more_media_can_come(is_silent: bool):
    one = await ended_after_a_silent_test_call()
    if is_silent:
        await one.record(recorded("rapat", 0.0, minutes_in=30, session_id="rapat"))
        await one.measure()
        assert len(one.harness.notes()) == 1
    await end_looks(one)
    (event,) = one.harness.events_of(EventKind.NOTE_FAILED)
    assert event["error"] == describe(NoteFault.MEDIA_UNREADABLE)
    assert (one.harness.now() > one.meeting.end_at + timedelta(days=1)) is not is_silent
    one.prove()


async def test_media_that_is_measured_after_the_last_look_is_reported_without_sound():
    one = await ended_after_a_silent_test_call()
    one.harness.write("UPDATE meetings SET due_at = NULL")
    await one.record(recorded("siang", 0.0, minutes_in=30, session_id="siang"))
    await one.measure()
    assert one.note().error == describe(NoteFault.MEDIA_UNREADABLE)


async def test_notes_that_are_past_their_retention_are_not_made_again_while_a_recording_is_looked_for():
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    async with harness.store.begin() as tx:
        await tx.lock_account(meeting.account_id)
        await tx.meetings.save_session(meeting, Session("without a file", None, meeting.start_at))
    one = NoteScenario(harness, meeting)
    harness.clock.set(meeting.end_at)
    await one.record(recorded("rapat", 60.0))
    await one.measure()
    remove = RemovePastRetention(harness.rig.retention, Retention(note_days=1))
    while (wait_s := due_in_s(harness)) is not None:
        harness.clock.advance(wait_s)
        await remove()
        await harness.end_due_meetings().sweep()
        await one.work()
    assert [entry.amount for entry in harness.entries()] == [100, -15, -1]


async def test_a_note_in_english_that_was_asked_for_early_takes_the_place_of_no_other():
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    one = NoteScenario(harness, meeting)
    await one.record(recorded("rapat", 60.0))
    await one.measure()
    await one.ask(language=Language.ENGLISH)
    harness.clock.set(meeting.end_at)
    await look_until_the_last(harness)
    assert sorted(note.language for note in harness.notes()) == [Language.ENGLISH, Language.INDONESIAN]


async def test_a_recording_is_looked_for_until_each_session_has_its_files():
    meeting = await (harness := ApplicationHarness()).with_meeting(with_recording=True)
    name = meeting.provider_meeting_id or ""
    async with harness.store.begin() as tx:
        await tx.lock_account(meeting.account_id)
        for number in range(2):
            await tx.meetings.save_session(meeting, Session(f"s{number}", None, meeting.start_at))
    harness.fake_recordings.put(name, recorded("pagi", session_id="s0"))
    harness.clock.set(meeting.end_at)
    for _ in range(2):
        await harness.end_due_meetings().sweep()
    assert due_in_s(harness) == CHECKS_AFTER_S[0]
    harness.fake_recordings.put(name, recorded("siang", minutes_in=30, session_id="s1"))
    harness.clock.advance(CHECKS_AFTER_S[0])
    await harness.end_due_meetings().sweep()
    assert due_in_s(harness) is None
    assert len(harness.recordings()[0].files) == 2
