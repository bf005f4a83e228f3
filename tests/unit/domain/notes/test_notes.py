"""Notes: both machines, retained content and price."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, Gone, NotFound, ServiceUnavailable, Unprocessable
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import Hold
from meetcore.domain.money.transfers import Reference, TransferKind
from meetcore.domain.notes.notes import (
    MAX_PARTS_CHARS,
    TRANSITIONS,
    ActionItem,
    Decision,
    Language,
    Note,
    NoteCompleted,
    NoteDraft,
    NoteEvent,
    NoteFailed,
    NoteFault,
    NoteStatus,
    NoteStep,
    admit_note,
    advance,
    blocks_new_note,
    complete,
    describe,
    erase,
    fail,
    fail_without_recording,
    finish_draft,
    hold_for,
    is_in_progress,
    keep_part,
    note_operation,
    queue,
)
from meetcore.domain.notes.recordings import Recording, RecordingStatus, gather_files, is_gone, needs_work
from meetcore.domain.notes.transcripts import Utterance
from meetcore.testing.strategies.meetings import meetings, notes
from tests.unit.domain.notes.test_recordings import a_file, opened

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
CHARGE = UUID(int=77)
DRAFT = NoteDraft(
    "Ringkasan",
    (Decision("Postgres", "kita pakai Postgres", 3.0),),
    (ActionItem("tulis", "saya tulis", 4.0),),
)
SHOWN = evolve(opened(a_file(media_s=61.0)), status=RecordingStatus.AVAILABLE)
QUEUED = queue(UUID(int=4), SHOWN, UUID(int=5), Language.ENGLISH, NOW)


def standing(status: NoteStatus) -> Note:
    """A note in a state, with all that it may have."""
    transcript = (Utterance(1.0, 2.0, "halo"),)
    return evolve(
        QUEUED,
        status=status,
        step=NoteStep.SETTLE,
        draft=DRAFT,
        transcript=transcript,
        error="why",
        parts=(("a", "one"),),
    )


HAPPENINGS: dict[NoteEvent, Callable[[Note], Note]] = {
    NoteEvent.COMPLETE: lambda note: complete(note, 2, CHARGE, NOW)[0],
    NoteEvent.FAIL: lambda note: fail(note, NoteFault.AI_REFUSED)[0],
    NoteEvent.ERASE: erase,
}


def test_a_queued_note_begins_at_the_first_step_with_the_length_that_is_known() -> None:
    assert queue(UUID(int=4), SHOWN, UUID(int=5), Language.ENGLISH, NOW) == Note(
        UUID(int=4), SHOWN.account_id, UUID(int=5), SHOWN.id, SHOWN.meeting_id, Language.ENGLISH,
        NoteStatus.QUEUED, NoteStep.FETCH, 61, NOW,
    )  # fmt: skip


@pytest.mark.parametrize("event", list(HAPPENINGS))
@pytest.mark.parametrize("status", list(NoteStatus))
def test_every_event_in_every_state_follows_the_table(status: NoteStatus, event: NoteEvent) -> None:
    before = standing(status)
    expected = TRANSITIONS.get((status, event))
    if expected is None:
        with pytest.raises(ValueError, match=status):
            HAPPENINGS[event](before)
    else:
        assert HAPPENINGS[event](before).status is expected


@pytest.mark.parametrize("status", list(NoteStatus))
def test_a_note_that_is_taken_is_in_progress(status: NoteStatus) -> None:
    taken = TRANSITIONS.get((status, NoteEvent.TAKE))
    assert (taken is NoteStatus.PROCESSING) is is_in_progress(standing(status))
    assert taken in (None, NoteStatus.PROCESSING)


def test_the_table_covers_every_event_and_an_erased_note_stays_erased() -> None:
    assert {event for _, event in TRANSITIONS} == set(NoteEvent)
    assert NoteStatus.ERASED not in {state for state, _ in TRANSITIONS}
    assert len(TRANSITIONS) == 7


@given(notes(), st.sampled_from(NoteStep))
@example(evolve(QUEUED, tries=4), NoteStep.TRANSCRIBE)
@example(QUEUED, NoteStep.FETCH)
def test_a_note_advances_only_to_a_later_step(note: Note, step: NoteStep) -> None:
    order = list(NoteStep)
    if is_in_progress(note) and order.index(step) > order.index(note.step):
        assert advance(note, step) == evolve(note, step=step, tries=0)
    else:
        with pytest.raises(ValueError, match=note.step):
            advance(note, step)


@given(notes())
def test_a_note_is_in_progress_or_over_and_blocks_new_ones_until_it_failed_or_is_gone(note: Note) -> None:
    assert is_in_progress(note) is ((note.status, NoteEvent.FAIL) in TRANSITIONS)
    assert blocks_new_note(note) is (note.status not in (NoteStatus.FAILED, NoteStatus.ERASED))


@given(notes(NoteStatus.PROCESSING))
def test_a_note_is_completed_with_content_only(note: Note) -> None:
    if note.draft is None:
        with pytest.raises(ValueError, match=r"^a note without content is not completed$"):
            complete(note, 2, CHARGE, NOW)
    else:
        done, fact = complete(note, 2, CHARGE, NOW)
        assert fact == NoteCompleted(done)
        assert (done.credits_charged, done.charge_id, done.completed_at) == (2, CHARGE, NOW)
        assert (done.draft, done.transcript, done.duration_s) == (
            note.draft,
            note.transcript,
            note.duration_s,
        )


@given(notes(), st.sampled_from(NoteFault))
def test_a_failed_note_costs_nothing_and_keeps_nothing(note: Note, fault: NoteFault) -> None:
    if is_in_progress(note):
        failed, fact = fail(evolve(note, left_out=((0.0, 1.0),), written_by="rules"), fault)
        assert (failed.left_out, failed.written_by) == ((), None)
        assert fact == NoteFailed(failed)
        assert (failed.draft, failed.transcript, failed.credits_charged) == (None, (), 0)
        assert failed.error == describe(fault)
        assert failed.charge_id is None


@pytest.mark.parametrize("status", [NoteStatus.COMPLETED, NoteStatus.FAILED])
def test_an_erased_note_keeps_only_ids_and_money(status: NoteStatus) -> None:
    over = evolve(standing(status), credits_charged=2, charge_id=CHARGE, completed_at=NOW)
    erased = erase(over)
    assert (erased.draft, erased.transcript, erased.error) == (None, (), None)
    assert (erased.id, erased.credits_charged, erased.charge_id) == (over.id, 2, CHARGE)


def test_parts_are_kept_by_name_until_there_is_a_draft() -> None:
    note = evolve(QUEUED, step=NoteStep.WRITE)
    for name, text in (("a", "one"), ("b", "two"), ("a", "three")):
        note = keep_part(note, name, text)
    assert note.parts == (("b", "two"), ("a", "three"))
    done = finish_draft(note, DRAFT, "a-model")
    assert (done.step, done.draft, done.parts) == (NoteStep.SETTLE, DRAFT, ())
    assert done.written_by == "a-model"
    assert "three" not in repr(note)


def test_parts_are_bounded_together() -> None:
    note = keep_part(QUEUED, "a", "x" * (MAX_PARTS_CHARS - 1))
    full = keep_part(note, "b", "y")
    assert len(full.parts) == 2
    assert keep_part(full, "c", "z") is full
    assert keep_part(note, "b", "yy") is note
    assert keep_part(full, "b", "z").parts[1] == ("b", "z")


@pytest.mark.parametrize("end", [erase, lambda note: fail(note, NoteFault.AI_REFUSED)[0]])
def test_a_note_that_is_over_has_no_parts(end: Callable[[Note], Note]) -> None:
    status = NoteStatus.FAILED if end is erase else NoteStatus.PROCESSING
    assert end(standing(status)).parts == ()


def test_a_hold_bears_the_notes_permanent_name() -> None:
    hold_id, day = UUID(int=8), date(2026, 12, 1)
    assert note_operation(QUEUED.id) == f"note:{QUEUED.id}"
    assert hold_for(QUEUED, hold_id, 7, day) == Hold(
        hold_id, f"note:{QUEUED.id}", TransferKind.NOTULEN_CHARGE, 7, Reference("note", str(QUEUED.id)),
        QUEUED.api_key_id, day,
    )  # fmt: skip


@pytest.mark.parametrize("recording", [None, opened(a_file())])
def test_an_unmeasured_recording_has_no_notes(recording: Recording | None) -> None:
    with pytest.raises(NotFound) as refusal:
        admit_note(recording, None, NOW)
    assert refusal.value.message == "No recording with this id."


@pytest.mark.spec("7/410")
def test_an_expired_recording_is_gone_even_with_notes() -> None:
    for existing_note in (None, standing(NoteStatus.COMPLETED)):
        with pytest.raises(Gone) as refusal:
            admit_note(evolve(SHOWN, status=RecordingStatus.EXPIRED), existing_note, NOW)
        assert refusal.value.message == "The recording was deleted or is past its retention."


@pytest.mark.spec("7/409")
@pytest.mark.parametrize("status", list(NoteStatus))
def test_an_existing_note_blocks_another_in_the_same_language(status: NoteStatus) -> None:
    existing_note = standing(status)
    if blocks_new_note(existing_note):
        with pytest.raises(Conflict) as refusal:
            admit_note(SHOWN, existing_note, NOW)
        assert refusal.value.details == {"id": str(existing_note.id)}
        assert refusal.value.message == (
            "There is a note on this recording in this language already: read that one."
        )
    else:
        assert admit_note(SHOWN, existing_note, NOW) is SHOWN


@pytest.mark.spec("7/410")
def test_a_recording_past_its_retention_is_gone_before_it_is_marked_expired() -> None:
    assert not is_gone(SHOWN, SHOWN.expires_at - timedelta(microseconds=1))
    assert is_gone(SHOWN, SHOWN.expires_at)
    with pytest.raises(Gone):
        admit_note(SHOWN, None, SHOWN.expires_at)


def test_a_recording_that_has_grown_has_no_price_before_it_is_measured() -> None:
    grown = gather_files(
        SHOWN, [a_file("later", starts_at=NOW + timedelta(hours=2), ends_at=NOW + timedelta(hours=3))]
    )
    assert needs_work(grown)
    with pytest.raises(ServiceUnavailable) as refusal:
        admit_note(grown, None, NOW)
    assert not refusal.value.is_final, "the same key may ask again"
    assert refusal.value.retry_after_s == 30
    assert refusal.value.message == ("More of this recording has come and is being measured. Try again soon.")


def test_media_without_sound_has_no_notes() -> None:
    silent, a_second = (
        evolve(opened(a_file(media_s=media_s)), status=RecordingStatus.AVAILABLE) for media_s in (0.0, 1.0)
    )
    with pytest.raises(Unprocessable) as refusal:
        admit_note(silent, None, NOW)
    assert refusal.value.message == "The recording's file cannot be read as audio or video."
    assert admit_note(a_second, None, NOW) is a_second


@pytest.mark.parametrize("fault", list(NoteFault))
def test_a_fault_message_names_nothing_internal(fault: NoteFault) -> None:
    message = describe(fault)
    assert message.endswith(".")
    assert not {"lease", "worker", "Exception", "http"} & set(message.replace(".", " ").split())
    assert len({describe(other) for other in NoteFault}) == len(NoteFault)


def test_transcript_and_draft_are_not_in_the_repr() -> None:
    text = repr(standing(NoteStatus.COMPLETED)) + repr(DRAFT)
    for word in ("Ringkasan", "Postgres", "tulis", "halo"):
        assert word not in text


@given(meetings(datetime(2026, 12, 1, tzinfo=UTC)))
def test_a_meeting_without_a_recording_has_a_failed_note_that_says_so(meeting: Meeting) -> None:
    at = datetime(2026, 12, 3, tzinfo=UTC)
    note, fact = fail_without_recording(UUID(int=9), meeting, Language.INDONESIAN, at)
    assert (note.recording_id, note.meeting_id, note.account_id) == (None, meeting.id, meeting.account_id)
    assert (note.id, note.api_key_id, note.language) == (UUID(int=9), meeting.api_key_id, Language.INDONESIAN)
    assert (note.step, note.duration_s, note.created_at) == (NoteStep.FETCH, 0, at)
    assert (note.status, note.credits_charged) == (NoteStatus.FAILED, 0)
    assert note.error == describe(NoteFault.NO_RECORDING)
    assert fact == NoteFailed(note)
