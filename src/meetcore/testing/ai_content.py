"""The content of the AI stand-in's responses: transcripts by the length of a sound, notes by a schema.

A sound is as long as its file, whatever the request says. Each segment of five seconds names its position, so
that a caller that joins pieces can prove that no second is lost. Notes are made of the utterances in the
prompt, which are lines of a user's message that are JSON arrays of a number, a speaker and a text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

_SEGMENT_S: Final = 5.0
_BOUNDARY: Final = re.compile(r'boundary="?([^";]+)')
_NAME: Final = re.compile(r'[; ]name="([^"]*)"')
_FILE_NAME: Final = re.compile(r'[; ]filename="([^"]*)"')
_TOPICS: Final = {
    "decisions": re.compile(r"diputuskan|sepakat|setuju|decided|agreed", re.IGNORECASE),
    "action_items": re.compile(r"tolong|akan|please|will\b", re.IGNORECASE),
}


@frozen
class Form:
    """A multipart form: its fields, and the content and name of its file."""

    fields: Mapping[str, str]
    file: bytes | None = field(repr=False)
    file_name: str = ""


def form_of(content_type: str, body: bytes) -> Form:
    """Parse a `multipart/form-data` body, byte for byte; any other is empty."""
    fields: dict[str, str] = {}
    file, file_name = None, ""
    boundary = _BOUNDARY.search(content_type)
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("latin-1")) if boundary else []
    for part in parts[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        disposition = head.decode("utf-8", "replace")
        name = _NAME.search(disposition)
        if name is None:
            continue
        if "filename=" not in disposition:
            fields[name[1]] = content.decode("utf-8", "replace")
        elif name[1] == "file":
            found = _FILE_NAME.search(disposition)
            file, file_name = content, found[1] if found else ""
    return Form(fields, file, file_name)


def segments(length_s: float) -> Iterator[dict[str, object]]:
    """Yield the segments of a sound, in the form of `verbose_json`."""
    number, at_s = 0, 0.0
    while at_s < length_s:
        yield {
            "id": number, "seek": 0, "start": round(at_s, 3),
            "end": round(min(at_s + _SEGMENT_S, length_s), 3),
            "text": f" Kalimat ke-{number + 1} dimulai pada detik {at_s:.0f}.", "tokens": [],
            "temperature": 0.0, "avg_logprob": -0.2, "compression_ratio": 1.1, "no_speech_prob": 0.01,
        }  # fmt: skip
        number, at_s = number + 1, at_s + _SEGMENT_S


class SchemaRefused(Exception):
    """The schema breaks a rule of strict mode; the text names it."""


@frozen
class _Utterance:
    number: int
    speaker: str | None
    text: str


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check a schema against the rules of strict mode; raise `SchemaRefused`."""
    if schema.get("type") != "object":
        raise SchemaRefused("the root must be of type object")
    for each in (schema, *schema.get("$defs", {}).values()):
        names = set(each.get("properties", {}))
        if each.get("additionalProperties") is not False:
            raise SchemaRefused("'additionalProperties' is required to be supplied and to be false")
        if set(each.get("required", ())) != names:
            raise SchemaRefused("'required' must name every key in properties")


def utterances_in(messages: list[Any]) -> list[_Utterance]:
    """Find the utterances in the user's messages of a conversation."""
    texts = [str(each.get("content", "")) for each in messages if each.get("role") == "user"]
    return [each for content in texts for line in content.split("\n") for each in _utterances(line)]


def _utterances(line: str) -> Iterator[_Utterance]:
    try:
        value = json.loads(line)
    except ValueError:
        return
    match value:
        case [int() as number, (str() | None) as speaker, str() as text]:
            yield _Utterance(number, speaker, text)


def written(schema: Mapping[str, Any], utterances: list[_Utterance]) -> dict[str, Any]:
    """Make an object by a schema, of the utterances, so that its quotes stand in them."""
    definitions = schema.get("$defs", {})
    return {name: _value(name, rule, definitions, utterances) for name, rule in schema["properties"].items()}


def _value(
    name: str, rule: Mapping[str, Any], definitions: Mapping[str, Any], utterances: list[_Utterance]
) -> Any:
    if "$ref" in rule:
        rule = definitions[str(rule["$ref"]).rpartition("/")[2]]
    kinds = {str(each.get("type")) for each in rule.get("anyOf", [rule])}
    first = utterances[0] if utterances else _Utterance(0, None, "Rapat berlangsung.")
    if "null" in kinds:
        return first.speaker if name == "owner" else None
    if "array" in kinds:
        about = [each for each in utterances if name not in _TOPICS or _TOPICS[name].search(each.text)]
        return [_value("", rule["items"], definitions, [each]) for each in about[:5]]
    if "object" in kinds:
        return {key: _value(key, each, definitions, utterances) for key, each in rule["properties"].items()}
    if "integer" in kinds:
        return first.number
    return " ".join(each.text for each in utterances[:3]) if name == "summary" and utterances else first.text
