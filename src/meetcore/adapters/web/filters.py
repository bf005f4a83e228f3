"""The filters in the address of a page: days, choices and the place in a list."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import field, frozen

from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import AreaVisit, Visit
from meetcore.domain.meetings.schedule import WIB

PAGE_SIZE = 25


@frozen
class DayRange:
    """Days from a form, both included; `errors` has the texts of fields that are no day."""

    first: date | None = None
    last: date | None = None
    errors: Mapping[str, str] = field(factory=dict)

    @property
    def begins_at(self) -> datetime | None:
        """When the first day begins, in WIB."""
        return None if self.first is None else _midnight(self.first)

    @property
    def ends_at(self) -> datetime | None:
        """When the last day is over, in WIB."""
        return None if self.last is None else _midnight(self.last + timedelta(days=1))


def read_days(visit: Visit) -> DayRange:
    """Read the fields `from` and `to` of a page's address."""
    found: dict[str, date] = {}
    errors: dict[str, str] = {}
    for name in ("from", "to"):
        if text := visit.query(name):
            try:
                found[name] = date.fromisoformat(text)
            except ValueError:
                errors[name] = visit.text(_("Write the day as YYYY-MM-DD."))
    if not errors and found.get("from", date.min) > found.get("to", date.max):
        errors["from"] = visit.text(_("The first day lies after the last one."))
    first, last = found.get("from"), found.get("to")
    is_in_range = all(day is None or 1970 <= day.year < 9999 for day in (first, last))
    return (
        DayRange(first, last, errors)
        if is_in_range
        else DayRange(errors={"from": visit.text(_("There is no such day."))})
    )


def read_before(visit: AreaVisit[Any, Any, Any]) -> UUID | None:
    """Read the id that a list goes on below; anything that is no id means its beginning."""
    try:
        return UUID(visit.query("before"))
    except ValueError:
        return None


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=WIB)
