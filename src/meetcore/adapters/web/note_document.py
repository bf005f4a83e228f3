"""Notes as a document on paper: summary, decisions, action items with quotes and times, transcript.

The headings are in the language of the notes, as in their Markdown.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from meetcore.adapters.catalogues import translations
from meetcore.adapters.web.formats import format_instant, format_offset
from meetcore.adapters.web.languages import CATALOGUES
from meetcore.adapters.web.texts import PAGE_OF, _
from meetcore.domain.notes.notes import Note, NoteDraft
from meetcore.domain.notes.transcripts import Utterance
from meetcore.ports.dashboard_queries import NoteDetails
from meetcore.ports.document_printer import Block, Document, Facts, Heading, Paragraph, Points, Quotation

_POINT: Final = re.compile(r"[-*+\N{BULLET}]\s+(.*)")
MAX_TRANSCRIPT: Final = 400_000
"""Characters of a transcript on paper: some six hours of speech. The Markdown has all of a longer one."""


def note_document(found: NoteDetails) -> Document:
    """What the document of a completed note says."""
    note = found.note
    assert note.draft is not None
    at = note.completed_at or note.created_at
    title = _text(note, _("Notes")) if found.meeting is None else found.meeting.title
    return Document(
        title,
        note.language.value,
        at,
        _text(note, PAGE_OF),
        [
            *_when(found),
            *_draft(note, note.draft),
            *_transcript(note),
        ],
    )


def _when(found: NoteDetails) -> Iterator[Block]:
    if found.meeting is not None:
        at = format_instant(found.meeting.start_at, found.note.language)
        yield Facts([(_text(found.note, _("Meeting")), at)])


def _draft(note: Note, draft: NoteDraft) -> Iterator[Block]:
    yield Heading(_text(note, _("Summary")))
    yield from _summary(draft.summary)
    if draft.decisions:
        yield Heading(_text(note, _("Decisions")))
        for decision in draft.decisions:
            yield Points([decision.text])
            yield Quotation(decision.quote, format_offset(decision.at_s))
    if draft.action_items:
        yield Heading(_text(note, _("Action items")))
        for item in draft.action_items:
            parts = [part for part in (item.task, item.owner, item.due) if part]
            yield Points([" \N{EM DASH} ".join(parts)])
            yield Quotation(item.quote, format_offset(item.at_s))
    if draft.topics:
        yield Heading(_text(note, _("Topics")))
        yield Points(draft.topics)


def _summary(text: str) -> Iterator[Block]:
    """Paragraphs and lists, as the lines of a summary have them."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for is_list, group in groupby(lines, key=lambda line: _POINT.fullmatch(line) is not None):
        of_kind = list(group)
        yield (
            Points([_POINT.sub(r"\1", line) for line in of_kind])
            if is_list
            else Paragraph("\n".join(of_kind))
        )


def _transcript(note: Note) -> Iterator[Block]:
    if not note.transcript:
        return
    yield Heading(_text(note, _("Transcript")))
    shown = _bounded(note.transcript)
    for one in shown:
        yield Paragraph(one.text, " ".join(part for part in (format_offset(one.at_s), one.speaker) if part))
    if len(shown) < len(note.transcript):
        yield Paragraph(_text(note, _("The rest of the transcript is in the Markdown file.")))


def _bounded(transcript: Sequence[Utterance]) -> Sequence[Utterance]:
    """The beginning of a transcript, as much as a document takes."""
    characters = 0
    for count, one in enumerate(transcript):
        characters += len(one.text) + len(one.speaker or "") + 80  # what encodes it
        if characters > MAX_TRANSCRIPT:
            return transcript[:count]
    return transcript


def _text(note: Note, message: str) -> str:
    return translations(CATALOGUES, note.language).gettext(message)
