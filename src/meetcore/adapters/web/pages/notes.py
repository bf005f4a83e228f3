"""Notes: the list, and a reader with the recording beside it; as Markdown and as PDF to keep."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate, groupby
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve, frozen
from markupsafe import Markup
from starlette.responses import Response

from meetcore.adapters.api.http_common import download_url
from meetcore.adapters.catalogues import translations
from meetcore.adapters.web.formats import CATALOGUES, format_day, format_instant
from meetcore.adapters.web.forms import FORM, PAGE_SIZE, apply, back_to, first_page, read_before, send_file
from meetcore.adapters.web.markup import mark_words
from meetcore.adapters.web.texts import NOTE_STATES, PAGE_OF, _
from meetcore.adapters.web.visit import Page, Visit, see_other
from meetcore.domain.errors import NotFound
from meetcore.domain.members.roles import Action
from meetcore.domain.notes import edits, recordings, transcripts
from meetcore.domain.notes.markdown import markdown
from meetcore.domain.notes.notes import (
    BY_RULES,
    ActionItem,
    Decision,
    Note,
    NoteDraft,
    NoteStatus,
    is_in_progress,
)
from meetcore.domain.notes.transcripts import format_offset
from meetcore.domain.records.documents import Block, Document, Facts, Heading, Paragraph, Points, Quotation
from meetcore.domain.records.pages import NoteDetails

_POINT: Final = re.compile(r"[-*+\N{BULLET}]\s+(.*)")
_ADDED: Final = _("added by hand")
MAX_TRANSCRIPT: Final = 400_000
"""Characters of a transcript on paper: some six hours of speech. The Markdown has all of a longer one."""


def note_document(found: NoteDetails) -> Document:
    """Build the document of a completed note."""
    note = found.note
    assert note.draft is not None
    at = note.completed_at or note.created_at
    title = _in_its_language(note, _("Notes")) if found.meeting is None else found.meeting.title
    return Document(
        title,
        note.language.value,
        at,
        _in_its_language(note, PAGE_OF),
        [*_when(found), *_writer(note), *_draft(note, note.draft), *_transcript(note)],
    )


def _when(found: NoteDetails) -> Iterator[Block]:
    if found.meeting is not None:
        at = format_instant(found.meeting.start_at, found.note.language)
        yield Facts([(_in_its_language(found.note, _("Meeting")), at)])


def _writer(note: Note) -> Iterator[Block]:
    if note.edited_at is not None:
        at = format_instant(note.edited_at, note.language)
        yield Facts([(_in_its_language(note, _("Corrected by hand")), at)])
    if note.written_by == BY_RULES:
        yield Paragraph(_in_its_language(note, _("Draft by rules")))
    elif note.written_by is not None:
        yield Facts([(_in_its_language(note, _("Written by")), note.written_by)])


def _draft(note: Note, draft: NoteDraft) -> Iterator[Block]:
    yield Heading(_in_its_language(note, _("Summary")))
    yield from _summary(draft.summary)
    if draft.decisions:
        yield Heading(_in_its_language(note, _("Decisions")))
        for decision in draft.decisions:
            yield from _said(note, decision.text, decision)
    if draft.action_items:
        yield Heading(_in_its_language(note, _("Action items")))
        for item in draft.action_items:
            due_on = item.due_on and format_day(item.due_on, note.language)
            parts = [part for part in (item.task, item.owner, item.due, due_on) if part]
            yield from _said(note, " \N{EM DASH} ".join(parts), item)
    if draft.topics:
        yield Heading(_in_its_language(note, _("Topics")))
        yield Points(draft.topics)


def _said(note: Note, text: str, one: Decision | ActionItem) -> Iterator[Block]:
    """Set the quote below a text, or its time alone behind it where the quote says no more."""
    at = _in_its_language(note, _ADDED) if one.is_by_hand else format_offset(one.at_s)
    if one.is_by_hand or one.is_verbatim:
        yield Points([f"{text} ({at})"])
    else:
        yield Points([text])
        yield Quotation(one.quote, at)


def _summary(text: str) -> Iterator[Block]:
    """Split a summary into paragraphs and lists."""
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
    yield Heading(_in_its_language(note, _("Transcript")))
    shown = _bounded(note.transcript)
    for one in shown:
        yield Paragraph(one.text, " ".join(part for part in (format_offset(one.at_s), one.speaker) if part))
    if len(shown) < len(note.transcript):
        yield Paragraph(_in_its_language(note, _("The rest of the transcript is in the Markdown file.")))


def _bounded(transcript: Sequence[transcripts.Utterance]) -> Sequence[transcripts.Utterance]:
    """Cut a transcript at the size of a document."""
    characters = 0
    for count, one in enumerate(transcript):
        characters += len(one.text) + len(one.speaker or "") + 80  # what encodes it
        if characters > MAX_TRANSCRIPT:
            return transcript[:count]
    return transcript


def _in_its_language(note: Note, message: str) -> str:
    return translations(CATALOGUES, note.language).gettext(message)


ROOT: Final = "/dashboard/notes"
MAX_SPEAKERS: Final = 200
"""Names that the form for corrections shows."""


@frozen
class Moment:
    """A point in a recording: its text, its part, the second of that; `href` plays it without a script."""

    text: str
    part: int
    at_s: float
    href: str


@frozen
class _Line:
    """An utterance with the words that were looked for marked."""

    at_s: float
    speaker: Markup
    text: Markup


@frozen
class Player:
    """The parts of a recording: where each is played from, and the second at which it begins."""

    urls: Sequence[str]
    begins_s: Sequence[float]

    def moment(self, at_s: float) -> Moment:
        """Find the part and the second of a point in the whole recording."""
        part = max(bisect_right(self.begins_s, at_s) - 1, 0)
        within = at_s - self.begins_s[part] if self.urls else at_s
        href = f"{self.urls[part]}#t={int(within)}" if self.urls else ""
        return Moment(format_offset(at_s), part, round(within, 1), href)


@Page("GET", ROOT, Action.VIEW_NOTES)
async def list_notes(visit: Visit) -> Response:
    found = await visit.use.reads.list_notes(visit.signed_in, PAGE_SIZE + 1, read_before(visit))
    (shown, older), untitled = first_page(visit, found, lambda one: one.note.id), visit.text("Notes")
    return visit.page(
        "notes.html",
        notes=[(each.note, note_state(visit, each.note), each.title or untitled) for each in shown],
        older=older,
        is_live=any(is_in_progress(each.note) for each in shown),
    )


@Page("GET", f"{ROOT}/{{id}}.md", Action.VIEW_NOTES)
async def download_markdown(visit: Visit) -> Response:
    found = await _completed(visit)
    text = markdown(found.note, found.meeting)
    return send_file(text.encode(), f"notes-{found.note.id}.md", "text/markdown; charset=utf-8")


@Page("GET", f"{ROOT}/{{id}}.pdf", Action.VIEW_NOTES)
async def download_pdf(visit: Visit) -> Response:
    found = await _completed(visit)
    made = await visit.use.printer.print_pdf(visit.signed_in.account.id, note_document(found))
    return send_file(made, f"notes-{found.note.id}.pdf", "application/pdf")


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_NOTES)
async def read_note(visit: Visit) -> Response:
    """Show a note; with `?original=1` as it was before it was corrected."""
    found = await visit.use.reads.find_note(visit.signed_in, visit.path_id("note"))
    note, player = found.note, player_of(visit, found.recording)
    is_original = visit.query("original") == "1" and note.original is not None
    if is_original and note.original is not None:
        note = evolve(note, draft=note.original.draft, transcript=note.original.transcript)
    is_done = note.status is NoteStatus.COMPLETED and note.draft is not None
    words = visit.query("q").strip()
    transcript = _found_lines(note, words) if is_done else []
    return visit.page(
        "note.html",
        back=back_to(visit, ROOT),
        note=note,
        draft=note.draft if is_done else None,
        title=visit.text("Notes") if found.meeting is None else found.meeting.title,
        meeting=found.meeting,
        state=note_state(visit, note),
        is_by_rules=note.written_by == BY_RULES,
        is_original=is_original,
        player=player,
        transcript=transcript,
        hits=sum(line.speaker.count("<mark>") + line.text.count("<mark>") for line in transcript),
        words=words,
        is_live=is_in_progress(note),
    )


@Page("GET", f"{ROOT}/{{id}}/edit", Action.MANAGE_NOTES)
async def ask_for_edit(visit: Visit) -> Response:
    return await _edit_form(visit, {})


@Page("POST", f"{ROOT}/{{id}}/edit", Action.MANAGE_NOTES, max_form_bytes=512 * 1024)
async def edit_note(visit: Visit) -> Response:
    """Save every changed text of the form at once; a refused form comes back as it was sent."""
    use, who, note_id = visit.use.by_hand, visit.signed_in, visit.path_id("note")
    await visit.use.reads.find_note(who, note_id)
    try:
        seen = datetime.fromisoformat(text) if (text := visit.form.get("seen", "")) else None
        days, no_days = _read_days(visit)
        wanted = read_corrections(visit.form, days)
    except ValueError:
        return await _edit_form(visit, {FORM: visit.text("The form cannot be read. Load it again.")})
    if no_days:
        return await _edit_form(visit, no_days)
    _record, errors = await apply(visit, lambda sent: use.edit_note(who, note_id, wanted, seen, sent))
    return await _edit_form(visit, errors) if errors else see_other(f"{ROOT}/{note_id}?done=note_edited")


def read_corrections(form: Mapping[str, str], days: Mapping[int, date]) -> edits.Corrections:
    """Read the texts of a form, with the days of its tasks; raises `ValueError`."""
    owners, dues = _places(form, "owner"), _places(form, "due")
    tasks = {
        place: edits.TaskTexts(text, owners.get(place, ""), dues.get(place, ""), days.get(place))
        for place, text in _places(form, "task").items()
    }
    new_task = tasks.pop(_NEW, edits.TaskTexts())
    decisions = _places(form, "decision")
    new_decision = decisions.pop(_NEW, "")
    speakers = _places(form, "speaker")
    return edits.Corrections(form.get("summary"), decisions, tasks, speakers, new_decision, new_task)


_NEW: Final = -1
"""The place of an entry that is added: `task-new`."""


def _places(form: Mapping[str, str], name: str) -> dict[int, str]:
    """Return the fields `name-0`, `name-1` and so on by their numbers."""
    named = {key.removeprefix(f"{name}-"): text for key, text in form.items() if key.startswith(f"{name}-")}
    return {_NEW if place == "new" else int(place): text for place, text in named.items()}


def _read_days(visit: Visit) -> tuple[dict[int, date], dict[str, str]]:
    """Return the days of the form's tasks by place, and the errors of fields that are no day."""
    days: dict[int, date] = {}
    errors: dict[str, str] = {}
    for place, text in _places(visit.form, "due_on").items():
        try:
            if text:
                days[place] = date.fromisoformat(text)
        except ValueError:
            errors[f"due_on-{'new' if place == _NEW else place}"] = visit.text("Write the day as YYYY-MM-DD.")
    return days, errors


async def _edit_form(visit: Visit, errors: Mapping[str, str]) -> Response:
    found = await _completed(visit)
    note = found.note
    seen = "" if note.edited_at is None else note.edited_at.isoformat()
    return visit.form_page(
        "edit_note.html",
        errors,
        note=note,
        draft=note.draft,
        title=visit.text("Notes") if found.meeting is None else found.meeting.title,
        speakers=edits.speakers_of(note.transcript)[:MAX_SPEAKERS],
        values={"seen": seen} | dict(visit.form),
        form_key=visit.new_form_key(),
    )


async def _completed(visit: Visit) -> NoteDetails:
    found = await visit.use.reads.find_note(visit.signed_in, visit.path_id("note"))
    if found.note.status is not NoteStatus.COMPLETED or found.note.draft is None:
        raise NotFound("This note is not complete.")
    return found


def player_of(visit: Visit, recording: recordings.Recording | None) -> Player:
    """Build the player of a recording; without parts in a view, or where its files are gone."""
    if recording is None or visit.is_view:
        return Player((), (0.0,))
    links = visit.use.by_hand.api.download_recording.links(recording, visit.now)
    if not links:
        return Player((), (0.0,))
    lengths = [one.sound.media_s or 0.0 for one in recordings.segments(recording)]
    # As a path: the page's policy lets media come from its own origin alone.
    urls = [urlsplit(download_url("", link)) for link in links]
    return Player([f"{url.path}?{url.query}" for url in urls], list(accumulate(lengths[:-1], initial=0.0)))


def _found_lines(note: Note, words: str) -> list[_Line]:
    """Return the utterances in which words stand, marked; all of them without words."""
    lines = [
        _Line(one.at_s, mark_words(one.speaker or "", words), mark_words(one.text, words))
        for one in note.transcript
    ]
    return [line for line in lines if not words or "<mark>" in line.speaker + line.text]


def note_state(visit: Visit, note: Note) -> tuple[str, str]:
    """Describe the state of a note: its text, and the kind of its mark."""
    return visit.mark(NOTE_STATES[note.status])
