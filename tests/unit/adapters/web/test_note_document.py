"""Notes as a document: a summary's lists are lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from meetcore.adapters.web.pages.notes import note_document
from meetcore.domain.notes.notes import ActionItem, Decision, Language, Note, NoteDraft, NoteStatus, NoteStep
from meetcore.domain.records.documents import Block, Heading, Paragraph, Points, Quotation
from meetcore.domain.records.pages import NoteDetails


def blocks_of(summary: str, *topics: str, **parts: Any) -> list[Block]:
    """The blocks of a note with this summary, without their first heading."""
    note = Note(
        UUID(int=1), UUID(int=2), UUID(int=3), UUID(int=4), UUID(int=5), Language.ENGLISH,
        NoteStatus.COMPLETED, NoteStep.SETTLE, 60, datetime(2026, 12, 1, tzinfo=UTC),
        draft=NoteDraft(summary, topics=topics, **parts),
    )  # fmt: skip
    heading, *blocks = note_document(NoteDetails(note, None, None)).blocks
    assert heading == Heading("Summary")
    return blocks


@pytest.mark.parametrize(("summary", "expected"), [
    ("One line.\nAnother.", [Paragraph("One line.\nAnother.")]),
    (
        "In short:\n\n- first point \n  * second\n\N{BULLET} third\nThe end.",
        [Paragraph("In short:"), Points(["first point", "second", "third"]), Paragraph("The end.")],
    ),
    ("-5 degrees\n--- \n-", [Paragraph("-5 degrees\n---\n-")]),
])  # fmt: skip
def test_lines_with_a_mark_are_a_list(summary: str, expected: list[Block]) -> None:
    assert blocks_of(summary) == expected


def test_topics_are_a_list() -> None:
    _, heading, topics = blocks_of("x", "budget", "schedule")
    assert (heading, topics) == (Heading("Topics"), Points(("budget", "schedule")))


def test_a_decision_is_not_printed_again_as_its_own_quote() -> None:
    _, *blocks = blocks_of(
        "x",
        decisions=(
            Decision("We take  the hotel", "we take the hotel.", 61.0),
            Decision("The hotel is booked", "we take the hotel", 62.0),
            Decision("By hand", "", 0.0),
        ),
        action_items=(ActionItem("Book it", "Book it!", 63.0), ActionItem("Pay", "", 0.0, owner="Ani")),
    )
    assert blocks == [
        Heading("Decisions"),
        Points(["We take  the hotel (1:01)"]),
        Points(["The hotel is booked"]),
        Quotation("we take the hotel", "1:02"),
        Points(["By hand (added by hand)"]),
        Heading("Action items"),
        Points(["Book it (1:03)"]),
        Points(["Pay \N{EM DASH} Ani (added by hand)"]),
    ]
