"""Decode untrusted bytes to a record, or to None.

A record is an attrs class whose fields are texts, whole numbers, booleans, dates, aware datetimes, JSON
objects, other records, tuples of these, or None. The shape is checked and unknown fields are ignored; a
missing field needs a default. The reason of a failure is dropped, because it would quote what may be secret.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import attrs

__all__ = ["converted", "decoded"]

T = TypeVar("T")
_Read = Callable[[object], object]
_RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_FAULTS: Final = (ValueError, TypeError, RecursionError)  # the last: JSON nested too deep


def decoded(body: bytes, into: type[T]) -> T | None:
    """Decode a record from JSON; None where there is none."""
    try:
        text = body.decode()
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)
        if "\\u" in text:  # half a pair of surrogates is no text
            json.dumps(value, ensure_ascii=False).encode()
        return cast(T, _reader(cast(object, into))(value))
    except _FAULTS:
        return None


def converted(data: Mapping[str, object], into: type[T]) -> T | None:
    """Convert a decoded JSON object to a record; None where it is none."""
    try:
        return cast(T, _reader(cast(object, into))(data))
    except _FAULTS:
        return None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("out of range")
    return number


def _refuse_constant(text: str) -> object:
    raise ValueError("not a number")


@cache
def _reader(kind: Any) -> _Read:
    """Return the reader of a type; it raises ValueError or TypeError for any other value."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional(kind, arguments)
    if origin is tuple:
        return _tuple(_reader(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _plain(dict)
    if attrs.has(origin or kind):
        return _record(origin or kind, arguments)
    return _READERS[kind]


def _optional(kind: object, members: tuple[Any, ...]) -> _Read:
    (inner,) = [each for each in members if each is not NoneType]
    if len(members) != 2:
        raise TypeError(f"{kind} is no optional type")
    read = _reader(inner)
    return lambda value: None if value is None else read(value)


def _tuple(read: _Read) -> _Read:
    def read_all(value: object) -> object:
        return tuple(map(read, cast(list[object], _list(value))))

    return read_all


def _record(kind: type[attrs.AttrsInstance], arguments: tuple[Any, ...]) -> _Read:
    """Return the reader of a record; `arguments` are the parameters of a generic one."""
    parameters = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=True))
    hints = get_type_hints(kind)
    fields = [
        (each.name, _reader(_concrete(hints[each.name], parameters)), each.default is attrs.NOTHING)
        for each in attrs.fields(kind)
    ]

    def read(value: object) -> object:
        given = cast(Mapping[str, object], _object(value))
        if any(is_needed and name not in given for name, _, is_needed in fields):
            raise ValueError("a field is missing")
        return kind(**{name: reader(given[name]) for name, reader, _ in fields if name in given})

    return read


def _concrete(hint: Any, parameters: Mapping[object, object]) -> Any:
    """Replace the variables of a generic record's hint."""
    return hint[tuple(parameters.values())] if getattr(hint, "__parameters__", ()) else hint


def _plain(kind: type) -> _Read:
    def read(value: object) -> object:
        if type(value) is not kind:  # a bool is an int to Python, and is none here
            raise ValueError("another type")
        return value

    return read


_list, _object, _text = _plain(list), _plain(dict), _plain(str)


def _instant(value: object) -> object:
    text = cast(str, _text(value))
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError("not RFC 3339")
    return datetime.fromisoformat(text.upper())


def _day(value: object) -> object:
    return date.fromisoformat(cast(str, _text(value)))


_READERS: Final[Mapping[object, _Read]] = {
    str: _text,
    int: _plain(int),
    bool: _plain(bool),
    date: _day,
    datetime: _instant,
    Any: lambda value: value,
}
