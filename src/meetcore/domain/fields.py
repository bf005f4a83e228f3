"""Fields of requests and records: their meaning for schemas, their JSON form, types that records share."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from attrs import asdict, fields, frozen

from meetcore.domain.meetings.schedule import utc_text


@frozen
class FieldInfo:
    """A field's description, as in `Annotated[int, FieldInfo("Whole credits.")]`, for schemas and documents.

    `format` is a format of JSON Schema. `known_values` are the present ones: the type stays `str`, so that a
    reader accepts later ones. A field that `is_optional` is left out of a record where it is `None`.
    """

    description: str = ""
    examples: tuple[object, ...] = ()
    format: str = ""
    known_values: type[Enum] | None = None
    is_optional: bool = False


def as_json(record: Any) -> Mapping[str, object]:
    """Return a record as a JSON object; a mapping is returned unchanged."""
    if isinstance(record, Mapping):
        return record
    return asdict(record, value_serializer=_json_value)


def _json_value(_: object, __: object, value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


DURATION_UNIT: Final = "minutes"

Utc = Annotated[datetime, FieldInfo("RFC 3339 in UTC, whole seconds.")]
Id = Annotated[str, FieldInfo("A UUID.", format="uuid")]
Credits = Annotated[int, FieldInfo("Whole credits.")]

_R = TypeVar("_R")


def record_of(kind: Callable[..., _R], source: object, **others: object) -> _R:
    """Make a record of its source's fields of the same names, and of `others`, in their JSON form."""
    taken = {name: _shown(getattr(source, name)) for name in _names(kind) if name not in others}
    return kind(**taken, **others)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _shown(value: object) -> object:
    show = _FORMS.get(type(value))
    if show is not None:
        return show(value)
    return value.value if isinstance(value, Enum) else value


def in_utc(at: datetime) -> datetime:
    """Return an instant as records show it: in UTC, in whole seconds."""
    is_whole = at.tzinfo is UTC and not at.microsecond
    return at if is_whole else at.astimezone(UTC).replace(microsecond=0)


_FORMS: Mapping[type, Callable[[Any], object]] = {UUID: str, datetime: in_utc}


def shown_fields(source: object, *names: str) -> dict[str, object]:
    """Return some attributes of a record in this order, as both people and programs read them."""
    return {name: shown_value(getattr(source, name)) for name in names}


def shown_value(value: object) -> object:
    """Return a value as it stands in a line of JSON: text, numbers, `None`, and lists of them."""
    match value:
        case Enum():
            return value.value
        case UUID():
            return str(value)
        case datetime():
            return utc_text(value)
        case date():
            return value.isoformat()
        case tuple():
            return [shown_value(each) for each in value]
        case _:
            return value
