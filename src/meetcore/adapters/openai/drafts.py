"""The JSON that the model writes: schema, parsing, and the checked note draft.

The same classes make the schema and parse the reply. A quote must occur in the transcript, or its item is
dropped; an owner or due date must occur there, or it is dropped from its item. Text is cleaned for storage
and display.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from attrs import field, frozen

from meetcore.domain.notes.notes import ActionItem, Decision, NoteDraft
from meetcore.domain.notes.transcripts import Transcript, find_citation, is_in_vocabulary, vocabulary

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
    """A decision by the model."""

    text: str = field(repr=False)
    utterance: int
    quote: str = field(repr=False)


@frozen
class WrittenAction:
    """An action item by the model."""

    task: str = field(repr=False)
    owner: str | None = field(repr=False)
    due: str | None = field(repr=False)
    utterance: int
    quote: str = field(repr=False)


@frozen
class WrittenSummary:
    """Summary and topics by the model."""

    summary: str = field(repr=False)
    topics: list[str] = field(repr=False)


@frozen
class WrittenNotes(WrittenSummary):
    """Notes on a transcript, or on a part of one."""

    decisions: list[WrittenDecision]
    action_items: list[WrittenAction]


def schema_of(kind: type[WrittenSummary]) -> dict[str, Any]:
    """Return the JSON schema as strict endpoints require it: every field required, no other admitted."""
    _, definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["additionalProperties"] = False
        definition.pop("title", None)
        definition.pop("description", None)
    root: dict[str, Any] = definitions.pop(kind.__name__)
    return {**root, "$defs": definitions} if definitions else root


def read(content: str, kind: type[T]) -> T:
    """Decode a reply, whatever is around its JSON object; raise `WrongShape`, also for an empty summary."""
    begin, end = content.find("{"), content.rfind("}")
    if begin < 0 or end < begin:
        raise WrongShape("no JSON object")
    try:
        written = msgspec.json.decode(content[begin : end + 1].encode("utf-8", "replace"), type=kind)
    except msgspec.ValidationError as error:
        raise WrongShape(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WrongShape("invalid JSON") from None
    if not written.summary.strip():
        raise WrongShape("summary is empty - at `$.summary`")
    return written


MOST_SUMMARY_CHARS: Final = 8_000
_MOST_ITEMS: Final = 200
_MOST_TOPICS: Final = 20
_MOST_CHARS: Final = 1_000
_MOST_NAME_CHARS: Final = 200


def draft_of(transcript: Transcript, parts: Sequence[WrittenNotes], whole: WrittenSummary) -> NoteDraft:
    """Assemble the note of numbered utterances from notes on its parts, in order, and a summary of all."""
    among = vocabulary(transcript)
    # Bounded before the search for quotes: a looping model may write thousands.
    decisions = (_decision(transcript, one) for part in parts for one in part.decisions[:_MOST_ITEMS])
    actions = (_action(transcript, among, one) for part in parts for one in part.action_items[:_MOST_ITEMS])
    return NoteDraft(
        summary=paragraphs(whole.summary, MOST_SUMMARY_CHARS),
        decisions=tuple(dict.fromkeys(one for one in decisions if one is not None))[:_MOST_ITEMS],
        action_items=tuple(dict.fromkeys(one for one in actions if one is not None))[:_MOST_ITEMS],
        topics=_topics(whole.topics),
    )


def _decision(transcript: Transcript, written: WrittenDecision) -> Decision | None:
    text = one_line(written.text, _MOST_CHARS)
    quote = find_citation(transcript, written.quote, written.utterance)
    return Decision(text, quote.text[:_MOST_CHARS], quote.at_s) if text and quote else None


def _action(transcript: Transcript, among: frozenset[str], written: WrittenAction) -> ActionItem | None:
    task = one_line(written.task, _MOST_CHARS)
    quote = find_citation(transcript, written.quote, written.utterance)
    if not task or quote is None:
        return None
    owner, due = (_transcript_text(value, among) for value in (written.owner, written.due))
    return ActionItem(task, quote.text[:_MOST_CHARS], quote.at_s, owner, due)


def _transcript_text(value: str | None, among: frozenset[str]) -> str | None:
    text = one_line(value or "", _MOST_NAME_CHARS)
    return text if is_in_vocabulary(text, among) else None


def _topics(written: Iterable[str]) -> tuple[str, ...]:
    topics = (one_line(topic, _MOST_NAME_CHARS) for topic in written)
    return tuple(dict.fromkeys(topic for topic in topics if topic))[:_MOST_TOPICS]
