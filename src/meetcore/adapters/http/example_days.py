"""Dates in examples, moved with the calendar so that an example works on the day it is used.

Owns which strings are days. A meeting in an example is as far ahead of today as it is of the day that the
examples were written for; all other days keep their distance from it.
"""

import re
from datetime import date, timedelta
from typing import Any

_WRITTEN_FOR = date(2026, 11, 21)
_DAY = re.compile(r"(?<![0-9a-f-])[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9a-f-])", re.ASCII)


def moved_to(today: date, document: Any) -> Any:
    """Return a part of the OpenAPI document with the dates of all examples moved near `today`."""
    match document:
        case dict():
            return {
                name: _moved(each, today - _WRITTEN_FOR)
                if name in ("example", "examples")
                else moved_to(today, each)
                for name, each in document.items()
            }
        case list():
            return [moved_to(today, each) for each in document]
        case _:
            return document


def _moved(example: Any, by: timedelta) -> Any:
    match example:
        case str():
            return _DAY.sub(lambda day: str(date.fromisoformat(day[0]) + by), example)
        case dict():
            return {name: _moved(each, by) for name, each in example.items()}
        case list():
            return [_moved(each, by) for each in example]
        case _:
            return example
