"""Corrections of a completed note by its customer, one at a time; the first one keeps the original.

A quote is what was said: it stays. An empty decision or task is taken out of the note.
"""

from collections.abc import Callable
from datetime import date, datetime
from typing import Final, TypeVar

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, InvalidRequest, NotFound
from meetcore.domain.notes.notes import ActionItem, Note, NoteDraft, NoteStatus, Original
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.texts import TextLimits

SUMMARY: Final = TextLimits(20_000, 1, has_lines=True)
ITEM: Final = TextLimits(1000)
NAME: Final = TextLimits(200, 1)
WORDS: Final = TextLimits(200)

Item = TypeVar("Item")


@frozen
class SummaryEdit:
    """Another summary."""

    text: str


@frozen
class DecisionEdit:
    """Another text of the decision at this place, counted from 0."""

    place: int
    text: str


@frozen
class TaskEdit:
    """Another text, owner and day of the task at this place, counted from 0."""

    place: int
    text: str
    owner: str = ""
    due: str = ""
    due_on: date | None = None


@frozen
class SpeakerEdit:
    """Another name of a speaker, in the transcript and as the owner of tasks."""

    was: str
    name: str


Edit = SummaryEdit | DecisionEdit | TaskEdit | SpeakerEdit


def correct(note: Note, edit: Edit, seen: datetime | None, at: datetime) -> Note:
    """Correct a note that was last edited at `seen`; unchanged where the edit says the same.

    Raises:
        NotFound: the note is not complete, or has no such decision, task or speaker.
        Conflict: it was edited after `seen`.
        InvalidRequest: a text is too long, empty where it must not be, or has control characters.
    """
    if note.status is not NoteStatus.COMPLETED or note.draft is None:
        raise NotFound("This note is not complete.")
    if note.edited_at != seen:
        raise Conflict("These notes were changed meanwhile. Load them again.", note.id)
    draft, transcript = _edited(note.draft, note.transcript, edit)
    if (draft, transcript) == (note.draft, note.transcript):
        return note
    original = note.original or Original(note.draft, note.transcript)
    return evolve(note, draft=draft, transcript=transcript, original=original, edited_at=at)


def speakers_of(transcript: Transcript) -> tuple[str, ...]:
    """Return the names of the speakers, in the order in which they spoke first."""
    return tuple(dict.fromkeys(one.speaker for one in transcript if one.speaker))


def _edited(draft: NoteDraft, transcript: Transcript, edit: Edit) -> tuple[NoteDraft, Transcript]:
    if isinstance(edit, SpeakerEdit):
        return _renamed(draft, transcript, edit.was, edit.name.strip())
    if isinstance(edit, SummaryEdit):
        text = edit.text.replace("\r\n", "\n").strip()
        _check(text=(text, SUMMARY))
        return evolve(draft, summary=text), transcript
    if isinstance(edit, TaskEdit):
        return evolve(draft, action_items=_with_task(draft, edit)), transcript
    text = " ".join(edit.text.split())
    _check(text=(text, ITEM))
    decisions = _replaced(draft.decisions, edit.place, lambda one: evolve(one, text=text) if text else None)
    return evolve(draft, decisions=decisions), transcript


def _with_task(draft: NoteDraft, edit: TaskEdit) -> tuple[ActionItem, ...]:
    text, owner, due = " ".join(edit.text.split()), edit.owner.strip(), edit.due.strip()
    _check(text=(text, ITEM), owner=(owner, WORDS), due=(due, WORDS))

    def change(one: ActionItem) -> ActionItem | None:
        changed = evolve(one, task=text, owner=owner or None, due=due or None, due_on=edit.due_on)
        return changed if text else None

    return _replaced(draft.action_items, edit.place, change)


def _renamed(draft: NoteDraft, transcript: Transcript, was: str, name: str) -> tuple[NoteDraft, Transcript]:
    if was not in speakers_of(transcript):
        raise NotFound("No such speaker in this note.")
    _check(text=(name, NAME))
    items = tuple(evolve(one, owner=name) if one.owner == was else one for one in draft.action_items)
    said = tuple(evolve(one, speaker=name) if one.speaker == was else one for one in transcript)
    return evolve(draft, action_items=items), said


def _replaced(items: tuple[Item, ...], place: int, change: Callable[[Item], Item | None]) -> tuple[Item, ...]:
    if not 0 <= place < len(items):
        raise NotFound("No such decision or task in this note.")
    changed = change(items[place])
    return (*items[:place], *(() if changed is None else (changed,)), *items[place + 1 :])


def _check(**texts: tuple[str, TextLimits]) -> None:
    problems = {name: found for name, (text, limits) in texts.items() if (found := limits.problems(text))}
    if problems:
        raise InvalidRequest(problems)
