"""Bytes to bodies: strict JSON, and every problem of every field at once.

The fast way decodes the whole; only when that fails is each field looked at by itself. Text is
checked for what no field may hold. Owns the texts of the problems; rules that need more than the body are not
checked here.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import msgspec

from meetcore.adapters.api.bodies import OneOfBody
from meetcore.domain.errors import InvalidRequest
from meetcore.domain.meetings.schedule import meeting_start
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url

__all__ = ["MAX_DEPTH", "decode_body", "decode_json"]

MAX_DEPTH = 32

Body = TypeVar("Body")

_LINE_TEXT_FIELDS = frozenset({"description"})
_ALLOWED_IN_TEXT = frozenset("\t\n\r")
_JSON_NAMES = {
    "str": "a string",
    "bool": "a boolean",
    "int": "an integer",
    "float": "a number",
    "array": "an array",
}
_PYTHON_NAMES = re.compile(r"\b(?:str|bool|int|float|array)\b")
_UNKNOWN_FIELD = "is not a field of this operation"
_MALFORMED = "must be a JSON object in UTF-8 (RFC 8259)"


def decode_json(raw: bytes) -> Any:
    """Read a body as JSON.

    Raises:
        InvalidRequest: not JSON, NaN or infinity, not UTF-8, or nested deeper than 32.
    """
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise _body_problem(f"must not be nested deeper than {MAX_DEPTH}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _body_problem(_MALFORMED) from None
    if _depth_exceeds(value, MAX_DEPTH):
        raise _body_problem(f"must not be nested deeper than {MAX_DEPTH}")
    return value


def decode_body(value: Any, body: Callable[..., Body] | OneOfBody) -> Body:
    """Turn a JSON value into a request body.

    Raises:
        InvalidRequest: names every field that is missing, unknown, of a wrong type or breaks a rule.
    """
    if not isinstance(value, dict):
        raise _body_problem("must be a JSON object")
    if isinstance(body, OneOfBody):
        body = _chosen(value, body)
    value = {name: _whole(given) for name, given in value.items()}
    try:
        decoded: Body | None = msgspec.convert(value, body)
    except msgspec.ValidationError:
        decoded = None
    problems = {} if decoded is not None else _type_problems(value, body)
    for name, field_value in value.items():
        if name not in _fields(body):
            problems[_shown(name)] = [_unknown(name, body)]
        elif name not in problems and (found := _text_problems(name, field_value)):
            problems[name] = found
    problems |= _rule_problems(value, body)  # with the rule's own text, if it has one
    if problems or decoded is None:
        raise InvalidRequest(problems)
    return decoded


def _chosen(value: dict[str, Any], choice: OneOfBody) -> Any:
    """Return the body class a value names; if it names none, report fields unknown to every class too."""
    tag = value.get(choice.tag)
    if isinstance(tag, str) and tag in choice.bodies:
        return choice.bodies[tag]
    known = {name for body in choice.bodies.values() for name in _fields(body)}
    problems = {_shown(name): [_UNKNOWN_FIELD] for name in value if name not in known}
    problem = f"must be one of {', '.join(choice.bodies)}" if choice.tag in value else "is required"
    raise InvalidRequest(problems | {choice.tag: [problem]})


def _whole(given: Any) -> Any:
    """60.0 is the integer 60 (JSON Schema 2020-12, 6.1.1); no field is a number with a fraction."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


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


@cache
def _fields(body: Any) -> Mapping[str, tuple[Any, bool]]:
    """Each field's type and whether it is required."""
    hints = get_type_hints(body, include_extras=True)
    return {field.name: (hints[field.name], field.default is attrs.NOTHING) for field in attrs.fields(body)}


def _type_problems(value: dict[str, Any], body: Any) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for name, (kind, is_required) in _fields(body).items():
        if name not in value:
            if is_required:
                problems[name] = ["is required"]
            continue
        # A holder class of this one field, so that UNSET stays legal where the field allows it.
        try:
            msgspec.convert({"value": value[name]}, _holder(kind))
        except msgspec.ValidationError as error:
            problems[name] = [_reworded(str(error), kind)]
    return problems


@cache
def _holder(kind: Any) -> type:
    return msgspec.defstruct("Holder", [("value", kind)])


def _reworded(message: str, kind: Any) -> str:
    """Rephrase msgspec's message as "must be …", with JSON's type names and without its path."""
    wording, _, place = message.partition(" - at `$.value")
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


def _text_problems(name: str, value: Any) -> list[str]:
    allowed = _ALLOWED_IN_TEXT if name in _LINE_TEXT_FIELDS else frozenset()
    if isinstance(value, str) and not value.isprintable():
        for char in value:
            if char not in allowed and (
                char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"
            ):
                return ["must not contain control characters"]
    return []


def _unknown(name: str, body: Any) -> str:
    """Return the problem of an unknown field, with the body class's own text if it has one."""
    advice: Mapping[str, str] = getattr(body, "NOT_HERE", {})
    return advice.get(name, _UNKNOWN_FIELD)


def _shown(name: str) -> str:
    """Make an unknown field's name safe to send back."""
    return name[:100].encode("ascii", "backslashreplace").decode()


def _rule_problems(value: dict[str, Any], body: Any) -> dict[str, list[str]]:
    """Return the problems of rules that need a field's meaning, for the fields present."""
    problems: dict[str, list[str]] = {}
    fields = _fields(body)
    for name, rule in _RULES.items():
        if name in fields and name in value:
            problems |= rule(value)
    return problems


def _date_problems(value: dict[str, Any]) -> dict[str, list[str]]:
    day, time = value.get("date"), value.get("start_time", "00:00")
    return _refused(lambda: meeting_start(_text(day), _text(time)), "date")


def _time_problems(value: dict[str, Any]) -> dict[str, list[str]]:
    return _refused(lambda: meeting_start("2000-01-01", _text(value.get("start_time"))), "start_time")


def _url_problems(value: dict[str, Any]) -> dict[str, list[str]]:
    url = value["url"]
    return _refused(lambda: parse_webhook_url(url), "url") if isinstance(url, str) else {}


def _event_type_problems(value: dict[str, Any]) -> dict[str, list[str]]:
    kinds = value["event_types"]
    texts = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    known = [kind.value for kind in EventKind]
    problems = []
    if unknown := [kind for kind in texts if kind not in known]:
        problems.append(f"does not know {_shown(unknown[0])!r}; there are: {', '.join(known)}")
    if len(set(texts)) < len(texts):
        problems.append("must not name an event kind twice")
    return {"event_types": problems} if problems else {}


def _refused(check: Callable[[], object], name: str) -> dict[str, list[str]]:
    try:
        check()
    except InvalidRequest as error:
        fields = error.details["fields"]
        return {name: fields[name]} if isinstance(fields, dict) and name in fields else {}
    return {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_RULES: Mapping[str, Callable[[dict[str, Any]], dict[str, list[str]]]] = {
    "date": _date_problems,
    "start_time": _time_problems,
    "url": _url_problems,
    "event_types": _event_type_problems,
}
