"""Query parameters other than paging: the filters of a list and the options of an operation.

Owns how such a parameter is read and described. Knows no operation.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import read_instant

_INSTANT = "RFC 3339 with an offset, or YYYY-MM-DD for 00:00 WIB of that day."


@frozen
class Filter:
    """A parameter that narrows a list, or chooses how something is done.

    `read` turns its text into a value and raises ValueError with the problem. `schema` and `description`
    document it for callers, `in_url` explains its encoding in a URL.
    """

    read: Callable[[str], object]
    schema: Mapping[str, object]
    description: str
    in_url: str = ""


def one_of(values: Mapping[str, str], description: str) -> Filter:
    """Create a parameter that takes one of some values, by their names in the API."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return values[text]

    return Filter(read, {"type": "string", "enum": list(values)}, description)


def flag(description: str) -> Filter:
    """Create a boolean parameter, `true` or `false`."""

    def read(text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError("must be true or false")
        return text == "true"

    return Filter(read, {"type": "boolean"}, description)


def whole_number(least: int, most: int, description: str) -> Filter:
    """Create a parameter for a whole number within bounds."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not (is_number and least <= int(text) <= most):
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return Filter(read, {"type": "integer", "minimum": least, "maximum": most}, description)


def record_id(description: str) -> Filter:
    """Create a parameter for a record id; a text that is no id matches nothing."""

    def read(text: str) -> UUID:
        if not text:
            raise ValueError("must be an id")
        try:
            return parse_id(text, "record")
        except NotFound:
            return UUID(int=0)

    return Filter(read, {"type": "string", "minLength": 1}, description)


def instant(description: str) -> Filter:
    """Create a parameter for an instant, or for a day, which means its beginning in WIB."""
    forms = [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]
    return Filter(read_instant, {"anyOf": forms}, f"{description} {_INSTANT}", "Write + as %2B.")
