"""Corrections by hand: each changes one thing, and the first one keeps the original."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InvalidRequest, NotFound
from meetcore.domain.notes.edits import (
    DecisionEdit,
    Edit,
    SpeakerEdit,
    SummaryEdit,
    TaskEdit,
    correct,
    speakers_of,
)
from meetcore.domain.notes.notes import (
    ActionItem,
    Decision,
    Language,
    Note,
    NoteDraft,
    NoteStatus,
    NoteStep,
    Original,
    erase,
)
from meetcore.domain.notes.transcripts import Utterance

AT = datetime(2026, 12, 1, 2, tzinfo=UTC)
LATER = AT + timedelta(minutes=5)
DAY = date(2026, 12, 4)
DRAFT = NoteDraft(
    "Ringkasan",
    (Decision("Hotel Melati", "kita pakai Hotel Melati", 3.0), Decision("Dua", "dua", 4.0)),
    (
        ActionItem("Pesan hotel", "saya pesan hotel", 5.0, "iPhone", "besok", date(2026, 12, 2)),
        ActionItem("Kirim", "Ani kirim", 6.0, "Ani"),
    ),
    ("hotel",),
)
SAID = (
    Utterance(3.0, 4.0, "kita pakai Hotel Melati", "iPhone"), Utterance(4.0, 5.0, "dua", "Ani"),
    Utterance(5.0, 6.0, "saya pesan hotel", "iPhone"), Utterance(7.0, 8.0, "ya"),
)  # fmt: skip
NOTE = Note(
    UUID(int=1), UUID(int=2), UUID(int=3), UUID(int=4), UUID(int=5), Language.INDONESIAN,
    NoteStatus.COMPLETED, NoteStep.SETTLE, 4_000, AT, draft=DRAFT, transcript=SAID, written_by="rules",
    credits_charged=67, charge_id=UUID(int=6), completed_at=AT,
)  # fmt: skip


def draft_after(edit: Edit) -> NoteDraft:
    edited = correct(NOTE, edit, None, LATER)
    assert edited.draft is not None
    assert edited == evolve(
        NOTE,
        draft=edited.draft,
        transcript=edited.transcript,
        original=Original(DRAFT, SAID),
        edited_at=LATER,
    )
    return edited.draft


def test_a_summary_is_replaced() -> None:
    assert draft_after(SummaryEdit(" Satu.\r\n\r\nDua. ")) == evolve(DRAFT, summary="Satu.\n\nDua.")


def test_a_decision_is_replaced_or_removed() -> None:
    first, second = DRAFT.decisions
    assert draft_after(DecisionEdit(0, " Gedung\r\n  A ")).decisions[0].text == "Gedung A"
    assert draft_after(DecisionEdit(0, " Gedung ")).decisions == (evolve(first, text="Gedung"), second)
    assert draft_after(DecisionEdit(0, " ")).decisions == (second,)
    assert draft_after(DecisionEdit(1, "")).decisions == (first,)


def test_a_task_is_replaced_or_removed() -> None:
    first, second = DRAFT.action_items
    changed = draft_after(TaskEdit(1, "Kirim\nRAB ", " Siti", "Jumat ", DAY)).action_items
    assert changed == (first, ActionItem("Kirim RAB", "Ani kirim", 6.0, "Siti", "Jumat", DAY))
    assert draft_after(TaskEdit(0, "Pesan hotel")).action_items[0] == evolve(
        first, owner=None, due=None, due_on=None
    )
    assert draft_after(TaskEdit(0, "", "Siti")).action_items == (second,)


def test_a_speaker_is_renamed_wherever_the_name_stands() -> None:
    edited = correct(NOTE, SpeakerEdit("iPhone", " dr. Andi "), None, LATER)
    assert edited.draft is not None
    assert [one.speaker for one in edited.transcript] == ["dr. Andi", "Ani", "dr. Andi", None]
    assert [one.owner for one in edited.draft.action_items] == ["dr. Andi", "Ani"]
    assert [one.text for one in edited.transcript] == [one.text for one in SAID]
    assert speakers_of(edited.transcript) == ("dr. Andi", "Ani")


def test_the_original_is_that_before_the_first_correction() -> None:
    once = correct(NOTE, SpeakerEdit("Ani", "Anita"), None, LATER)
    twice = correct(once, SummaryEdit("Lain"), LATER, LATER + timedelta(seconds=1))
    assert twice.original == Original(DRAFT, SAID)
    assert twice.edited_at == LATER + timedelta(seconds=1)
    assert speakers_of(twice.transcript) == ("iPhone", "Anita")
    erased = erase(evolve(twice, left_out=((0.0, 1.0),)))
    assert erased == evolve(
        NOTE, status=NoteStatus.ERASED, draft=None, transcript=(), left_out=(), written_by=None
    )


@pytest.mark.parametrize("edit", [
    SummaryEdit("Ringkasan "), DecisionEdit(1, "Dua"), SpeakerEdit("Ani", "Ani"),
    TaskEdit(0, "Pesan hotel", "iPhone", "besok", date(2026, 12, 2)),
])  # fmt: skip
def test_what_says_the_same_is_no_correction(edit: Edit) -> None:
    assert correct(NOTE, edit, None, LATER) is NOTE


def test_two_who_correct_at_a_time_do_not_overwrite_each_other() -> None:
    once = correct(NOTE, SummaryEdit("Satu"), None, LATER)
    for seen in (None, AT):
        with pytest.raises(
            Conflict, match=r"^These notes were changed meanwhile\. Load them again\.$"
        ) as refused:
            correct(once, SummaryEdit("Dua"), seen, LATER)
        assert refused.value.details == {"id": str(NOTE.id)}


@pytest.mark.parametrize("edit", [
    DecisionEdit(2, "x"), DecisionEdit(-1, "x"), TaskEdit(2, "x"), TaskEdit(-1, "x"),
    SpeakerEdit("Rina", "x"), SpeakerEdit("", "x"),
])  # fmt: skip
def test_what_is_not_in_the_note_is_not_found(edit: Edit) -> None:
    with pytest.raises(NotFound, match=r"^No such (?:speaker|decision or task) in this note\.$"):
        correct(NOTE, edit, None, LATER)


@pytest.mark.parametrize("note", [
    evolve(NOTE, status=NoteStatus.PROCESSING), evolve(NOTE, draft=None), erase(NOTE),
])  # fmt: skip
def test_only_a_complete_note_is_corrected(note: Note) -> None:
    with pytest.raises(NotFound, match=r"^This note is not complete\.$"):
        correct(note, SummaryEdit("x"), None, LATER)


@pytest.mark.parametrize(("edit", "fields"), [
    (SummaryEdit(" "), {"text"}), (SummaryEdit("a" * 20_001), {"text"}), (SummaryEdit("a\x00"), {"text"}),
    (DecisionEdit(0, "a" * 1001), {"text"}), (DecisionEdit(0, "a\x00b"), {"text"}),
    (TaskEdit(0, "a" * 1001, "b" * 201, "c" * 201), {"text", "owner", "due"}),
    (TaskEdit(0, "a", "b\n1"), {"owner"}), (SpeakerEdit("Ani", " "), {"text"}),
    (SpeakerEdit("Ani", "a" * 201), {"text"}),
])  # fmt: skip
def test_texts_have_limits(edit: Edit, fields: set[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        correct(NOTE, edit, None, LATER)
    named = refused.value.details["fields"]
    assert isinstance(named, dict)
    assert named.keys() == fields


def test_the_longest_texts_are_taken() -> None:
    assert draft_after(SummaryEdit("a" * 20_000)).summary == "a" * 20_000
    assert draft_after(DecisionEdit(0, "a" * 1000)).decisions[0].text == "a" * 1000
    task = draft_after(TaskEdit(0, "a" * 1000, "b" * 200, "c" * 200)).action_items[0]
    assert (task.task, task.owner, task.due) == ("a" * 1000, "b" * 200, "c" * 200)
    assert correct(NOTE, SpeakerEdit("Ani", "a" * 200), None, LATER).transcript[1].speaker == "a" * 200


_EDITS = st.one_of(
    st.builds(SummaryEdit, st.text(max_size=9)),
    st.builds(DecisionEdit, st.integers(-1, 3), st.text(max_size=9)),
    st.builds(TaskEdit, st.integers(-1, 3), *[st.text(max_size=9)] * 3, st.none() | st.just(DAY)),
    st.builds(
        SpeakerEdit, st.sampled_from(["Ani", "iPhone", "Budi"]), st.sampled_from(["Ani", "Budi", "\n"])
    ),
)


@given(st.lists(_EDITS, max_size=8))
def test_corrections_keep_the_original_the_quotes_and_what_was_said(wanted: list[Edit]) -> None:
    note = NOTE
    for number, edit in enumerate(wanted, start=1):
        try:
            note = correct(note, edit, note.edited_at, LATER + timedelta(seconds=number))
        except (NotFound, InvalidRequest):
            continue
    assert note.draft is not None
    assert (note.original is None) is (note.edited_at is None) is (note == NOTE)
    assert note.original in (None, Original(DRAFT, SAID))
    assert {one.quote for one in note.draft.decisions} <= {one.quote for one in DRAFT.decisions}
    assert {one.quote for one in note.draft.action_items} <= {one.quote for one in DRAFT.action_items}
    assert [one.text for one in note.transcript] == [one.text for one in SAID]
    assert (note.credits_charged, note.written_by, note.completed_at) == (67, "rules", AT)
