"""Score the local note writer on labelled transcripts: `python -m tests.support.note_scores [-v] FOLDER`.

A transcript is a text file: a head, an empty line, then a line for each utterance, with the labels in place::

    kind: formal
    day: 2026-11-02

    Bu Ratna: Baik. {D: Rapat bulan depan diadakan di Bogor.}
    Bu Ratna: {A|Rudi, Dewi|tgl 5|2026-11-05: Rudi sama Dewi tolong pesan hotelnya tgl 5.}

`D` is a decision, `A` an action item with its owners, due words and due date, each of which may be empty. A
sentence can have two labels, one within the other.

A decision that is taken back later has no label. A label is found where an item quotes its sentence, or
another of its utterance. Owners and due dates count out of all labelled actions: one that was not found has
neither.
"""

import asyncio
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import cycle
from pathlib import Path
from typing import Final, TypeVar

from attrs import evolve, field, frozen

from meetcore.adapters.local_notes.model import Model, shipped
from meetcore.adapters.local_notes.writer import draft_by
from meetcore.adapters.public_holidays import HolidaysCalendar
from meetcore.domain.notes.due_dates import with_due_dates
from meetcore.domain.notes.notes import ActionItem, Decision, Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript, Utterance

SECONDS_APART: Final = 5.0
LOOSE: Final = "sentences"
"""The kind of a file whose utterances do not belong together."""
_TITLES: Final = frozenset(
    ("pak", "bu", "bapak", "ibu", "mas", "mbak", "kak", "bang", "bung", "mr", "mrs", "ms", "dr")
)
_LABEL: Final = re.compile(
    r"\{(?P<kind>D|A\|(?P<owners>[^|{}]*)\|(?P<due>[^|{}]*)\|"
    r"(?P<due_on>[^|{}:]*)): *(?P<sentence>[^{}]*?) *\}"
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
    head, _, body = file.read_text(encoding="utf-8").partition("\n\n")
    about = dict(line.split(": ", 1) for line in head.splitlines())
    utterances: list[Utterance] = []
    decisions: list[Label] = []
    actions: list[Label] = []
    for at, line in enumerate(body.splitlines()):
        speaker, text = line.split(": ", 1)
        while found := _LABEL.search(text):
            label = _label(at, found)
            (decisions if found["owners"] is None else actions).append(label)
            text = text[: found.start()] + label.sentence + text[found.end() :]
        utterances.append(Utterance(at * SECONDS_APART, (at + 1) * SECONDS_APART, text, speaker))
    day = date.fromisoformat(about["day"])
    return Meeting(file.stem, about["kind"], day, tuple(utterances), decisions, actions)


def _label(at: int, found: re.Match[str]) -> Label:
    owners = (name.strip() for name in (found["owners"] or "").split(","))
    return Label(
        at,
        found["sentence"],
        names_of(name for name in owners if name),
        found["due"] or None,
        date.fromisoformat(found["due_on"]) if found["due_on"] else None,
    )


def excerpts(meeting: Meeting, lengths: Sequence[int]) -> Iterator[Meeting]:
    """Yield a meeting in pieces of so many utterances, in turn."""
    begin, sizes = 0, cycle(lengths)
    while begin < len(meeting.transcript):
        end = begin + next(sizes)
        spoken = meeting.transcript[begin:end]
        moved = (evolve(one, at_s=at * SECONDS_APART) for at, one in enumerate(spoken))
        decisions, actions = (
            [evolve(one, utterance=one.utterance - begin) for one in labels if begin <= one.utterance < end]
            for labels in (meeting.decisions, meeting.actions)
        )
        yield evolve(meeting, transcript=tuple(moved), decisions=decisions, actions=actions)
        begin = end


def draft_of(meeting: Meeting, model: Model | None = None) -> NoteDraft:
    """Write the notes of a meeting, by the weights of the package unless others are given."""
    draft = draft_by(model or shipped(), meeting.transcript, Language.INDONESIAN)
    return with_due_dates(draft, meeting.day, asyncio.run(HolidaysCalendar().holidays_from(meeting.day)))


def score(meeting: Meeting, model: Model | None = None) -> Score:
    """Compare the notes of a labelled transcript with its labels."""
    draft = draft_of(meeting, model)
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


def names_of(names: Iterable[str]) -> frozenset[str]:
    """Return names in small letters, without titles."""
    words = ([word for word in re.findall(r"\w+", name.casefold()) if word not in _TITLES] for name in names)
    return frozenset(" ".join(each) for each in words)


def _is_owner_right(label: Label, action: ActionItem) -> bool:
    return names_of(action.owner.split(", ") if action.owner else ()) == label.owners


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


def show(scores: Iterable[Score]) -> None:
    """Print what was missed and what was false."""
    for each in scores:
        print(f"\n# {each.name}", *each.misses, *(f"FALSE {line}" for line in each.false), sep="\n")


def main(arguments: Sequence[str]) -> None:
    """Print the table of a folder; with `-v` what was missed and what was false, too."""
    (folder,) = (each for each in arguments if not each.startswith("-"))
    scores = [score(load(file)) for file in sorted(Path(folder).glob("*.txt"))]
    print(table(scores))
    if "-v" in arguments:
        show(scores)


if __name__ == "__main__":
    main(sys.argv[1:])
