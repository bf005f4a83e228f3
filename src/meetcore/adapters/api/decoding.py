"""Bytes to bodies: strict JSON, and every problem of every field at once.

cattrs structures a body from its fields, msgspec checks the type of each.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs
import msgspec
from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.errors import AttributeValidationNote
from cattrs.gen import make_dict_structure_fn, override

from meetcore.adapters.api import bodies, wire_types
from meetcore.domain.errors import InvalidRequest

MAX_DEPTH = 32

Body = TypeVar("Body")
Structure = Callable[[dict[str, Any], Any], Any]

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS_IN_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_JSON_NAMES = {
    "str": "a string",
    "bool": "a boolean",
    "int": "an integer",
    "float": "a number",
    "array": "an array",
}
_PYTHON_NAMES = re.compile(r"\b(?:str|bool|int|float|array)\b")
_UNKNOWN_FIELD = "is not a field of this operation"
_MALFORMED = "must be a JSON object in UTF-8 (RFC 8259) without lone surrogates"
_OUT_OF_RANGE = "must not have a number out of range (beyond 1e308)"
_CONVERTER = Converter()


class _InvalidField(ValueError):
    """A value that its field refuses, and why."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(*problems)
        self.problems = problems


def decode_json(raw: bytes) -> Any:
    """Read UTF-8 JSON nested at most 32 deep, without NaN, each name once; else raise `InvalidRequest`."""
    try:
        value = msgspec.json.decode(raw)
        # msgspec keeps the last of two values. Numbers are not converted: only names are looked at.
        _UNIQUE_NAMES.decode(raw.decode())
    except RecursionError:
        raise _body_problem(f"must not be nested deeper than {MAX_DEPTH}") from None
    except msgspec.ValidationError:  # the only one where no type is asked for
        raise _body_problem(_OUT_OF_RANGE) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _body_problem(_MALFORMED) from None
    if _depth_exceeds(value, MAX_DEPTH):
        raise _body_problem(f"must not be nested deeper than {MAX_DEPTH}")
    return value


def whole(value: Any) -> Any:
    """Return 60 for 60.0: an integer to JSON Schema 2020-12 (6.1.1); anything else is returned unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise InvalidRequest(
            {
                wire_types.shown_name(name): ["must be given once"]
                for name, count in counts.items()
                if count > 1
            }
        )
    return found


_UNIQUE_NAMES = json.JSONDecoder(object_pairs_hook=_unique, parse_int=str, parse_float=str)


def decode_body(value: Any, body: Callable[..., Body] | bodies.OneOfBody) -> Body:
    """Turn a JSON value into a request body; raise `InvalidRequest` with every problem of every field."""
    if not isinstance(value, dict):
        raise _body_problem("must be a JSON object")
    if isinstance(body, bodies.OneOfBody):
        body = _chosen(value, body)
    try:
        return _structure(body)(value, body)  # type: ignore[no-any-return]
    except ClassValidationError as error:
        raise InvalidRequest(dict(_problems(error, value, body))) from None


@cache
def _structure(body: Any) -> Structure:
    """Build the function that makes a body of a JSON object."""
    names = wire_types.body_fields(body)
    hooks: dict[str, Any] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for attribute in attrs.fields(body):
        if attribute.name in names:
            hooks[attribute.name] = override(struct_hook=_reader(names[attribute.name]))
        else:
            groups[attribute.name] = tuple(wire_types.body_fields(attribute.type))
            hooks[attribute.name] = override(struct_hook=_structure(attribute.type))
    structure = make_dict_structure_fn(body, _CONVERTER, _cattrs_forbid_extra_keys=True, **hooks)
    return _grouped(structure, groups) if groups else structure


def _grouped(structure: Structure, groups: Mapping[str, tuple[str, ...]]) -> Structure:
    """Let some fields of the object be read as one value; a field of that value's name is unknown in it."""
    inner = {name for names in groups.values() for name in names}

    def read(value: dict[str, Any], body: Any) -> Any:
        outer = {name: given for name, given in value.items() if name not in inner}
        for group, names in groups.items():
            outer[group] = {name: value[name] for name in (*names, group) if name in value}
        return structure(outer, body)

    return read


def _reader(field: wire_types.BodyField) -> Callable[[Any, Any], Any]:
    """Build the function that reads the value of one field."""
    controls = _CONTROLS_IN_LINES if field.has_lines else _CONTROLS

    def read(given: Any, _: Any) -> Any:
        given = whole(given)
        for rule in field.rules:
            if problems := rule.problems(given):
                raise _InvalidField(problems)
        value, problems = None, []
        try:
            value = msgspec.convert(given, field.kind)
        except msgspec.ValidationError as error:
            problems.append(_reworded(str(error), field.kind))
        if isinstance(given, str) and controls.search(given):
            problems.append("must not contain control characters")
        if problems:
            raise _InvalidField(problems)
        return value

    return read


def _problems(
    error: ClassValidationError, value: Mapping[str, Any], body: Any
) -> Iterator[tuple[str, list[str]]]:
    for each in error.exceptions:
        match each:
            case ForbiddenExtraKeysError():
                advice: Mapping[str, str] = getattr(body, "NOT_HERE", {})
                for name in value:
                    if name in each.extra_fields:
                        yield wire_types.shown_name(name), [advice.get(name, _UNKNOWN_FIELD)]
            case ClassValidationError():
                yield from _problems(each, value, body)
            case _InvalidField():
                yield _field_of(each), each.problems
            case KeyError():
                yield _field_of(each), ["is required"]
            case _:
                raise each


def _field_of(error: Exception) -> str:
    return next(note.name for note in error.__notes__ if isinstance(note, AttributeValidationNote))


def _chosen(value: dict[str, Any], choice: bodies.OneOfBody) -> Any:
    """Return the body class a value names; if it names none, report fields unknown to every class too."""
    tag = value.get(choice.tag)
    if isinstance(tag, str) and tag in choice.bodies:
        return choice.bodies[tag]
    known = {name for body in choice.bodies.values() for name in wire_types.body_fields(body)}
    problems = {wire_types.shown_name(name): [_UNKNOWN_FIELD] for name in value if name not in known}
    problem = f"must be one of {', '.join(choice.bodies)}" if choice.tag in value else "is required"
    raise InvalidRequest(problems | {choice.tag: [problem]})


def _body_problem(problem: str) -> InvalidRequest:
    return InvalidRequest({"body": [problem]}, f"The body {problem}.")


def _depth_exceeds(value: Any, limit: int) -> bool:
    # Level by level, so that the check itself cannot overflow the stack.
    level = [value]
    for _ in range(limit + 1):
        level = [
            item
            for node in level
            if isinstance(node, dict | list)
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _reworded(message: str, kind: Any) -> str:
    """Rephrase msgspec's message as "must be …", with JSON's type names and without its path."""
    wording, _, place = message.partition(" - at `$")
    inner = place.rstrip("`").strip("[].")
    if wording.startswith("Invalid enum value"):
        wording = f"one of {', '.join(_values(kind))}"
    wording = wording.removeprefix("Expected ").replace("`", "").replace(" | ", " or ")
    problem = f"must be {_PYTHON_NAMES.sub(lambda found: _JSON_NAMES[found[0]], wording)}"
    return f"{problem} (item {inner})" if inner and inner != "..." else problem


@cache
def _values(kind: Any) -> tuple[str, ...]:
    """Return the values of the enums and literals in a field's type, in definition order."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(each.value) for each in kind)
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    return tuple(value for part in get_args(kind) for value in _values(part))
