"""Types of fields that several records have, and the fields that a record takes over from its source."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from attrs import fields

from meetcore.domain.field_info import FieldInfo

__all__ = ["DURATION_UNIT", "Credits", "Id", "Utc", "in_utc", "record_of"]

DURATION_UNIT: Final = "minutes"

Utc = Annotated[datetime, FieldInfo("RFC 3339 in UTC, whole seconds.")]
Id = Annotated[str, FieldInfo("A UUID.", format="uuid")]
Credits = Annotated[int, FieldInfo("Whole credits.")]

R = TypeVar("R")


def record_of(kind: Callable[..., R], source: object, **others: object) -> R:
    """Make a record of what its source has under the same names, and of the other fields as they are given.

    Ids become texts, enums their values, instants those in UTC.
    """
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
    """Return an instant as records show it: in UTC, its fraction of a second cut off."""
    is_whole = at.tzinfo is UTC and not at.microsecond
    return at if is_whole else at.astimezone(UTC).replace(microsecond=0)


_FORMS: Mapping[type, Callable[[Any], object]] = {UUID: str, datetime: in_utc}
