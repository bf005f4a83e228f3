"""Days, clock times and instants.

About half of them lie on an edge or one microsecond beside it: midnight in WIB, the leap day, the ends of
months and years.
"""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.meetings.schedule import cap_day_ends_at

__all__ = ["TICK", "clock_times", "days", "instants", "near", "near_midnight_wib", "time_zones"]

TICK: Final = timedelta(microseconds=1)
"""The smallest step of time in Python."""

_FIRST: Final = datetime(1, 1, 3)  # noqa: DTZ001  # Hypothesis wants its bounds naive
_LAST: Final = datetime(9999, 12, 29)  # noqa: DTZ001
_TWO_DAYS: Final = timedelta(days=2)


def days(min_value: date = date(1, 1, 2), max_value: date = date.max) -> SearchStrategy[date]:
    """Draw a day; leap days, their neighbours, and the ends of months and years are frequent."""
    edges = st.builds(_edge, st.integers(min_value.year, max_value.year), st.integers(1, 12), st.booleans())
    return st.dates(min_value, max_value) | edges.filter(lambda day: min_value <= day <= max_value)


def _edge(year: int, month: int, is_last: bool) -> date:
    """Return the first or the last day of a month."""
    if not is_last:
        return date(year, month, 1)
    return date(year, 12, 31) if month == 12 else date(year, month + 1, 1) - timedelta(days=1)


def clock_times() -> SearchStrategy[str]:
    """Draw a minute of a day as `HH:mm`; the first and last minutes of days in WIB and UTC are frequent."""
    edges = st.sampled_from([0, 6 * 60 + 59, 7 * 60, 16 * 60 + 59, 17 * 60, 24 * 60 - 1])
    return (edges | st.integers(0, 24 * 60 - 1)).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")


def time_zones() -> SearchStrategy[timezone]:
    """Draw a fixed offset from UTC, from -12 to +14 hours."""
    return st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def instants() -> SearchStrategy[datetime]:
    """Draw an aware instant of any year, in any time zone."""
    return st.datetimes(_FIRST, _LAST, timezones=st.just(UTC) | time_zones()) | near_midnight_wib()


def near(*moments: datetime, within: timedelta = _TWO_DAYS) -> SearchStrategy[datetime]:
    """Draw an instant at a moment, one tick beside it, or at most `within` away."""
    farthest = within // TICK
    offset = st.integers(-1, 1) | st.integers(-farthest, farthest)  # faster than timedeltas
    if len(moments) == 1:
        return offset.map(lambda ticks: moments[0] + timedelta(microseconds=ticks))
    return st.tuples(st.sampled_from(moments), offset).map(lambda drawn: drawn[0] + drawn[1] * TICK)


def near_midnight_wib(day: date | None = None, within: timedelta = _TWO_DAYS) -> SearchStrategy[datetime]:
    """Draw an instant in UTC around the midnight that ends a day in WIB, 17:00 UTC; of any day for `None`."""
    if day is not None:
        return near(cap_day_ends_at(day), within=within)
    return days(date(1, 2, 1), date(9999, 11, 30)).flatmap(
        lambda ended: near(cap_day_ends_at(ended), within=within)
    )
