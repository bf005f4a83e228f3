"""Notes: the list, and a reader with the recording beside it; as Markdown and as PDF to keep."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.api.links import download_url
from meetcore.adapters.web.files import send_file
from meetcore.adapters.web.filters import PAGE_SIZE, read_before
from meetcore.adapters.web.formats import format_offset
from meetcore.adapters.web.note_document import note_document
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import NOTE_STATES, _
from meetcore.adapters.web.visit import Visit
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action
from meetcore.domain.notes.markdown import markdown
from meetcore.domain.notes.notes import Note, NoteStatus
from meetcore.domain.notes.recordings import Recording, segments
from meetcore.ports.dashboard_queries import NoteDetails

ROOT: Final = "/dashboard/notes"


@frozen
class Moment:
    """A point in a recording: its text, its part, the second of that; `href` plays it without a script."""

    text: str
    part: int
    at_s: float
    href: str


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
    """A page of notes."""
    found = await visit.use.reads.list_notes(visit.signed_in, PAGE_SIZE + 1, read_before(visit))
    shown, untitled = found[:PAGE_SIZE], visit.text(_("Notes"))
    return visit.page(
        "notes.html",
        notes=[(each.note, note_state(visit, each.note), each.title or untitled) for each in shown],
        older=f"{ROOT}?before={shown[-1].note.id}" if len(found) > PAGE_SIZE else "",
        is_live=any(each.note.status in (NoteStatus.QUEUED, NoteStatus.PROCESSING) for each in shown),
    )


@Page("GET", f"{ROOT}/{{id}}.md", Action.VIEW_NOTES)
async def download_markdown(visit: Visit) -> Response:
    """The note as Markdown."""
    found = await _completed(visit)
    note, title = found.note, "" if found.meeting is None else found.meeting.title
    return send_file(markdown(note, title).encode(), f"notes-{note.id}.md", "text/markdown; charset=utf-8")


@Page("GET", f"{ROOT}/{{id}}.pdf", Action.VIEW_NOTES)
async def download_pdf(visit: Visit) -> Response:
    """The note as PDF."""
    found = await _completed(visit)
    made = await visit.use.printer.print_pdf(visit.signed_in.account.id, note_document(found))
    return send_file(made, f"notes-{found.note.id}.pdf", "application/pdf")


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_NOTES)
async def read_note(visit: Visit) -> Response:
    """A note for people to read."""
    found = await visit.use.reads.find_note(
        visit.signed_in, parse_id(visit.request.path_params["id"], "note")
    )
    note, player = found.note, player_of(visit, found.recording)
    is_done = note.status is NoteStatus.COMPLETED and note.draft is not None
    words = visit.query("q").strip()
    return visit.page(
        "note.html",
        note=note,
        draft=note.draft if is_done else None,
        title=visit.text(_("Notes")) if found.meeting is None else found.meeting.title,
        meeting=found.meeting,
        state=note_state(visit, note),
        player=player,
        transcript=_matching(note, words) if is_done else (),
        words=words,
        is_live=note.status in (NoteStatus.QUEUED, NoteStatus.PROCESSING),
    )


async def _completed(visit: Visit) -> NoteDetails:
    found = await visit.use.reads.find_note(
        visit.signed_in, parse_id(visit.request.path_params["id"], "note")
    )
    if found.note.status is not NoteStatus.COMPLETED or found.note.draft is None:
        raise NotFound("This note is not complete.")
    return found


def player_of(visit: Visit, recording: Recording | None) -> Player:
    """Where a recording is played from, by parts; without any in a view, or where its files are gone."""
    if recording is None or visit.is_view:
        return Player((), (0.0,))
    links = visit.use.by_hand.api.download_recording.links(recording, visit.now)
    if not links:
        return Player((), (0.0,))
    lengths = [one.sound.media_s or 0.0 for one in segments(recording)]
    # As a path: the page's policy lets media come from its own origin alone.
    urls = [urlsplit(download_url("", link)) for link in links]
    return Player([f"{url.path}?{url.query}" for url in urls], list(accumulate(lengths[:-1], initial=0.0)))


def _matching(note: Note, words: str) -> Sequence[object]:
    found = words.casefold()
    return [one for one in note.transcript if found in f"{one.speaker or ''} {one.text}".casefold()]


def note_state(visit: Visit, note: Note) -> tuple[str, str]:
    """How a note stands, as a text and the kind of its mark."""
    label, kind = NOTE_STATES[note.status]
    return visit.text(label), kind


def _note_id(visit: Visit) -> UUID:
    return parse_id(visit.request.path_params["id"], "note")
