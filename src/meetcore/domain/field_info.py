"""What a field of a request or record means, beside its type, and the JSON form of a record.

`Annotated[int, FieldInfo("Whole credits.")]`: schemas and documents are derived from it.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from attrs import asdict, frozen

__all__ = ["FieldInfo", "as_json"]


@frozen
class FieldInfo:
    """A field's description for people, and what its type does not say.

    `format` is a format of JSON Schema. `known_values` are those of today: the type stays `str`, so that a
    reader accepts later ones. A field that `is_optional` is left out of a record where it is None.
    """

    description: str = ""
    examples: tuple[object, ...] = ()
    format: str = ""
    known_values: type[Enum] | None = None
    is_optional: bool = False


def as_json(record: Any) -> Mapping[str, object]:
    """Return a record as a JSON object; one that is such an object already is returned as it is."""
    if isinstance(record, Mapping):
        return record
    return asdict(record, value_serializer=_json_value)


def _json_value(_: object, __: object, value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    return list(value) if isinstance(value, tuple) else value
