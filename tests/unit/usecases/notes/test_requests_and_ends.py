"""Requests for notes, and the end of recordings with their notes."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from meetcore.domain.errors import Conflict
from meetcore.domain.meetings.meetings import OPEN, MeetingStatus
from meetcore.domain.notes.notes import Language, NoteStatus
from meetcore.domain.notes.recordings import RETENTION, RecordingStatus
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from tests.unit.usecases.fakes import RECORDED_AT, recorded
from tests.unit.usecases.note_scenario import NoteScenario, note_scenario


def code(outcome: Outcome) -> str:
    assert outcome.refusal is not None
    return outcome.refusal.code


async def test_a_recording_being_measured_is_not_available_yet() -> None:
    one = await note_scenario()
    one.harness.write("DELETE FROM recordings")
    await one.record(recorded("rapat"))
    assert code(await one.ask(of=one.recording.id)) == "not_found"


async def with_notes() -> NoteScenario:
    """A recording with a note that is made, one that failed and one that waits."""
    one = await note_scenario()
    await one.ask(Language.ENGLISH)
    await one.finish()
    one.harness.listener.is_deaf = True
    one.harness.write("DELETE FROM transcript_chunks")
    await one.ask(Language.INDONESIAN)
    await one.finish()
    await one.ask(Language.INDONESIAN)
    assert [note.status for note in one.harness.notes()] == [
        NoteStatus.COMPLETED, NoteStatus.FAILED, NoteStatus.QUEUED,
    ]  # fmt: skip
    return one


async def test_a_recording_expires_when_its_retention_is_over() -> None:
    one = await note_scenario()
    one.harness.clock.set(RECORDED_AT + RETENTION - timedelta(microseconds=1))
    assert not await one.harness.process().recordings.expire()
    assert one.status() is RecordingStatus.AVAILABLE
    one.harness.clock.advance(1)
    notifications = one.harness.notes_notifier.notifications
    assert not await one.harness.process().recordings.expire()
    assert one.status() is RecordingStatus.EXPIRED
    assert one.harness.notes_notifier.notifications == notifications + 1
    assert not await one.harness.process().recordings.expire()


async def test_a_full_batch_reports_that_there_may_be_more_to_expire() -> None:
    one = await note_scenario()
    one.harness.clock.set(RECORDED_AT + RETENTION)
    assert await one.harness.process().recordings.expire(1)
    assert not await one.harness.process().recordings.expire(1)


async def test_recordings_that_do_not_open_keep_no_other_from_its_expiry() -> None:
    one = await note_scenario()
    for day in (3, 4):
        await one.harness.make(with_recording=True, date=f"2026-12-0{day}")
        name = one.harness.meetings()[-1].provider_meeting_id or ""
        file, _ = recorded(name)
        await one.harness.process().recordings.collect_files("sandbox", name, [file], one.harness.now())
    broken = [recording.id for recording in one.harness.recordings()[1:]]
    one.harness.write("UPDATE meetings SET status = 'ended'")
    one.harness.write(
        "UPDATE recordings SET files = '\\x00', expires_at = expires_at - interval '1 day' "
        "WHERE id = ANY(%(ids)s)",
        ids=broken,
    )
    one.harness.clock.set(RECORDED_AT + RETENTION)
    with pytest.raises(ExceptionGroup) as raised:
        await one.harness.process().recordings.expire(1)
    assert len(raised.value.exceptions) == 2
    kept = one.harness.read("SELECT id FROM recordings WHERE status <> 'expired' ORDER BY id")
    assert [row["id"] for row in kept] == broken


@pytest.mark.parametrize("status", sorted(OPEN))
async def test_the_recording_of_a_test_call_is_neither_deleted_nor_expired_before_its_meeting(
    status: MeetingStatus,
) -> None:
    one = await note_scenario(recorded("call", 60.0))
    one.harness.write("UPDATE meetings SET status = %(status)s", status=status.value)
    if status is not MeetingStatus.STARTED:  # from then on it is the meeting's
        refusal = (await one.delete()).refusal
        assert refusal is not None
        assert (refusal.code, refusal.details) == (Conflict.code, {"id": str(one.meeting.id)})
    await one.expire()
    assert one.status() is RecordingStatus.AVAILABLE
    await one.record(recorded("rapat", 90.0, minutes_in=30))
    await one.measure()
    assert len(one.harness.fake_recordings.contents) == 2
    one.harness.write("UPDATE meetings SET status = 'ended'")
    assert (await one.delete()).refusal is None
    assert one.status() is RecordingStatus.EXPIRED


async def test_one_that_was_never_measured_expires_too() -> None:
    one = await note_scenario()
    one.harness.write("DELETE FROM recordings")
    await one.record(recorded("rapat"))
    await one.expire()
    assert one.status() is RecordingStatus.EXPIRED
    await one.measure()
    assert not any(file.url for file in one.recording.files)


async def test_expiry_ends_what_is_in_progress_and_leaves_what_is_made() -> None:
    one = await with_notes()
    before = one.harness.notes()
    await one.expire()
    assert [note.status for note in one.harness.notes()] == [
        NoteStatus.COMPLETED, NoteStatus.FAILED, NoteStatus.FAILED,
    ]  # fmt: skip
    assert one.harness.notes()[:2] == before[:2]
    assert len(one.harness.events_of(EventKind.NOTE_FAILED)) == 2
    assert one.harness.count("transcript_chunks") == 0
    one.prove()


async def test_notes_are_erased_when_their_recording_is_gone_already() -> None:
    one = await with_notes()
    await one.delete()
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    await one.delete(with_notes=True)
    assert {note.status for note in one.harness.notes()} == {NoteStatus.ERASED}
    one.prove()


async def test_a_deletion_is_idempotent_and_replayed_under_a_key(one: NoteScenario) -> None:
    first = await one.delete(key="d")
    again = await one.delete(key="d")
    assert (again.record, again.is_replay, first.is_replay) == (None, True, False)
    await one.delete()
    assert len(one.harness.events_of(EventKind.NOTE_FAILED)) == 1
    one.prove()


@pytest.mark.spec("5/8")
async def test_a_missing_recording_cannot_be_deleted() -> None:
    one = await note_scenario()
    harness = one.harness
    request = IdempotentRequest(None, fingerprint("DELETE", "/api/v1/recordings", {}))
    answer = await harness.process().api.delete_recording(
        harness.caller, UUID(int=1), request, harness.now(), with_notes=True
    )
    assert answer.refusal is not None
    assert answer.refusal.code == "not_found"
    harness.write("DELETE FROM recordings")
    await one.record(recorded("rapat"))
    answer = await one.delete()
    assert answer.refusal is not None
    assert answer.refusal.code == "not_found", "nobody sees it yet"
    assert one.status() is RecordingStatus.MEASURING
