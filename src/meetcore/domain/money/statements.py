"""Statements: an account's balance before and after a month, and what changed it, by day and kind.

A month begins and ends at 00:00 WIB on its first day and the next month's. It has a statement once it is
over: entries are only ever added, so that a statement reads the same whenever it is made. Owns the sums and
that they agree with the balances; reads no entry and no clock.
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

__all__ = [
    "CLOSES_AFTER",
    "DayTotal",
    "EntryRange",
    "Month",
    "Statement",
    "is_closed",
    "last_closed",
    "make_statement",
    "month_of",
    "read_month",
    "statement_months",
]

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
    """Read `YYYY-MM`.

    Raises:
        NotFound: no month; answered as one without a statement is.
    """
    if not _MONTH.fullmatch(text) or not 2 <= int(text[:4]) <= 9998:
        raise NotFound("No statement of this month.")
    return Month(int(text[:4]), int(text[5:]))


def month_of(at: datetime) -> Month:
    """The month of an instant, in WIB."""
    day = cap_day(at)
    return Month(day.year, day.month)


def is_closed(month: Month, now: datetime) -> bool:
    """Whether no entry can be added to the month any more."""
    return now >= month.ends_at + CLOSES_AFTER


def last_closed(now: datetime) -> Month:
    """The last month that is closed."""
    month = month_of(month_of(now).begins_at - _DAY)
    return month if is_closed(month, now) else month_of(month.begins_at - _DAY)


def statement_months(first_at: datetime, now: datetime, limit: int) -> Sequence[Month]:
    """The months that have a statement: the newest first, so many at most.

    Args:
        first_at: the instant of the account's first entry.
        limit: how many months are returned at most.
    """
    found: list[Month] = []
    month, first = month_of(now), month_of(first_at)
    while month >= first and len(found) < limit:
        if is_closed(month, now):
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
    """What transfers of one kind did to an account's balance on a day (WIB).

    `credits` is the sum of the entries' amounts: negative for charges.
    """

    day: date
    kind: TransferKind
    credits: int
    entries: int


@frozen
class Statement:
    """The balance before and after a month, in credits, and what changed it, ordered by day and kind."""

    month: Month
    opening: int
    closing: int
    lines: Sequence[DayTotal]

    @property
    def entries(self) -> int:
        """How many entries the month has."""
        return sum(line.entries for line in self.lines)

    def by_kind(self) -> Sequence[tuple[TransferKind, int, int]]:
        """Each kind that occurs with its number of entries and their sum, in the order of the kinds."""
        return [
            (kind, sum(line.entries for line in lines), sum(line.credits for line in lines))
            for kind in TransferKind
            if (lines := [line for line in self.lines if line.kind is kind])
        ]


def make_statement(month: Month, around: EntryRange, totals: Iterable[DayTotal]) -> Statement:
    """Make the statement of a month of its totals, and check that these agree with its entries.

    Raises:
        ValueError: they do not lead from the opening balance to the closing one, or are of more or fewer
            entries than there are.
    """
    order = list(TransferKind)
    lines = sorted(totals, key=lambda line: (line.day, order.index(line.kind)))
    statement = Statement(month, around.opening, around.closing, lines)
    change = sum(line.credits for line in lines)
    if around.opening + change != around.closing or statement.entries != around.last - around.first + 1:
        raise ValueError(f"the totals of {month} do not agree with its entries")
    return statement
