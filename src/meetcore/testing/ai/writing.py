"""What the stand-in writes: JSON by the schema of the request, out of the utterances of the conversation.

It finds the utterances as any reader of the messages finds them: lines of a user's message that are JSON
arrays of a number, a speaker and a text. A schema that a strict endpoint would refuse is refused.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

__all__ = ["SchemaRefused", "Utterance", "check_schema", "utterances_in", "written"]

_MATTERS: Final = {
    "decisions": re.compile(r"diputuskan|sepakat|setuju|decided|agreed", re.IGNORECASE),
    "action_items": re.compile(r"tolong|akan|please|will\b", re.IGNORECASE),
}


class SchemaRefused(Exception):
    """A strict endpoint does not take this schema; the text says why."""


@frozen
class Utterance:
    """An utterance as it stands in a prompt."""

    number: int
    speaker: str | None
    text: str


def check_schema(schema: Mapping[str, Any]) -> None:
    """Hold a schema against the rules of strict mode.

    Raises:
        SchemaRefused: an object does not require all of its properties, or admits others.
    """
    if schema.get("type") != "object":
        raise SchemaRefused("the root must be of type object")
    for each in (schema, *schema.get("$defs", {}).values()):
        names = set(each.get("properties", {}))
        if each.get("additionalProperties") is not False:
            raise SchemaRefused("'additionalProperties' is required to be supplied and to be false")
        if set(each.get("required", ())) != names:
            raise SchemaRefused("'required' must name every key in properties")


def utterances_in(messages: list[Any]) -> list[Utterance]:
    """The utterances in the user's messages of a conversation."""
    texts = [str(each.get("content", "")) for each in messages if each.get("role") == "user"]
    return [
        utterances for content in texts for line in content.split("\n") for utterances in _utterances(line)
    ]


def written(schema: Mapping[str, Any], utterances: list[Utterance]) -> dict[str, Any]:
    """An object by a schema. It is made of what was said, so that its quotes stand there."""
    definitions = schema.get("$defs", {})
    return {name: _value(name, rule, definitions, utterances) for name, rule in schema["properties"].items()}


def _value(
    name: str, rule: Mapping[str, Any], definitions: Mapping[str, Any], utterances: list[Utterance]
) -> Any:
    if "$ref" in rule:
        rule = definitions[str(rule["$ref"]).rpartition("/")[2]]
    kinds = {str(each.get("type")) for each in rule.get("anyOf", [rule])}
    first = utterances[0] if utterances else Utterance(0, None, "Rapat berlangsung.")
    if "null" in kinds:
        return first.speaker if name == "owner" else None
    if "array" in kinds:
        about = [each for each in utterances if name not in _MATTERS or _MATTERS[name].search(each.text)]
        return [_value("", rule["items"], definitions, [each]) for each in about[:5]]
    if "object" in kinds:
        return {key: _value(key, each, definitions, utterances) for key, each in rule["properties"].items()}
    if "integer" in kinds:
        return first.number
    return " ".join(each.text for each in utterances[:3]) if name == "summary" and utterances else first.text


def _utterances(line: str) -> Iterator[Utterance]:
    try:
        value = json.loads(line)
    except ValueError:
        return
    match value:
        case [int() as number, (str() | None) as speaker, str() as text]:
            yield Utterance(number, speaker, text)
