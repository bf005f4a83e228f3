"""The prompts, and the parts of a transcript that they hold.

The transcript is data: it stands in the user message between two marks, one JSON array (number, speaker,
text) per line, in which no mark can stand, and the instructions say that none of it addresses the model. The
model cites utterances by number.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, TypedDict

from meetcore.adapters.openai import drafts
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.transcripts import Transcript

Part = tuple[str, ...]
"""Lines of a transcript that one call gets."""

SMALLEST_PART_CHARS: Final = 2_000
"""A smaller part is not halved."""
FENCE_CHARS: Final = len("<transcript></transcript>\n")
"""The marks around a part in a prompt, which belong to its length."""

_LONGEST_NAME: Final = 100
_NAMES: Final[Mapping[Language, str]] = MappingProxyType(
    {Language.INDONESIAN: "Indonesian (bahasa Indonesia)", Language.ENGLISH: "English"}
)

_REPAIRING: Final = (
    "That answer could not be used: {fault}. Give the whole answer again, as one JSON object by the schema "
    "and nothing else."
)

_BY_SCHEMA: Final = "\n\nAnswer with one JSON object by this JSON schema, and nothing else:\n{schema}"


@cache
def _text(name: str) -> str:
    """Return a prompt of `texts/`, with `{names}` of what is to be filled in."""
    return resources.files(__package__).joinpath("texts", f"{name}.txt").read_text("utf-8").rstrip("\n")


class Message(TypedDict):
    """A chat message."""

    role: str
    content: str


def parts_of(transcript: Transcript, most_chars: int) -> tuple[Part, ...]:
    """Split a transcript into parts of at most `most_chars`, between utterances where they are short."""
    parts: list[Part] = []
    part: list[str] = []
    size = 0
    for number, one in enumerate(transcript):
        speaker = drafts.one_line(one.speaker or "", _LONGEST_NAME) or None
        for line in _lines(number, speaker, drafts.one_line(one.text, len(one.text)), most_chars):
            if part and size + len(line) + 1 > most_chars:
                parts.append(tuple(part))
                part, size = [], 0
            part.append(line)
            size += len(line) + 1
    return (*parts, tuple(part)) if part else tuple(parts)


def halves_of(part: Part) -> tuple[Part, ...]:
    """Return two parts of about equal length; none where it is too small to be halved."""
    size = chars_of(part)
    if size < SMALLEST_PART_CHARS:
        return ()
    if len(part) == 1:
        number, speaker, text = json.loads(part[0])
        middle = _middle(text, len(text) // 2)
        return (_line(number, speaker, text[:middle].strip()),), (
            _line(number, speaker, text[middle:].strip()),
        )
    first, so_far = 0, 0
    while so_far + len(part[first]) // 2 < size // 2 and first < len(part) - 1:
        so_far += len(part[first]) + 1
        first += 1
    return part[: max(1, first)], part[max(1, first) :]


def chars_of(part: Part) -> int:
    """Return the length of a part."""
    return sum(len(line) + 1 for line in part)


def _lines(number: int, speaker: str | None, text: str, most_chars: int) -> Iterator[str]:
    """Yield an utterance, in several lines of the same number where it is too long for one."""
    while text:
        taken = len(text) if len(text) <= most_chars // 2 else _middle(text, most_chars // 2)
        while len(line := _line(number, speaker, text[:taken].strip())) >= most_chars and taken > 1:
            taken //= 2  # escapes make a line longer than its text
        yield line
        text = text[taken:].strip()


def _middle(text: str, most: int) -> int:
    """Return the place behind the last space among the first letters."""
    return text.rfind(" ", 0, most) + 1 or most


def _line(number: int, speaker: str | None, text: str) -> str:
    line = json.dumps([number, speaker, text], ensure_ascii=False, separators=(",", ":"))
    return line.replace("<", "\\u003c")


def writing(part: Part, language: Language, *, is_whole: bool) -> list[Message]:
    """Return the prompt for notes on a part."""
    portion = "the whole" if is_whole else "one part"
    data = _text("data").format(mark="transcript")
    instructions = _text("writing").format(language=_NAMES[language], portion=portion, data=data)
    return _conversation(instructions, "transcript", part)


def merging(parts: Sequence[drafts.WrittenNotes], language: Language, most_chars: int) -> list[Message]:
    """Return the prompt for one summary of several, each shortened if they exceed `most_chars` together."""
    share = max(1, most_chars // 2 // len(parts))
    lines = [json.dumps(part.summary[:share], ensure_ascii=False) for part in parts]
    size = 0
    for number, decision in drafts.numbered_decisions(parts):
        line = json.dumps([number, decision.text[:300]], ensure_ascii=False)
        size += len(line)
        if size > most_chars // 2:
            break
        lines.append(line)
    lines = [line.replace("<", "\\u003c") for line in lines]
    data = _text("data").format(mark="minutes")
    return _conversation(_text("merging").format(language=_NAMES[language], data=data), "minutes", lines)


def _conversation(instructions: str, mark: str, lines: Sequence[str]) -> list[Message]:
    fenced = "\n".join((f"<{mark}>", *lines, f"</{mark}>"))
    return [{"role": "system", "content": instructions}, {"role": "user", "content": fenced}]


def repairing(messages: list[Message], content: str, fault: str) -> list[Message]:
    """Return the conversation with a malformed reply and its error."""
    return [
        *messages,
        {"role": "assistant", "content": content},
        {"role": "user", "content": _REPAIRING.format(fault=fault)},
    ]


def with_schema(messages: list[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Return a conversation whose instructions hold the schema, for an endpoint that takes none."""
    instructions, *rest = messages
    content = instructions["content"] + _BY_SCHEMA.format(schema=json.dumps(schema))
    return [{"role": instructions["role"], "content": content}, *rest]
