"""Write the action items that the model finds: who has what to do, and by when."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from meetcore.adapters.local_notes.due_phrases import due_in, without_due
from meetcore.adapters.local_notes.lexicon import words_of
from meetcore.adapters.local_notes.mechanics import is_mechanics
from meetcore.adapters.local_notes.model import Model
from meetcore.adapters.local_notes.owners import Owner, owner_of
from meetcore.adapters.local_notes.reading import Meeting, Reading
from meetcore.domain.notes.notes import ActionItem

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
