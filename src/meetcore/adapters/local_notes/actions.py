"""Write the action items that the model finds: who has what to do, and by when.

The owner is chosen among those who are named, who speak, and who spoke before or answer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from meetcore.adapters.local_notes.due_phrases import due_in, without_due
from meetcore.adapters.local_notes.lexicon import is_mechanics, words_of
from meetcore.adapters.local_notes.model import OWNER, Model, total
from meetcore.adapters.local_notes.reading import Meeting, Reading, Token
from meetcore.domain.notes.notes import ActionItem

_MOST_NAMES: Final = 5

Owner = tuple[str, ...]
Features = dict[Owner, list[str]]


def owner_of(meeting: Meeting, at: int, model: Model) -> Owner:
    """Return the names of those who have the task of a sentence; none where it is open."""
    found = candidates(meeting, at)
    return max(found, key=lambda owner: total(model[OWNER], found[owner]))


def candidates(meeting: Meeting, at: int) -> Mapping[Owner, Sequence[str]]:
    """Return all who can have a task, and the empty choice, with the features that speak for them."""
    one = meeting.readings[at]
    speaker = one.sentence.speaker
    found: Features = {(): ["none", *_with("none", one), *(f"none^{name}" for name in one.names[:1])]}
    named = [(place, token) for place, token in enumerate(one.tokens) if token.owner]
    if speaker:
        mine = found.setdefault(
            (speaker,), ["me", *_with("me", one), *(f"me^{name}" for name in one.names[:1])]
        )
        mine += [] if named else ["me alone"]
        mine += [
            each for place, name in enumerate(one.names) if name == "ME" for each in _around("me", one, place)
        ]
    for order, (place, token) in enumerate(named):
        features = found.setdefault((token.owner or "",), [])
        features += [token.name, f"{order and 'later'}", f"{len(named) - 1 - order and 'before others'}"]
        features += [*_around("is", one, place), *_with("is", one), *_with(token.name, one)]
    for run in _groups(one, speaker):
        features = found.setdefault(tuple(dict.fromkeys(run.values()))[:_MOST_NAMES], [])
        features += _grouped(one, list(run))
        for name in run.values():
            found.setdefault((name,), []).append("in a group")
    _add_turns(meeting, at, found, alone=not named)
    _add_neighbours(meeting, at, found, alone=not named)
    return found


def _with(who: str, one: Reading) -> Iterator[str]:
    yield from (f"{who}&{flag}" for flag in one.flags)


def _around(who: str, one: Reading, place: int) -> list[str]:
    """Return the words before and after a name."""
    padded = ["^^", "^", *one.names, "$", "$$"]
    first, before, _, after, last = padded[place : place + 5]
    return [
        f"{who}<{before}", f"{who}>{after}", f"{who}>>{after} {last}", f"{who}<<{first} {before}",
        f"{who}<>{before} {after}", f"{who}>_{last}",
    ]  # fmt: skip


def _groups(one: Reading, speaker: str | None) -> Iterator[dict[int, str]]:
    """Yield people that are joined ("Rudi dan Dewi", "gue sama Rio"), by the places of their names."""
    run: dict[int, str] = {}
    people: list[tuple[int, str]] = []
    for place, token in enumerate(one.tokens):
        owner = token.owner or (speaker if token.name == "ME" else None)
        if owner is None:
            continue
        if run and not _joined(one.tokens[max(run) + 1 : place]):
            if len(run) > 1:
                yield run
            run = {}
        if not run and token.owner and place and one.tokens[place - 1].word in words_of("with") and people:
            yield {people[-1][0]: people[-1][1], place: owner}
        people.append((place, owner))
        run[place] = owner
    if len(run) > 1:
        yield run


def _joined(between: Sequence[Token]) -> bool:
    return 0 < len(between) < 3 and all(token.word in words_of("joins") for token in between)


def _grouped(one: Reading, places: Sequence[int]) -> list[str]:
    padded = ["^", *one.names, "$"]
    link = padded[places[0] + 2]
    before, after = padded[places[0]], padded[places[-1] + 2]
    return [
        *("group", *_with("group", one), f"group:{link}", f"group<{before}", f"group>{after}"),
        *(f"group of {len(places)}", f"{'^' if places[0] == 0 else ''}group:{link}"),
    ]


def _add_turns(meeting: Meeting, at: int, found: Features, *, alone: bool) -> None:
    """Add who spoke before and who speaks next; `alone`: the sentence names no one else."""
    one = meeting.readings[at]
    for step in (-2, -1, 1, 2):
        turn = meeting.turn(at, step)
        speaker = turn[0].sentence.speaker if turn else None
        if not speaker or speaker == one.sentence.speaker:
            continue
        nearest = turn[0] if step > 0 else turn[-1]
        features = found.setdefault((speaker,), [])
        features += [f"{step}", *_with(f"{step}", one), *(["alone " + str(step)] if alone else [])]
        if abs(step) == 1:
            features += [f"{step}!{flag}" for flag in nearest.flags]
            features += [f"{step}:{name}" for name in nearest.names[:2]]
            features += [f"alone {each}" for each in _with(f"{step}", one)] if alone else []
            features += [f"alone {step}:{name}" for name in nearest.names[:1]] if alone else []


def _add_neighbours(meeting: Meeting, at: int, found: Features, *, alone: bool) -> None:
    """Add who is named in the same turn, before the sentence or after it."""
    turn = meeting.turns[meeting.turn_of[at]]
    for other in turn[max(0, at - turn[0] - 3) : at - turn[0] + 3]:
        side = "earlier" if other < at else "afterwards"
        tokens = meeting.readings[other].tokens if other != at else ()
        for place, token in enumerate(tokens):
            if token.owner:
                is_called = place == 0 or (
                    place + 1 < len(tokens) and not tokens[place + 1].word[0].isalnum()
                )
                features = found.setdefault((token.owner,), [])
                features += [side, f"{side} called {is_called}", *_with(side, meeting.readings[at])]
                features += [f"alone {side} called {is_called}"] if alone else []


_MARKS: Final = " \t\n,;:.!?…\"'"
_TAIL: Final = re.compile(
    r",?\s+(?:ya|yah|dong|deh|please|pak|bu|oke|okay|thanks|terima\s+kasih|latest|at\s+the\s+latest)$",
    re.IGNORECASE,
)
_LEADING: Final = frozenset(
    {"OK", "SO", "DEAL", "ASK", "CAN", "MUST", "SOON", "YANG", "YOU", "DUE", ",", ":", "."}
)
_ONLY_DUE: Final = re.compile(
    r"[\s,.!]*(?:(?:ya|kalau\s+bisa|deadline(?:nya)?|tenggat(?:nya)?|ditunggu|maksimal|harus|selesai|sudah|oke|please|ready"
    r"|done|pak|bu|thanks)[\s,.!:]*)*+",
    re.IGNORECASE,
)


def actions_in(meeting: Meeting, scores: Sequence[float], model: Model) -> Iterator[tuple[int, ActionItem]]:
    """Yield the action items with the numbers of their sentences."""
    for at, one in enumerate(meeting.readings):
        text = one.sentence.text
        if scores[at] <= 0 or is_mechanics(text):
            continue
        owner = owner_of(meeting, at, model)
        due = due_in(text) or _due_after(meeting, at)
        task = _task(one, owner) or text
        yield (
            at,
            ActionItem(task[0].upper() + task[1:], text, one.sentence.at_s, ", ".join(owner) or None, due),
        )


def _task(one: Reading, owner: Owner) -> str:
    """Return a sentence without its owner, what leads to the task, and a due date at the end."""
    tokens = list(one.tokens)
    while len(tokens) > 1 and _leads(one, tokens[0].name, tokens[0].word, tokens[0].owner, owner):
        del tokens[0]
    text = one.sentence.text[tokens[0].begin :] if tokens else ""
    return _TAIL.sub("", without_due(text).strip(_MARKS)).strip(_MARKS)


def _leads(one: Reading, name: str, word: str, named: str | None, owner: Owner) -> bool:
    is_owner = named in owner or (name == "ME" and one.sentence.speaker in owner)
    return is_owner or name in _LEADING or word in words_of("leading")


def _due_after(meeting: Meeting, at: int) -> str | None:
    """Return the due date in the next sentence of the same turn, if that says nothing else."""
    if at + 1 == len(meeting.readings) or meeting.turn_of[at + 1] != meeting.turn_of[at]:
        return None
    text = meeting.readings[at + 1].sentence.text
    due = due_in(text)
    return due if due is not None and _ONLY_DUE.fullmatch(text.replace(due, "", 1)) else None
