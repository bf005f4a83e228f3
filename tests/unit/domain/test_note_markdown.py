"""A note as people read it: headings in its language, and nobody's words taken for markup."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.note_markdown import markdown
from meetcore.domain.notes import (
    ActionItem,
    Decision,
    Language,
    Note,
    NoteDraft,
    NoteFault,
    NoteStatus,
    NoteStep,
    describe,
)
from meetcore.domain.transcripts import Utterance

DRAFT = NoteDraft(
    "Inti pembicaraan:\n\n- Anggaran disetujui.\n- Jadwal *tetap*.",
    (Decision("Anggaran disetujui", "Kita setujui anggarannya.", 66.4),),
    (
        ActionItem("Kirim jadwal", "Ani, tolong kirim jadwal besok.", 3_725.0, "Ani", "besok"),
        ActionItem("Pesan ruang", "Tolong pesan ruang.", 70.0),
    ),
    ("anggaran", "jadwal"),
)
NOTE = Note(
    UUID(int=1), UUID(int=2), UUID(int=3), UUID(int=4), UUID(int=5), Language.INDONESIAN,
    NoteStatus.COMPLETED, NoteStep.SETTLE, 4_000, datetime(2026, 12, 1, tzinfo=UTC), draft=DRAFT,
    transcript=(Utterance(0.0, 2.0, "Selamat pagi.", "Ani"), Utterance(61.9, 63.0, "Pagi.")),
)  # fmt: skip


def test_a_note_is_written_out() -> None:
    assert markdown(NOTE) == (
        "# Notulen\n\n"
        "Inti pembicaraan:\n\n- Anggaran disetujui.\n- Jadwal \\*tetap\\*.\n\n"
        "## Keputusan\n\n- Anggaran disetujui\n  > 1:06 Kita setujui anggarannya.\n\n"
        "## Tindak lanjut\n\n"
        "- [ ] **Ani**: Kirim jadwal (tenggat: besok)\n  > 1:02:05 Ani, tolong kirim jadwal besok.\n"
        "- [ ] Pesan ruang\n  > 1:10 Tolong pesan ruang.\n\n"
        "## Topik\n\n- anggaran\n- jadwal\n\n"
        "## Transkrip\n\n**0:00** Ani: Selamat pagi.\n\n**1:01** Pagi.\n"
    )


def test_what_is_not_there_has_no_heading() -> None:
    bare = evolve(NOTE, language=Language.ENGLISH, draft=NoteDraft("Nothing much."), transcript=())
    assert markdown(bare) == "# Meeting notes\n\nNothing much.\n"


@pytest.mark.parametrize("status", [NoteStatus.QUEUED, NoteStatus.PROCESSING])
def test_a_note_in_progress_says_how_far_it_is(status: NoteStatus) -> None:
    assert markdown(evolve(NOTE, status=status)) == f"# Notulen\n\n{status}\n"


def test_a_failed_note_says_why() -> None:
    error = describe(NoteFault.NOTHING_SAID)
    assert (
        markdown(evolve(NOTE, status=NoteStatus.FAILED, draft=None, error=error)) == f"# Notulen\n\n{error}\n"
    )


@given(st.text())
def test_nobodys_words_become_markup(words: str) -> None:
    said = evolve(NOTE, draft=NoteDraft("x", topics=(words,)), transcript=())
    (line,) = markdown(said).partition("## Topik\n\n")[2].rstrip("\n").split("\n")
    assert line.startswith("- ")
    plain = line[2:].replace("\\\\", "")
    for place, letter in enumerate(plain):
        if letter in "`*_{}[]<>#|~":
            assert plain[place - 1] == "\\"
