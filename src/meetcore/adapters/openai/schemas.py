"""The shape of what the model writes: one set of classes that makes the schema and reads the answer.

Owns both, so that they cannot differ. An answer of the right shape is checked by `drafts`.
"""

from typing import Any, TypeVar

import msgspec
from attrs import field, frozen

T = TypeVar("T", bound="WrittenSummary")


class WrongShape(Exception):
    """An answer of another shape; the text names the place and not the value."""


@frozen
class WrittenDecision:
    """A decision as the model gives it."""

    text: str = field(repr=False)
    utterance: int
    quote: str = field(repr=False)


@frozen
class WrittenAction:
    """An action item as the model gives it."""

    task: str = field(repr=False)
    owner: str | None = field(repr=False)
    due: str | None = field(repr=False)
    utterance: int
    quote: str = field(repr=False)


@frozen
class WrittenSummary:
    """What the parts of a long meeting come to."""

    summary: str = field(repr=False)
    topics: list[str] = field(repr=False)


@frozen
class WrittenNotes(WrittenSummary):
    """Notes on a transcript, or on a part of one."""

    decisions: list[WrittenDecision]
    action_items: list[WrittenAction]


def schema_of(kind: type[WrittenSummary]) -> dict[str, Any]:
    """The schema of a shape as strict endpoints want it: every field required, no other admitted."""
    _, definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["additionalProperties"] = False
        definition.pop("title", None)
        definition.pop("description", None)
    root: dict[str, Any] = definitions.pop(kind.__name__)
    return {**root, "$defs": definitions} if definitions else root


def read(content: str, kind: type[T]) -> T:
    """Decode an answer; text around the JSON object, such as a fence, is ignored.

    Raises:
        WrongShape: the answer has another shape, or is empty.
    """
    begin, end = content.find("{"), content.rfind("}")
    if begin < 0 or end < begin:
        raise WrongShape("it holds no JSON object")
    try:
        written = msgspec.json.decode(content[begin : end + 1].encode("utf-8", "replace"), type=kind)
    except msgspec.ValidationError as error:
        raise WrongShape(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WrongShape("it is not valid JSON") from None
    if not written.summary.strip():
        raise WrongShape("summary is empty - at `$.summary`")
    return written
