"""Statements: an account's balance before and after a month, and its changes by day and kind.

A month begins and ends at 00:00 WIB on its first day and the next month's. It has a statement once it is
over: entries are only ever added, so that a statement is always the same.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from attrs import field, frozen
from attrs.validators import and_, ge, le

from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from meetcore.domain.money.transfers import TransferKind

CLOSES_AFTER: Final = timedelta(minutes=5)
"""How long after its end a month has its statement: longer than any transaction takes to append an entry."""

_MONTH = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])", re.ASCII)
_DAY: Final = timedelta(days=1)


@frozen(order=True)
class Month:
    """A month of the years 2 to 9998, in WIB."""

    year: int = field(validator=and_(ge(2), le(9998)))
    number: int = field(validator=and_(ge(1), le(12)))

    def __str__(self) -> str:
        return f"{self.year:04}-{self.number:02}"

    @property
    def first_day(self) -> date:
        """Its first day."""
        return date(self.year, self.number, 1)

    @property
    def last_day(self) -> date:
        """Its last day."""
        following = (self.year + 1, 1) if self.number == 12 else (self.year, self.number + 1)
        return date(*following, 1) - _DAY

    @property
    def begins_at(self) -> datetime:
        """The instant at which it begins, in UTC."""
        return cap_day_ends_at(self.first_day - _DAY)

    @property
    def ends_at(self) -> datetime:
        """The instant at which it is over, in UTC."""
        return cap_day_ends_at(self.last_day)


def read_month(text: str) -> Month:
    """Read `YYYY-MM`; NotFound for another text, as for a month without a statement."""
    if not _MONTH.fullmatch(text) or not 2 <= int(text[:4]) <= 9998:
        raise NotFound("No statement of this month.")
    return Month(int(text[:4]), int(text[5:]))


def month_of(at: datetime) -> Month:
    """Return the month of an instant, in WIB."""
    day = cap_day(at)
    return Month(day.year, day.month)


def is_closed(month: Month, now: datetime) -> bool:
    """Return whether no entry can be added to the month any more."""
    return now >= month.ends_at + CLOSES_AFTER


def last_closed(now: datetime) -> Month:
    """Return the last month that is closed."""
    month = month_of(month_of(now).begins_at - _DAY)
    return month if is_closed(month, now) else month_of(month.begins_at - _DAY)


def months_since(first_at: datetime, now: datetime, limit: int) -> Sequence[Month]:
    """Return the months since the first entry, the present one first, at most `limit`."""
    found: list[Month] = []
    month, first = month_of(now), month_of(first_at)
    while month >= first and len(found) < limit:
        found.append(month)
        month = month_of(month.begins_at - _DAY)
    return found


@frozen
class EntryRange:
    """The numbers of the entries of a stretch of time, and the balances around them in credits.

    Without entries in it, `last` is one less than `first`.
    """

    first: int
    last: int
    opening: int
    closing: int


@frozen
class DayTotal:
    """The sum of the transfers of one kind on a WIB day; `credits` is negative for charges."""

    day: date
    kind: TransferKind
    credits: int
    entries: int


@frozen
class Statement:
    """The balance before and after a month, in credits, and its changes, ordered by day and kind."""

    month: Month
    opening: int
    closing: int
    lines: Sequence[DayTotal]

    @property
    def entries(self) -> int:
        """The number of entries of the month."""
        return sum(line.entries for line in self.lines)

    def by_kind(self) -> Sequence[tuple[TransferKind, int, int]]:
        """Return each kind that occurs with its number of entries and their sum, in their order."""
        return [
            (kind, sum(line.entries for line in lines), sum(line.credits for line in lines))
            for kind in TransferKind
            if (lines := [line for line in self.lines if line.kind is kind])
        ]


def make_statement(month: Month, around: EntryRange, totals: Iterable[DayTotal]) -> Statement:
    """Make the statement of a month; raise `ValueError` where the totals do not lead to its end."""
    order = list(TransferKind)
    lines = sorted(totals, key=lambda line: (line.day, order.index(line.kind)))
    statement = Statement(month, around.opening, around.closing, lines)
    change = sum(line.credits for line in lines)
    if around.opening + change != around.closing or statement.entries != around.last - around.first + 1:
        raise ValueError(f"the totals of {month} do not agree with its entries")
    return statement
