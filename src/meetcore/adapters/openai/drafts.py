"""The JSON that the model writes: schema, parsing, and the checked note draft.

The same classes make the schema and parse the reply. Models of self-hosted servers write reasoning before the
object and prose after it, leave fields out, and give numbers as text: the last object in the reply that fits
is taken. What the transcript does not bear out is dropped (`domain.notes.citations`). Text is cleaned for
storage and display.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from attrs import Factory, field, frozen

from meetcore.domain.notes.citations import Evidence
from meetcore.domain.notes.notes import NoteDraft
from meetcore.domain.notes.transcripts import Transcript

# Characters that cannot be stored, control a terminal or change the direction of text.
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_SPACES: Final = re.compile(r"[^\S\n]+")
_BREAKS: Final = re.compile(r" ?\n[ \n]*")


def one_line(text: str, most: int) -> str:
    """Return the text on one line, of at most `most` characters."""
    return " ".join(_UNSEEN.sub(" ", text).split())[:most].strip()


def paragraphs(text: str, most: int) -> str:
    """Return the text with its line breaks, at most two in a row."""
    spaced = _SPACES.sub(" ", _UNSEEN.sub(" ", text.replace("\r\n", "\n")))
    return (
        _BREAKS.sub(lambda found: "\n\n" if found[0].count("\n") > 1 else "\n", spaced).strip()[:most].strip()
    )


T = TypeVar("T", bound="WrittenSummary")


class WrongShape(Exception):
    """A reply of another shape; the text names the place, not the value."""


@frozen
class WrittenDecision:
    """A decision by the model; `reversed_at` is a later utterance that takes it back."""

    text: str = field(default="", repr=False)
    utterance: int = -1
    quote: str = field(default="", repr=False)
    reversed_at: int | None = None


@frozen
class WrittenAction:
    """An action item by the model."""

    task: str = field(default="", repr=False)
    owner: str | None = field(default=None, repr=False)
    due: str | None = field(default=None, repr=False)
    utterance: int = -1
    quote: str = field(default="", repr=False)


@frozen
class WrittenSummary:
    """Summary and topics by the model."""

    summary: str = field(repr=False)
    topics: list[str] = field(default=Factory(list), repr=False)


@frozen
class WrittenWhole(WrittenSummary):
    """A summary of several parts, and the numbers of decisions that a later part takes back."""

    reversed: list[int] = Factory(list)


@frozen
class WrittenNotes(WrittenSummary):
    """Notes on a transcript, or on a part of one."""

    decisions: list[WrittenDecision] = Factory(list)
    action_items: list[WrittenAction] = Factory(list)


def schema_of(kind: type[WrittenSummary]) -> dict[str, Any]:
    """Return the JSON schema as strict endpoints require it: every field required, no other admitted."""
    _, definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["additionalProperties"] = False
        definition["required"] = list(definition["properties"])
        definition.pop("title", None)
        definition.pop("description", None)
        for rule in definition["properties"].values():
            rule.pop("default", None)
    root: dict[str, Any] = definitions.pop(kind.__name__)
    return {**root, "$defs": definitions} if definitions else root


_json: Final = json.JSONDecoder(strict=False)
_MOST_OBJECTS: Final = 200
_LONGEST_REPLY: Final = 1_000_000
_INTEGER: Final = re.compile(r"-?\d{1,9}")
_END_OF_THOUGHT: Final = "</think>"
_SUMMARY: Final = '"summary"'


def read(content: str, kind: type[T]) -> T:
    """Decode the last object of a reply that fits, whatever is around it; raise `WrongShape` without one.

    A draft within the model's reasoning is none where notes follow it, readable or not.
    """
    found: T | None = None
    fault = "no JSON object with a summary"
    content = content[-_LONGEST_REPLY:]
    reply = content.rpartition(_END_OF_THOUGHT)[2]
    for value in _objects(reply if _SUMMARY in reply else content):
        try:
            fitting = msgspec.convert(_lenient(value), kind, strict=False)
        except msgspec.ValidationError as error:
            fault = str(error)
            continue
        if fitting.summary.strip():
            found = fitting
        else:
            fault = "summary is empty - at `$.summary`"
    if found is None:
        raise WrongShape(fault)
    return found


def _objects(content: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text that have a summary, in order, but for those within another."""
    at, tries = content.find("{"), 0
    while at >= 0 and tries < _MOST_OBJECTS:
        try:
            value, end = _json.raw_decode(content, at)
        except (ValueError, RecursionError):
            value, end = None, at + 1
        if isinstance(value, dict) and "summary" in value:
            yield value
        else:
            end = at + 1
        at, tries = content.find("{", end), tries + 1


def _lenient(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with absent lists for null, texts for other values, and numbers for text."""
    read_value = {name: each for name, each in value.items() if each is not None}
    if isinstance(topics := read_value.get("topics"), str):
        read_value["topics"] = topics.split(",")
    elif isinstance(topics, list):
        read_value["topics"] = [_text(topic) or "" for topic in topics]
    if isinstance(summary := read_value.get("summary"), list):
        read_value["summary"] = "\n\n".join(_text(each) or "" for each in summary)
    for name in ("decisions", "action_items"):
        if isinstance(items := read_value.get(name), list):
            read_value[name] = [_lenient_item(item) for item in items if isinstance(item, dict)]
    if isinstance(numbers := read_value.get("reversed"), list):
        read_value["reversed"] = [found for each in numbers if (found := _integer(each)) is not None]
    return read_value


def _lenient_item(item: dict[str, Any]) -> dict[str, Any]:
    texts = {name: _text(item.get(name)) for name in ("text", "task", "owner", "due", "quote")}
    numbers = {name: _integer(item.get(name)) for name in ("utterance", "reversed_at")}
    return {name: each for name, each in {**texts, **numbers}.items() if each is not None}


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(text for each in value if (text := _text(each)))
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _integer(value: object) -> int | None:
    found = _INTEGER.search(_text(value) or "")
    return int(found[0]) if found else None


MOST_SUMMARY_CHARS: Final = 8_000
_MOST_ITEMS: Final = 200
_MOST_TOPICS: Final = 20
_MOST_CHARS: Final = 1_000
_MOST_NAME_CHARS: Final = 200


def draft_of(transcript: Transcript, parts: Sequence[WrittenNotes], whole: WrittenSummary) -> NoteDraft:
    """Assemble the note of numbered utterances from notes on its parts, in order, and a summary of all."""
    evidence = Evidence(transcript)
    taken_back = set(whole.reversed) if isinstance(whole, WrittenWhole) else set()
    # Bounded before the search for quotes: a looping model may write thousands.
    written = [one for number, one in numbered_decisions(parts) if number not in taken_back]
    decisions = (
        evidence.decision(one_line(one.text, _MOST_CHARS), one.quote, one.utterance, one.reversed_at)
        for one in written
    )
    actions = (
        evidence.action_item(
            one_line(one.task, _MOST_CHARS), _name(one.owner), _name(one.due), one.quote, one.utterance
        )
        for part in parts
        for one in part.action_items[:_MOST_ITEMS]
    )
    return NoteDraft(
        summary=paragraphs(whole.summary, MOST_SUMMARY_CHARS),
        decisions=tuple(dict.fromkeys(one for one in decisions if one is not None))[:_MOST_ITEMS],
        action_items=tuple(dict.fromkeys(one for one in actions if one is not None))[:_MOST_ITEMS],
        topics=_topics(whole.topics),
    )


def numbered_decisions(parts: Sequence[WrittenNotes]) -> Iterator[tuple[int, WrittenDecision]]:
    """Yield the decisions of all parts, numbered for the model that sums them up."""
    yield from enumerate(one for part in parts for one in part.decisions[:_MOST_ITEMS])


def _name(value: str | None) -> str:
    return one_line(value or "", _MOST_NAME_CHARS)


def _topics(written: Iterable[str]) -> tuple[str, ...]:
    topics = (one_line(topic, _MOST_NAME_CHARS) for topic in written)
    return tuple(dict.fromkeys(topic for topic in topics if topic))[:_MOST_TOPICS]
