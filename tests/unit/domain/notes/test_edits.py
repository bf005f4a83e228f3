"""Corrections by hand: any number at once, and the first ones keep the original."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InvalidRequest, NotFound
from meetcore.domain.notes.edits import Corrections, TaskTexts, changed_parts, correct, speakers_of
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


def draft_after(wanted: Corrections) -> NoteDraft:
    edited = correct(NOTE, wanted, None, LATER)
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
    assert draft_after(Corrections(" Satu.\r\n\r\nDua. ")) == evolve(DRAFT, summary="Satu.\n\nDua.")


def test_a_decision_is_replaced_or_removed() -> None:
    first, second = DRAFT.decisions
    assert draft_after(Corrections(decisions={0: " Gedung\r\n  A "})).decisions[0].text == "Gedung A"
    assert draft_after(Corrections(decisions={0: " Gedung "})).decisions == (
        evolve(first, text="Gedung"),
        second,
    )
    assert draft_after(Corrections(decisions={0: " "})).decisions == (second,)
    assert draft_after(Corrections(decisions={1: ""})) == evolve(DRAFT, decisions=(first,))


def test_a_task_is_replaced_or_removed() -> None:
    first, second = DRAFT.action_items
    changed = draft_after(
        Corrections(tasks={1: TaskTexts("Kirim\nRAB ", " Siti", "Jumat ", DAY)})
    ).action_items
    assert changed == (first, ActionItem("Kirim RAB", "Ani kirim", 6.0, "Siti", "Jumat", DAY))
    assert draft_after(Corrections(tasks={0: TaskTexts("Pesan hotel")})).action_items[0] == evolve(
        first, owner=None, due=None, due_on=None
    )
    assert draft_after(Corrections(tasks={0: TaskTexts("", "Siti")})).action_items == (second,)


def test_a_speaker_is_renamed_wherever_the_name_stands() -> None:
    edited = correct(NOTE, Corrections(speakers={0: " dr. Andi "}), None, LATER)
    assert edited.draft is not None
    assert [one.speaker for one in edited.transcript] == ["dr. Andi", "Ani", "dr. Andi", None]
    assert [one.owner for one in edited.draft.action_items] == ["dr. Andi", "Ani"]
    assert [one.text for one in edited.transcript] == [one.text for one in SAID]
    assert speakers_of(edited.transcript) == ("dr. Andi", "Ani")


@pytest.mark.parametrize(("owner", "expected"), [
    ("iPhone, Ani", "dr. Andi, Ani"), ("Rina, iPhone", "Rina, dr. Andi"),
    ("iPhone milik Budi", "iPhone milik Budi"),
    ("Siti, S.Kom.", "Siti, S.Kom."),
])  # fmt: skip
def test_a_speaker_is_renamed_among_several_owners_of_a_task(owner: str, expected: str) -> None:
    items = (ActionItem("Kirim", "kirim", 6.0, owner),)
    edited = correct(
        evolve(NOTE, draft=evolve(DRAFT, action_items=items)),
        Corrections(speakers={0: "dr. Andi"}),
        None,
        LATER,
    )
    assert edited.draft is not None
    assert [one.owner for one in edited.draft.action_items] == [expected]


def test_a_decision_and_a_task_are_added_without_a_quote() -> None:
    added = draft_after(
        Corrections(new_decision=" Bayar\nJumat ", new_task=TaskTexts("Bayar", "Ani", "Jumat", DAY))
    )
    decision, task = added.decisions[-1], added.action_items[-1]
    assert decision == Decision("Bayar Jumat", "", 0.0)
    assert task == ActionItem("Bayar", "", 0.0, "Ani", "Jumat", DAY)
    assert (decision.is_by_hand, task.is_by_hand) == (True, True)
    assert not any(one.is_by_hand for one in DRAFT.decisions)
    assert not any(one.is_by_hand for one in DRAFT.action_items)
    assert added == evolve(
        DRAFT, decisions=(*DRAFT.decisions, decision), action_items=(*DRAFT.action_items, task)
    )
    assert draft_after(Corrections(decisions={0: "", 1: ""}, new_decision="Tiga")).decisions == (
        Decision("Tiga", "", 0.0),
    )
    assert correct(NOTE, Corrections(new_decision=" \n", new_task=TaskTexts(" ", " ", " ")), None, AT) is NOTE


def test_a_new_name_stands_in_the_texts_that_were_written_with_the_old_one() -> None:
    said = "Ani kirim kepada Budi"
    draft = evolve(
        DRAFT,
        summary="Ani dan Budi: Anita, ani, Ani-Ani. iPhone (Ani) Wijaya",
        decisions=(Decision("Ani setuju", "saya setuju", 1.0), Decision(said, said, 2.0)),
        action_items=(ActionItem("Kirim ke Ani", said, 3.0), ActionItem(said, said, 4.0)),
    )
    names = {0: "Ani", 1: "Ani Wijaya"}
    edited = correct(evolve(NOTE, draft=draft), Corrections(speakers=names), None, LATER).draft
    assert edited is not None
    assert edited.summary == (
        "Ani Wijaya dan Budi: Anita, ani, Ani Wijaya-Ani Wijaya. Ani (Ani Wijaya) Wijaya"
    ), "whole names, and names may change over"
    assert [one.text for one in edited.decisions] == ["Ani Wijaya setuju", said], "word for word stays"
    assert [one.task for one in edited.action_items] == ["Kirim ke Ani Wijaya", said]
    assert [one.quote for one in edited.decisions] == ["saya setuju", said]
    full = correct(
        evolve(NOTE, draft=evolve(DRAFT, summary="Ani Wijaya hadir, Ani bicara")),
        Corrections(speakers={1: "Ani Wijaya"}), None, LATER,
    ).draft  # fmt: skip
    assert full is not None
    assert full.summary == "Ani Wijaya hadir, Ani Wijaya bicara", "the new name is not made longer"
    typed = draft_after(Corrections("iPhone membuka rapat", speakers={0: "dr. A. (Andi)"}))
    assert typed.summary == "dr. A. (Andi) membuka rapat"


def test_the_original_is_that_before_the_first_correction() -> None:
    once = correct(NOTE, Corrections(speakers={1: "Anita"}), None, LATER)
    twice = correct(once, Corrections("Lain"), LATER, LATER + timedelta(seconds=1))
    assert twice.original == Original(DRAFT, SAID)
    assert twice.edited_at == LATER + timedelta(seconds=1)
    assert speakers_of(twice.transcript) == ("iPhone", "Anita")
    erased = erase(evolve(twice, left_out=((0.0, 1.0),)))
    assert erased == evolve(
        NOTE, status=NoteStatus.ERASED, draft=None, transcript=(), left_out=(), written_by=None
    )


SAME = Corrections(
    "Ringkasan ", {0: "Hotel\nMelati", 1: "Dua"},
    {0: TaskTexts("Pesan hotel", "iPhone", "besok", date(2026, 12, 2)), 1: TaskTexts("Kirim", "Ani")},
    {0: "iPhone", 1: " Ani"},
)  # fmt: skip


def test_a_form_that_says_the_same_is_no_correction() -> None:
    assert correct(NOTE, SAME, None, LATER) is NOTE
    assert correct(NOTE, Corrections(), None, LATER) is NOTE
    bare = Corrections(tasks={0: TaskTexts("Pesan hotel")})
    without_owner = correct(NOTE, bare, None, LATER)
    assert correct(without_owner, bare, LATER, LATER) is without_owner


def test_a_form_corrects_all_its_parts_at_once() -> None:
    wanted = evolve(
        SAME,
        summary="Satu",
        decisions={0: "", 1: "Tiga"},
        tasks={0: TaskTexts("Pesan", "Ani"), 1: TaskTexts("", "Ani")},
        speakers={0: "Ani", 1: "Rina"},
    )
    draft = draft_after(wanted)
    assert draft.summary == "Satu"
    assert draft.decisions == (evolve(DRAFT.decisions[1], text="Tiga"),)
    [task] = draft.action_items
    assert (task.task, task.owner, task.due_on) == ("Pesan", "Rina", None)
    edited = correct(NOTE, wanted, None, LATER)
    assert [one.speaker for one in edited.transcript] == ["Ani", "Rina", "Ani", None], "names may change over"
    assert changed_parts(NOTE, edited) == ("summary", "decisions", "action_items", "speakers")
    assert changed_parts(NOTE, NOTE) == ()
    assert changed_parts(NOTE, correct(NOTE, Corrections("Satu"), None, LATER)) == ("summary",)


def test_texts_longer_than_the_limits_stay_where_they_are_not_changed() -> None:
    long = evolve(NOTE, draft=evolve(DRAFT, decisions=(evolve(DRAFT.decisions[0], text="a" * 2000),)))
    edited = correct(long, Corrections("Satu", {0: "a" * 2000}), None, LATER)
    assert edited.draft is not None
    assert edited.draft.decisions[0].text == "a" * 2000


def test_two_who_correct_at_a_time_do_not_overwrite_each_other() -> None:
    once = correct(NOTE, Corrections("Satu"), None, LATER)
    for seen in (None, AT):
        with pytest.raises(
            Conflict, match=r"^These notes were changed meanwhile\. Load them again\.$"
        ) as refused:
            correct(once, Corrections("Dua"), seen, LATER)
        assert refused.value.details == {"id": str(NOTE.id)}


@pytest.mark.parametrize("place", [2, -1])
@pytest.mark.parametrize("part", ["decisions", "tasks", "speakers"])
def test_a_part_that_is_not_in_the_note_is_not_found(part: str, place: int) -> None:
    wanted = Corrections(**{part: {place: TaskTexts("x") if part == "tasks" else "x"}})  # type: ignore[arg-type]
    with pytest.raises(NotFound, match=r"^No such decision, task or speaker in this note\.$"):
        correct(NOTE, wanted, None, LATER)


@pytest.mark.parametrize("note", [
    evolve(NOTE, status=NoteStatus.PROCESSING), evolve(NOTE, draft=None), erase(NOTE),
])  # fmt: skip
def test_only_a_complete_note_is_corrected(note: Note) -> None:
    with pytest.raises(NotFound, match=r"^This note is not complete\.$"):
        correct(note, Corrections("x"), None, LATER)


@pytest.mark.parametrize(("wanted", "fields"), [
    (Corrections(" "), {"summary"}), (Corrections("a" * 20_001), {"summary"}),
    (Corrections("a\x00"), {"summary"}),
    (Corrections(decisions={0: "a" * 1001}), {"decision-0"}),
    (Corrections(decisions={0: "a\x00b"}), {"decision-0"}),
    (Corrections(tasks={0: TaskTexts("a" * 1001, "b" * 201, "c" * 201)}), {"task-0", "owner-0", "due-0"}),
    (Corrections(tasks={0: TaskTexts("a", "b\n1")}), {"owner-0"}),
    (Corrections(new_decision="a" * 1001), {"decision-new"}),
    (Corrections(new_task=TaskTexts("", "Ani")), {"task-new"}),
    (Corrections(new_task=TaskTexts("", due_on=DAY)), {"task-new"}),
    (Corrections(" ", new_task=TaskTexts("", "Ani")), {"summary", "task-new"}),
    (
        Corrections(new_task=TaskTexts("a" * 1001, "b" * 201, "c" * 201)),
        {"task-new", "owner-new", "due-new"},
    ),
    (Corrections(speakers={1: " "}), {"speaker-1"}), (Corrections(speakers={1: "a" * 201}), {"speaker-1"}),
    (
        Corrections("", {1: "a" * 1001}, {0: TaskTexts("a", "b\n1")}, {1: ""}),
        {"summary", "decision-1", "owner-0", "speaker-1"},
    ),
])  # fmt: skip
def test_texts_have_limits(wanted: Corrections, fields: set[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        correct(NOTE, wanted, None, LATER)
    named = refused.value.details["fields"]
    assert isinstance(named, dict)
    assert named.keys() == fields


def test_the_longest_texts_are_taken() -> None:
    assert draft_after(Corrections("a" * 20_000)).summary == "a" * 20_000
    assert draft_after(Corrections(decisions={0: "a" * 1000})).decisions[0].text == "a" * 1000
    task = draft_after(Corrections(tasks={0: TaskTexts("a" * 1000, "b" * 200, "c" * 200)})).action_items[0]
    assert (task.task, task.owner, task.due) == ("a" * 1000, "b" * 200, "c" * 200)
    renamed = correct(NOTE, Corrections(speakers={1: "a" * 200}), None, LATER)
    assert renamed.transcript[1].speaker == "a" * 200


_PLACES = st.integers(-1, 3)
_TEXTS = st.text(max_size=9)
_CORRECTIONS = st.builds(
    Corrections,
    st.none() | _TEXTS,
    st.dictionaries(_PLACES, _TEXTS, max_size=2),
    st.dictionaries(_PLACES, st.builds(TaskTexts, *[_TEXTS] * 3, st.none() | st.just(DAY)), max_size=2),
    st.dictionaries(_PLACES, st.sampled_from(["Ani", "iPhone", "Budi", "\n"]), max_size=2),
    st.text(max_size=3),
)


@given(st.lists(_CORRECTIONS, max_size=8))
def test_corrections_keep_the_original_the_quotes_and_what_was_said(forms: list[Corrections]) -> None:
    note = NOTE
    for number, wanted in enumerate(forms, start=1):
        try:
            note = correct(note, wanted, note.edited_at, LATER + timedelta(seconds=number))
        except (NotFound, InvalidRequest):
            continue
    assert note.draft is not None
    assert (note.original is None) is (note.edited_at is None) is (note == NOTE)
    assert note.original in (None, Original(DRAFT, SAID))
    assert {one.quote for one in note.draft.decisions} <= {"", *(one.quote for one in DRAFT.decisions)}
    assert {one.quote for one in note.draft.action_items} <= {one.quote for one in DRAFT.action_items}
    assert [one.text for one in note.transcript] == [one.text for one in SAID]
    assert (note.credits_charged, note.written_by, note.completed_at) == (67, "rules", AT)
