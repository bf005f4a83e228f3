"""Corrections of a completed note by its customer, any number at once; the first ones keep the original.

A quote is what was said: it stays. An empty decision or task is removed; a new one has no quote.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final, TypeVar

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, InvalidRequest, NotFound
from meetcore.domain.notes.notes import ActionItem, Decision, Note, NoteDraft, NoteStatus, Original
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.texts import TextLimits

SUMMARY: Final = TextLimits(20_000, 1, has_lines=True)
ITEM: Final = TextLimits(1000)
_NEW: Final = TextLimits(ITEM.max_length, 1)
NAME: Final = TextLimits(200, 1)
WORDS: Final = TextLimits(200)

Item = TypeVar("Item")


def _trim(text: str) -> str:
    return text.strip()


def _line(text: str) -> str:
    return " ".join(text.split())


def _lines(text: str | None) -> str | None:
    return None if text is None else text.replace("\r\n", "\n").strip()


@frozen
class TaskTexts:
    """The texts and the day of a task."""

    task: str = field(default="", converter=_line)
    owner: str = field(default="", converter=_trim)
    due: str = field(default="", converter=_trim)
    due_on: date | None = None


_NO_TASK: Final = TaskTexts()


@frozen
class Corrections:
    """Other texts of a note; what is not named stays, and so does a text that is equal but for blanks.

    Decisions, tasks and speakers are named by their places, counted from 0; speakers in the order of
    `speakers_of`. A speaker gets another name in the transcript, as the owner of tasks, and in the texts that
    were written with the old one; a decision or task that is word for word what was said keeps it. A new
    decision and a new task are added behind the others; empty ones are none.
    """

    summary: str | None = field(default=None, converter=_lines)
    decisions: Mapping[int, str] = field(factory=dict)
    tasks: Mapping[int, TaskTexts] = field(factory=dict)
    speakers: Mapping[int, str] = field(factory=dict)
    new_decision: str = field(default="", converter=_line)
    new_task: TaskTexts = _NO_TASK


def correct(note: Note, wanted: Corrections, seen: datetime | None, at: datetime) -> Note:
    """Correct a note that was last edited at `seen`; unchanged where the corrections say the same.

    Raises:
        NotFound: the note is not complete, or has no such decision, task or speaker.
        Conflict: it was edited after `seen`.
        InvalidRequest: a changed text is too long, empty where it must not be, or has control characters.
    """
    if note.status is not NoteStatus.COMPLETED or note.draft is None:
        raise NotFound("This note is not complete.")
    if note.edited_at != seen:
        raise Conflict("These notes were changed meanwhile. Load them again.", note.id)
    speakers = speakers_of(note.transcript)
    changes = _changes(note.draft, speakers, wanted)
    if changes == Corrections():
        return note
    if problems := _problems(changes):
        raise InvalidRequest(problems)
    names = {speakers[place]: name for place, name in changes.speakers.items()}
    return evolve(
        note,
        draft=_corrected(note.draft, changes, names),
        transcript=tuple(evolve(one, speaker=_renamed(one.speaker, names)) for one in note.transcript),
        original=note.original or Original(note.draft, note.transcript),
        edited_at=at,
    )


def changed_parts(before: Note, after: Note) -> tuple[str, ...]:
    """Return the names of the parts in which two states of a note differ."""
    old, new = before.draft, after.draft
    names = [
        name for name in ("summary", "decisions", "action_items") if getattr(old, name) != getattr(new, name)
    ]
    return (*names, *(["speakers"] if before.transcript != after.transcript else ()))


def speakers_of(transcript: Transcript) -> tuple[str, ...]:
    """Return the names of the speakers, in the order in which they spoke first."""
    return tuple(dict.fromkeys(one.speaker for one in transcript if one.speaker))


def _changes(draft: NoteDraft, speakers: Sequence[str], wanted: Corrections) -> Corrections:
    decisions = {place: _line(text) for place, text in wanted.decisions.items()}
    names = {place: name.strip() for place, name in wanted.speakers.items()}
    return Corrections(
        None if wanted.summary == _lines(draft.summary) else wanted.summary,
        _differing([_line(one.text) for one in draft.decisions], decisions),
        _differing([_texts_of(one) for one in draft.action_items], wanted.tasks),
        _differing([name.strip() for name in speakers], names),
        wanted.new_decision,
        wanted.new_task,
    )


def _texts_of(one: ActionItem) -> TaskTexts:
    return TaskTexts(one.task, one.owner or "", one.due or "", one.due_on)


def _differing(present: Sequence[Item], wanted: Mapping[int, Item]) -> dict[int, Item]:
    if not all(0 <= place < len(present) for place in wanted):
        raise NotFound("No such decision, task or speaker in this note.")
    return {place: item for place, item in wanted.items() if item != present[place]}


def _problems(changes: Corrections) -> dict[str, list[str]]:
    """Return every problem by the name of its text: `summary`, one like `decision-0`, or `decision-new`."""
    texts = {} if changes.summary is None else {"summary": (changes.summary, SUMMARY)}
    texts |= {f"decision-{place}": (text, ITEM) for place, text in changes.decisions.items()}
    texts["decision-new"] = (changes.new_decision, ITEM)
    for place, one in changes.tasks.items():
        texts |= _texts_with_limits(str(place), one, ITEM)
    if changes.new_task != _NO_TASK:
        texts |= _texts_with_limits("new", changes.new_task, _NEW)
    texts |= {f"speaker-{place}": (name, NAME) for place, name in changes.speakers.items()}
    return {name: found for name, (text, limits) in texts.items() if (found := limits.problems(text))}


def _texts_with_limits(place: str, one: TaskTexts, limits: TextLimits) -> dict[str, tuple[str, TextLimits]]:
    return {
        f"task-{place}": (one.task, limits),
        f"owner-{place}": (one.owner, WORDS),
        f"due-{place}": (one.due, WORDS),
    }


def _corrected(draft: NoteDraft, changes: Corrections, names: Mapping[str, str]) -> NoteDraft:
    """Replace and add texts, then replace the names of speakers."""
    decisions = [
        evolve(one, text=changes.decisions.get(place, one.text)) for place, one in enumerate(draft.decisions)
    ]
    decisions.append(Decision(changes.new_decision, "", 0.0))
    items = [_with_texts(one, changes.tasks.get(place)) for place, one in enumerate(draft.action_items)]
    items.append(_with_texts(ActionItem("", "", 0.0), changes.new_task))
    return evolve(
        draft,
        summary=_with_names(draft.summary if changes.summary is None else changes.summary, names),
        decisions=tuple(
            one if one.is_verbatim else evolve(one, text=_with_names(one.text, names))
            for one in decisions
            if one.text
        ),
        action_items=tuple(
            evolve(
                one,
                task=one.task if one.is_verbatim else _with_names(one.task, names),
                owner=_owners(one.owner, names),
            )
            for one in items
            if one.task
        ),
    )


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """Replace whole names in a text; a new name that stands in it already stays as it is."""
    if not names:
        return text
    replaced = {name: name for name in names.values()} | dict(names)
    # Backwards, so that a name stands before its own beginning.
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(replaced, reverse=True)))})(?!\w)"
    return re.sub(pattern, lambda found: replaced[found[0]], text)


def _with_texts(one: ActionItem, texts: TaskTexts | None) -> ActionItem:
    if texts is None:
        return one
    return evolve(one, task=texts.task, owner=texts.owner or None, due=texts.due or None, due_on=texts.due_on)


def _owners(owner: str | None, names: Mapping[str, str]) -> str | None:
    """Rename the owner of a task, or those of several (`Rudi, Dewi`) who are named so."""
    if owner is None or owner in names:
        return _renamed(owner, names)
    return ", ".join(names.get(one, one) for one in owner.split(", "))


def _renamed(name: str | None, names: Mapping[str, str]) -> str | None:
    return name and names.get(name, name)
