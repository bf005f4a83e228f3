"""Score the local note writer on labelled transcripts: `python -m tests.support.note_scores [-v] FOLDER`.

A transcript is one JSON file::

    {"name": "...", "kind": "formal", "day": "2026-11-02", "utterances": [["Speaker", "text"], ...],
     "decisions": [{"utterance": 17, "sentence": "..."}],
     "actions": [{"utterance": 30, "sentence": "...", "owners": ["Rudi"], "due": "tgl 5",
                  "due_on": "2026-11-05"}]}

A decision that is taken back later has no label. A label is found where an item quotes its sentence, or
another of its utterance. Owners and due dates count out of all labelled actions: one that was not found has
neither.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import field, frozen

from meetcore.adapters.local_notes.writer import _draft
from meetcore.adapters.public_holidays import HolidaysCalendar
from meetcore.domain.notes.due_dates import with_due_dates
from meetcore.domain.notes.notes import ActionItem, Decision, Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript, Utterance

SECONDS_APART: Final = 5.0
_TITLES: Final = frozenset(
    ("pak", "bu", "bapak", "ibu", "mas", "mbak", "kak", "bang", "bung", "mr", "mrs", "ms", "dr")
)
Item = TypeVar("Item", Decision, ActionItem)


@frozen
class Label:
    """What a person found in a transcript."""

    utterance: int
    sentence: str
    owners: frozenset[str] = frozenset()
    due: str | None = None
    due_on: date | None = None


@frozen
class Meeting:
    """A transcript with its labels."""

    name: str
    kind: str
    day: date
    transcript: Transcript
    decisions: Sequence[Label]
    actions: Sequence[Label]


@frozen
class Score:
    """Counts over one or more transcripts; `misses` and `false` are lines to read."""

    name: str
    decisions: int = 0
    decisions_found: int = 0
    actions: int = 0
    actions_found: int = 0
    owners_right: int = 0
    dues_right: int = 0
    reported: int = 0
    misses: tuple[str, ...] = field(default=(), repr=False)
    false: tuple[str, ...] = field(default=(), repr=False)


def load(file: Path) -> Meeting:
    """Read a labelled transcript."""
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    transcript = tuple(
        Utterance(at * SECONDS_APART, (at + 1) * SECONDS_APART, text, speaker)
        for at, (speaker, text) in enumerate(content["utterances"])
    )
    decisions, actions = ([_label(each) for each in content[kind]] for kind in ("decisions", "actions"))
    name, kind, day = content["name"], content["kind"], date.fromisoformat(content["day"])
    return Meeting(name, kind, day, transcript, decisions, actions)


def _label(content: dict[str, Any]) -> Label:
    due_on = content.get("due_on")
    return Label(
        content["utterance"],
        content["sentence"],
        _names(content.get("owners") or ()),
        content.get("due"),
        None if due_on is None else date.fromisoformat(due_on),
    )


def draft_of(meeting: Meeting) -> NoteDraft:
    """Write the notes of a meeting."""
    draft = _draft(meeting.transcript, Language.INDONESIAN)
    return with_due_dates(draft, meeting.day, asyncio.run(HolidaysCalendar().holidays_from(meeting.day)))


def score(file: Path) -> Score:
    """Compare the notes of a labelled transcript with its labels."""
    meeting = load(file)
    draft = draft_of(meeting)
    decided, false_decisions = _matched(meeting.decisions, draft.decisions)
    done, false_actions = _matched(meeting.actions, draft.action_items)
    misses = [f"decision {each.utterance}: {each.sentence}" for each, item in decided if item is None]
    misses += [line for each, action in done for line in _misses(each, action)]
    found = [(each, action) for each, action in done if action is not None]
    false = [f"decision: {item.quote}" for item in false_decisions]
    false += [f"action: {item.quote}" for item in false_actions]
    return Score(
        meeting.name,
        decisions=len(decided),
        decisions_found=sum(item is not None for _, item in decided),
        actions=len(done),
        actions_found=len(found),
        owners_right=sum(_is_owner_right(*pair) for pair in found),
        dues_right=sum(_is_due_right(*pair) for pair in found),
        reported=len(draft.decisions) + len(draft.action_items),
        misses=tuple(misses),
        false=tuple(false),
    )


def _misses(label: Label, action: ActionItem | None) -> Iterator[str]:
    if action is None:
        yield f"action {label.utterance}: {label.sentence}"
        return
    if not _is_owner_right(label, action):
        yield f"owner {label.utterance}: {sorted(label.owners)} not {action.owner}: {label.sentence}"
    if not _is_due_right(label, action):
        due = f"{label.due} {label.due_on} not {action.due} {action.due_on}"
        yield f"due {label.utterance}: {due}: {label.sentence}"


def _matched(
    labels: Sequence[Label], items: Sequence[Item]
) -> tuple[list[tuple[Label, Item | None]], list[Item]]:
    """Return each label with its item, preferably one that quotes its sentence, and the items of no label."""
    matched: list[tuple[Label, Item | None]] = []
    used: set[int] = set()
    for label in labels:
        fitting = [at for at, item in enumerate(items) if _place(item) == label.utterance]
        fitting.sort(key=lambda at: (not _overlaps(items[at].quote, label.sentence), at in used, at))
        used.update(fitting[:1])
        matched.append((label, items[fitting[0]] if fitting else None))
    places = {label.utterance for label in labels}
    return matched, [item for item in items if _place(item) not in places]


def _place(item: Decision | ActionItem) -> int:
    return round(item.at_s / SECONDS_APART)


def _overlaps(one: str, other: str) -> bool:
    return one in other or other in one


def _names(names: Iterable[str]) -> frozenset[str]:
    words = ([word for word in re.findall(r"\w+", name.casefold()) if word not in _TITLES] for name in names)
    return frozenset(" ".join(each) for each in words)


def _is_owner_right(label: Label, action: ActionItem) -> bool:
    return _names(action.owner.split(", ") if action.owner else ()) == label.owners


def _is_due_right(label: Label, action: ActionItem) -> bool:
    if action.due_on != label.due_on:
        return False
    if label.due is None or action.due is None:
        return label.due == action.due
    return _overlaps(label.due.casefold(), action.due.casefold())


def total(scores: Sequence[Score]) -> Score:
    """Sum scores."""
    return Score(
        "all",
        decisions=sum(each.decisions for each in scores),
        decisions_found=sum(each.decisions_found for each in scores),
        actions=sum(each.actions for each in scores),
        actions_found=sum(each.actions_found for each in scores),
        owners_right=sum(each.owners_right for each in scores),
        dues_right=sum(each.dues_right for each in scores),
        reported=sum(each.reported for each in scores),
        misses=tuple(line for each in scores for line in each.misses),
        false=tuple(line for each in scores for line in each.false),
    )


def table(scores: Sequence[Score]) -> str:
    """Format scores as a Markdown table, with their sum."""
    lines = ["| transcript | decisions | actions | owners | due dates | false |", "|---|---|---|---|---|---|"]
    for each in (*scores, total(scores)):
        cells = (
            (each.decisions_found, each.decisions),
            (each.actions_found, each.actions),
            (each.owners_right, each.actions),
            (each.dues_right, each.actions),
            (len(each.false), each.reported),
        )
        shown = " | ".join(f"{count}/{of} ({count / max(of, 1):.0%})" for count, of in cells)
        lines.append(f"| {each.name} | {shown} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Print the table of a folder; with `-v` what was missed and what was false, too."""
    (folder,) = (each for each in arguments if not each.startswith("-"))
    scores = [score(file) for file in sorted(Path(folder).glob("*.json"))]
    print(table(scores))
    if "-v" in arguments:
        for each in scores:
            print(f"\n# {each.name}", *each.misses, *(f"FALSE {line}" for line in each.false), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
