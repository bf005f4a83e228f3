"""Numbers, dates and sizes as people read them: by language, times in WIB with the zone named."""

from datetime import date, datetime
from decimal import Decimal

from babel.dates import format_date, format_datetime
from babel.numbers import format_decimal, format_percent

from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.notes.notes import Language


def format_count(number: int, language: Language) -> str:
    """A whole number with the language's separators; a minus sign, not a hyphen."""
    return format_decimal(number, locale=language.value).replace("-", "\N{MINUS SIGN}")


def format_change(credits: int, language: Language) -> str:
    """A change of a balance, its sign always written."""
    text = format_count(credits, language)
    return f"+{text}" if credits > 0 else text


def format_share(share: float, language: Language) -> str:
    """A share from 0 to 1 in per cent, with at most one decimal."""
    return format_percent(Decimal(str(round(share, 3))), format="#,##0.#%", locale=language.value)


def format_instant(at: datetime, language: Language) -> str:
    """A point in time in WIB, to the minute."""
    return format_datetime(at.astimezone(WIB), "d MMM y, HH:mm", locale=language.value) + " WIB"


def format_time_of_day(at: datetime, language: Language) -> str:
    """The time of day in WIB, to the second."""
    return format_datetime(at.astimezone(WIB), "HH:mm:ss", locale=language.value) + " WIB"


def format_clock(at: datetime, language: Language) -> str:
    """The time of day in WIB, to the minute; the zone stands beside it."""
    return format_datetime(at.astimezone(WIB), "HH:mm", locale=language.value)


def format_day(day: date, language: Language) -> str:
    """A day without its time."""
    return format_date(day, "d MMM y", locale=language.value)


def format_day_of_week(day: date, language: Language) -> str:
    """A day of a week whose year is known, short enough for the head of a column."""
    return format_date(day, "EEE d MMM", locale=language.value)


def format_month(day: date, language: Language) -> str:
    """The month of a day."""
    return format_date(day, "LLLL y", locale=language.value)


def format_offset(seconds: float) -> str:
    """A position in a recording: `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
