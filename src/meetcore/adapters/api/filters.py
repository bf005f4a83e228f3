"""What narrows a list: parameters of its query, each with the values that it takes.

Owns how a filter is read and how it is told. Refuses to know any list.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from attrs import frozen

from meetcore.domain.schedule import read_instant

__all__ = ["Filter", "instant", "one_of"]

_INSTANT = "RFC 3339 with an offset, or YYYY-MM-DD for 00:00 WIB of that day."


@frozen
class Filter:
    """A parameter that narrows a list.

    `read` turns its text into a value and raises ValueError with the problem. `schema` and `description` tell
    it to callers, `in_url` what to mind where it is written into a URL.
    """

    read: Callable[[str], object]
    schema: Mapping[str, object]
    description: str
    in_url: str = ""


def one_of(values: Mapping[str, StrEnum], description: str) -> Filter:
    """One of some values, by their names in the API."""

    def read(text: str) -> StrEnum:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return values[text]

    return Filter(read, {"type": "string", "enum": list(values)}, description)


def instant(description: str) -> Filter:
    """An instant, or a day for its beginning in WIB."""
    forms = [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]
    return Filter(read_instant, {"anyOf": forms}, f"{description} {_INSTANT}", "Write + as %2B.")
