"""Time at the edges: WIB in (UTC+7, no daylight saving; spec 4.1), UTC inside, RFC 3339 out."""

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

from meetcore.domain.errors import InvalidRequest, Unprocessable

__all__ = [
    "WIB", "cap_day", "cap_day_ends_at",
]  # fmt: skip

WIB = timezone(timedelta(hours=7), "WIB")
MAX_DAYS_AHEAD = 365

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}", re.ASCII)
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})"
    r"(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_BAD_INSTANT = (
    "must be an instant with an offset, such as 2026-12-01T02:00:00Z (in a URL, write + as %2B), "
    "or a day as YYYY-MM-DD, which begins at 00:00 WIB"
)
_WIB_OFFSET = timedelta(hours=7)
_FIRST_WIB = datetime(1, 1, 1, tzinfo=UTC) + _WIB_OFFSET


def meeting_start(day: str, time_of_day: str) -> datetime:
    """Read `YYYY-MM-DD` and `HH:mm`, both in WIB (rules 4.1/date and 4.1/start_time), as an instant in UTC.

    Raises `InvalidRequest` for malformed or impossible ones; both are named at once.
    """
    on = _read_date(day)
    at = _read_time(time_of_day)
    if on is None or at is None:
        raise InvalidRequest(start_problems(day, time_of_day))
    hour, minute = at
    # 0001-01-01 before 07:00 WIB lies before the first instant that UTC can represent.
    local = datetime(on.year, on.month, on.day, hour, minute, tzinfo=UTC)
    return max(local, _FIRST_WIB) - _WIB_OFFSET


def start_problems(day: str, time_of_day: str) -> dict[str, list[str]]:
    """Return the problems of a start's `date` and `start_time`, by field."""
    problems = {}
    if _read_date(day) is None:
        problems["date"] = ["must be a date that exists, as YYYY-MM-DD"]
    if _read_time(time_of_day) is None:
        problems["start_time"] = ["must be a time from 00:00 to 23:59, as HH:mm"]
    return problems


def _read_date(text: str) -> date | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _read_time(text: str) -> tuple[int, int] | None:
    if not _TIME.fullmatch(text):
        return None
    hour, minute = int(text[:2]), int(text[3:])
    return (hour, minute) if hour < 24 and minute < 60 else None


def read_instant(text: str) -> datetime:
    """Read an instant in UTC from RFC 3339, or a day as `YYYY-MM-DD` for its beginning in WIB.

    A fraction finer than a microsecond is rounded up: no instant of ours lies in between, so that "from" and
    "before" mean what was written. Raises `ValueError` for neither, or an instant that does not exist.
    """
    try:
        at = meeting_start(text, "00:00") if _DATE.fullmatch(text) else _read_rfc3339(text)
    except (ValueError, OverflowError, InvalidRequest):
        at = None
    if at is None:
        raise ValueError(_BAD_INSTANT)
    return at


def _read_rfc3339(text: str) -> datetime | None:
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    seconds, fraction, offset = found.groups()
    at = datetime.fromisoformat(seconds + offset.upper()).astimezone(UTC)
    return at + timedelta(microseconds=math.ceil(Fraction(fraction or 0) * 1_000_000))


def check_start(start_at: datetime, now: datetime) -> None:
    """Raise `Unprocessable` for a start before `now` or more than 365 days after it."""
    if start_at < now:
        raise Unprocessable(
            "The meeting would start in the past. date and start_time are read in WIB (UTC+7).",
            {"start_at": utc_text(start_at)},
        )
    if start_at - now > timedelta(days=MAX_DAYS_AHEAD):
        raise Unprocessable(
            f"A meeting can start at most {MAX_DAYS_AHEAD} days ahead.", {"start_at": utc_text(start_at)}
        )


def cap_day(at: datetime) -> date:
    """Return the day on which a spend counts against a daily cap: days begin at 00:00 WIB.

    Raises `ValueError` for an instant without a time zone, whose day would differ between machines.
    """
    if at.utcoffset() is None:
        raise ValueError(f"the day of an instant needs its time zone, and {at} has none")
    return (at.astimezone(UTC) + _WIB_OFFSET).date()


def cap_day_ends_at(day: date) -> datetime:
    """Return the instant at which a cap day ends, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + (timedelta(days=1) - _WIB_OFFSET)


def utc_text(at: datetime) -> str:
    """Format an instant as RFC 3339 in UTC with whole seconds: `2026-12-01T02:00:00Z`."""
    # Not strftime: its %Y does not pad a year before 1000 on every platform.
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def wib_text(at: datetime) -> str:
    """Format an instant as RFC 3339 in WIB with whole seconds: `2026-12-01T09:00:00+07:00`."""
    return at.astimezone(WIB).isoformat(timespec="seconds")
