"""A note as people read it: headings in its language, and nobody's words taken for markup."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from meetcore.domain.meetings.meetings import Meeting, MeetingOptions, MeetingStatus
from meetcore.domain.notes import notes
from meetcore.domain.notes.markdown import markdown
from meetcore.domain.notes.transcripts import Utterance

DRAFT = notes.NoteDraft(
    "Inti pembicaraan:\n\n- Anggaran disetujui.\n- Jadwal *tetap*.",
    (notes.Decision("Anggaran disetujui", "Kita setujui anggarannya.", 66.4),),
    (
        notes.ActionItem(
            "Kirim jadwal", "Ani, tolong kirim jadwal besok.", 3_725.0, "Ani", "besok", date(2026, 12, 2)
        ),
        notes.ActionItem("Pesan ruang", "Tolong pesan ruang.", 70.0, due="segera"),
    ),
    ("anggaran", "jadwal"),
)
NOTE = notes.Note(
    UUID(int=1), UUID(int=2), UUID(int=3), UUID(int=4), UUID(int=5), notes.Language.INDONESIAN,
    notes.NoteStatus.COMPLETED, notes.NoteStep.SETTLE, 4_000, datetime(2026, 12, 1, tzinfo=UTC), draft=DRAFT,
    transcript=(Utterance(0.0, 2.0, "Selamat pagi.", "Ani"), Utterance(61.9, 63.0, "Pagi.")),
)  # fmt: skip


def test_a_note_is_written_out() -> None:
    assert markdown(NOTE) == (
        "# Notulen\n\n"
        "Inti pembicaraan:\n\n- Anggaran disetujui.\n- Jadwal \\*tetap\\*.\n\n"
        "## Keputusan\n\n- Anggaran disetujui\n  > 1:06 Kita setujui anggarannya.\n\n"
        "## Tindak lanjut\n\n"
        "- [ ] **Ani**: Kirim jadwal (tenggat: besok, 2026-12-02)\n"
        "  > 1:02:05 Ani, tolong kirim jadwal besok.\n"
        "- [ ] Pesan ruang (tenggat: segera)\n  > 1:10 Tolong pesan ruang.\n\n"
        "## Topik\n\n- anggaran\n- jadwal\n\n"
        "## Transkrip\n\n**0:00** Ani: Selamat pagi.\n\n**1:01** Pagi.\n"
    )


def test_what_the_text_says_already_is_not_quoted() -> None:
    said = "Kita setujui anggarannya."
    decisions = (
        notes.Decision("kita setujui  anggarannya", said, 66.4),
        notes.Decision("Setuju", said, 66.4),
    )
    items = (notes.ActionItem(said, said, 70.0, "Ani", "besok"), notes.ActionItem("Tugas", said, 70.0))
    assert [one.is_verbatim for one in (*decisions, *items)] == [True, False, True, False]
    text = markdown(evolve(NOTE, draft=notes.NoteDraft("", decisions, items), transcript=()))
    assert text.splitlines()[4:] == [
        "## Keputusan", "", "- kita setujui anggarannya (1:06)", "- Setuju",
        "  > 1:06 Kita setujui anggarannya.",
        "", "## Tindak lanjut", "", "- [ ] **Ani**: Kita setujui anggarannya. (tenggat: besok) (1:10)",
        "- [ ] Tugas", "  > 1:10 Kita setujui anggarannya.",
    ]  # fmt: skip


def test_what_was_added_by_hand_has_no_time() -> None:
    draft = notes.NoteDraft("", (notes.Decision("Setuju", "", 0.0),), (notes.ActionItem("Kirim", "", 0.0),))
    lines = markdown(evolve(NOTE, draft=draft, transcript=())).splitlines()
    assert "- Setuju *(ditambahkan secara manual)*" in lines
    assert "- [ ] Kirim *(ditambahkan secara manual)*" in lines
    english = markdown(evolve(NOTE, draft=draft, language=notes.Language.ENGLISH))
    assert "- Setuju *(added by hand)*" in english


@pytest.mark.parametrize(("writer", "language", "line"), [
    ("rules", notes.Language.INDONESIAN, "*Draf otomatis (tanpa AI)*"),
    ("rules", notes.Language.ENGLISH, "*Draft by rules*"),
    ("gpt_4*", notes.Language.INDONESIAN, "*Ditulis oleh gpt\\_4\\**"),
    ("gpt-4o", notes.Language.ENGLISH, "*Written by gpt-4o*"),
])  # fmt: skip
def test_who_wrote_a_note_stands_below_its_heading(writer: str, language: notes.Language, line: str) -> None:
    note = evolve(NOTE, written_by=writer, language=language)
    assert markdown(note).splitlines()[1:4] == ["", line, ""]


def test_the_day_of_the_last_correction_in_jakarta_stands_there_too() -> None:
    note = evolve(NOTE, written_by="rules", edited_at=datetime(2026, 12, 3, 17, tzinfo=UTC))
    assert markdown(note).splitlines()[2:5] == [
        "*Draf otomatis (tanpa AI)*",
        "",
        "*Diperbaiki secara manual pada 2026-12-04*",
    ]
    note = evolve(note, written_by=None, language=notes.Language.ENGLISH)
    assert markdown(note).splitlines()[2] == "*Corrected by hand on 2026-12-04*"


@pytest.mark.parametrize("status", [notes.NoteStatus.COMPLETED, notes.NoteStatus.QUEUED])
@pytest.mark.parametrize(("language", "heading", "day"), [
    (notes.Language.INDONESIAN, "# Notulen: ", "Rapat: 2026-12-02"),
    (notes.Language.ENGLISH, "# Meeting notes: ", "Meeting: 2026-12-02"),
])  # fmt: skip
def test_the_title_and_the_day_of_the_meeting_stand_at_the_top(
    status: notes.NoteStatus, language: notes.Language, heading: str, day: str
) -> None:
    note = evolve(NOTE, status=status, language=language)
    start = datetime(2026, 12, 1, 17, tzinfo=UTC)  # midnight in Jakarta
    meeting = Meeting(
        UUID(int=6), UUID(int=2), UUID(int=3), MeetingStatus.ENDED, "Rapat *mingguan*\n# tim", None, start,
        start + timedelta(hours=1), 60, 100, "standard-100", 10, MeetingOptions(), None, "sandbox", start,
    )  # fmt: skip
    first, _, second, rest = markdown(note, meeting).split("\n", 3)
    assert (first, second) == (f"{heading}Rapat \\*mingguan\\* \\# tim", day)
    assert rest == markdown(note).partition("\n")[2]


def test_absent_parts_have_no_heading() -> None:
    bare = evolve(
        NOTE, language=notes.Language.ENGLISH, draft=notes.NoteDraft("Nothing much."), transcript=()
    )
    assert markdown(bare) == "# Meeting notes\n\nNothing much.\n"


@pytest.mark.parametrize("status", [notes.NoteStatus.QUEUED, notes.NoteStatus.PROCESSING])
def test_a_note_in_progress_shows_its_step(status: notes.NoteStatus) -> None:
    assert markdown(evolve(NOTE, status=status)) == f"# Notulen\n\n{status}\n"


def test_a_failed_note_shows_the_reason() -> None:
    error = notes.describe(notes.NoteFault.NO_SPEECH)
    assert (
        markdown(evolve(NOTE, status=notes.NoteStatus.FAILED, draft=None, error=error))
        == f"# Notulen\n\n{error}\n"
    )


# Words that a renderer may take for markup

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKUP = st.text("-+=:*_#>|~`[]()!<>&;\\ \t\n.)019ax\u00a0", max_size=12)
PIECES = st.sampled_from(
    ["---", "===", "- ", "+ ", "1. ", "2) ", "# ", "> ", "***", "&lt;", "a|b", "|-|", ":-:", "~~~", "\n",
     "    ", "[x](y)", "<b>", "123456789. ", "1234567890. ", "- [ ] ", "\\"]
)  # fmt: skip
HOSTILE_TEXTS = MARKUP | st.lists(PIECES | MARKUP, max_size=4).map("".join) | st.text(max_size=20)


def shape(note: notes.Note) -> list[str]:
    """The structure of a note as a renderer sees it, without the text."""
    tokens = PARSER.parse(markdown(note))
    inner = [child.type for token in tokens for child in token.children or ()]
    return [token.type for token in tokens] + [kind for kind in inner if kind not in ("text", "softbreak")]


def shown(note: notes.Note) -> list[str]:
    """The text of each block of a note as a renderer shows it."""
    blocks = (token.children or [] for token in PARSER.parse(markdown(note)) if token.type == "inline")
    return [
        "".join(child.content or "\n" * (child.type == "softbreak") for child in block) for block in blocks
    ]


def note_with_text_everywhere(text: str) -> notes.Note:
    quote = "x" if not text.split() else text
    draft = notes.NoteDraft(
        f"Inti\n- {text} \n\n {text if not text.strip().startswith('- ') else 'x'}",
        (notes.Decision(quote, quote, 66.4),), (notes.ActionItem(quote, quote, 1.0, quote, quote),), (quote,),
    )  # fmt: skip
    return evolve(
        NOTE, draft=draft, transcript=(Utterance(0.0, 2.0, quote, quote), Utterance(1.0, 3.0, quote))
    )


@given(HOSTILE_TEXTS.filter(lambda text: len(text.splitlines()) < 2 and text.strip()))
@example("---")
@example("===")
@example("1. satu")
@example("10) sepuluh")
@example("+ tambah")
@example("- kurang")
@example("&lt;b&gt; &copy;")
@example(":-:")
def test_transcript_text_never_becomes_markup(text: str) -> None:
    assert shape(note_with_text_everywhere(text)) == shape(note_with_text_everywhere("x"))


@given(HOSTILE_TEXTS.filter(lambda text: bool(text.split())))
@example("1. satu")
@example("&lt;b&gt;")
def test_text_is_shown_verbatim(text: str) -> None:
    note = evolve(NOTE, draft=notes.NoteDraft("x", topics=(text,)), transcript=())
    assert shown(note)[-1] == " ".join(text.replace("\0", "\ufffd").split())


@pytest.mark.parametrize("line", ["===", "---", "- - -", "+ x", "1. x", "1) x", ":-: x", "-", "=", "* * *"])
def test_a_line_of_a_summary_underlines_nothing_and_begins_nothing(line: str) -> None:
    summary = evolve(NOTE, draft=notes.NoteDraft(f"Judul\n{line}\nAkhir"), transcript=())
    plain = evolve(NOTE, draft=notes.NoteDraft("Judul\nx\nAkhir"), transcript=())
    if line.startswith("- "):  # a point of the summary
        plain = evolve(NOTE, draft=notes.NoteDraft("Judul\n- x\nAkhir"), transcript=())
    assert shape(summary) == shape(plain)


def test_a_day_stands_without_words() -> None:
    item = notes.ActionItem("Pesan ruang", "Tolong pesan ruang.", 70.0, due_on=date(2026, 12, 2))
    note = evolve(NOTE, draft=notes.NoteDraft("Inti", (), (item,)), transcript=())
    assert "- [ ] Pesan ruang (tenggat: 2026-12-02)\n" in markdown(note)
