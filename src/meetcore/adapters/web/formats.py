"""Numbers, dates, sizes and names of browsers as people read them, and the languages of the pages.

Times are in WIB with the zone named.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

from babel.dates import format_date, format_datetime
from babel.numbers import format_decimal, format_percent

from meetcore.adapters.catalogues import CLOCKS
from meetcore.domain.meetings.schedule import WIB, cap_day
from meetcore.domain.notes.notes import Language


def format_count(number: int, language: Language) -> str:
    """Format a whole number with the language's separators; a minus sign, not a hyphen."""
    return format_decimal(number, locale=language.value).replace("-", "\N{MINUS SIGN}")


def format_change(credits: int, language: Language) -> str:
    """Format a change of a balance, always with its sign."""
    text = format_count(credits, language)
    return f"+{text}" if credits > 0 else text


def format_share(share: float, language: Language) -> str:
    """Format a share from 0 to 1 in per cent, with at most one decimal."""
    return format_percent(Decimal(str(round(share, 3))), format="#,##0.#%", locale=language.value)


_LAST: Final = datetime(9999, 12, 31, 16, 59, tzinfo=UTC)
"""The last minute that can be written in WIB: keys that are to work for ever end beyond it."""


def format_instant(at: datetime, language: Language) -> str:
    """Format a point in time in WIB, to the minute."""
    local = min(at, _LAST).astimezone(WIB)
    return format_datetime(local, f"d MMM y, {CLOCKS[language]}", locale=language.value) + " WIB"


def format_time_of_day(at: datetime, language: Language) -> str:
    """Format the time of day in WIB, to the second."""
    clock = CLOCKS[language]
    return format_datetime(at.astimezone(WIB), f"{clock}{clock[2]}ss", locale=language.value) + " WIB"


def format_clock(at: datetime, language: Language) -> str:
    """Format the time of day in WIB, to the minute, without the zone."""
    return format_datetime(at.astimezone(WIB), CLOCKS[language], locale=language.value)


def day_in_wib(day: date) -> date:
    """Return the WIB day of an instant, and a day unchanged.

    Every formatter of a day goes through this, for an instant is a `date` to Python as well. Raises
    `ValueError` for an instant without a time zone.
    """
    return cap_day(day) if isinstance(day, datetime) else day


def format_day(day: date, language: Language) -> str:
    """Format a day, or the day of an instant."""
    return format_date(day_in_wib(day), "d MMM y", locale=language.value)


def format_day_of_week(day: date, language: Language) -> str:
    """Format a day without its year, short enough for the head of a column."""
    return format_date(day_in_wib(day), "EEE d MMM", locale=language.value)


def format_short_day(day: date, language: Language) -> str:
    """Format a day without its year, for the axis of a chart."""
    return format_date(day_in_wib(day), "d MMM", locale=language.value)


def format_month(day: date, language: Language) -> str:
    """Format the month of a day."""
    return format_date(day_in_wib(day), "LLLL y", locale=language.value)


_BROWSERS: Final[Sequence[tuple[str, str]]] = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("SamsungBrowser", "Samsung Internet"), ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"), ("CriOS", "Chrome"), ("HeadlessChrome", "Chrome"), ("Chrome", "Chrome"),
    ("Version", "Safari"),
)  # fmt: skip
"""The product that tells a browser from those whose names it also gives: the first that is there."""

_SYSTEMS: Final[Sequence[tuple[str, str]]] = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


def name_browser(user_agent: str) -> str:
    """Name a browser with its version, and its system: `Firefox 140, Windows`; else 80 characters of it."""
    for product, name in _BROWSERS:
        if found := re.search(rf"\b{product}/(\d{{1,5}})", user_agent):
            system = next((text for mark, text in _SYSTEMS if mark in user_agent), "")
            return f"{name} {found[1]}, {system}" if system else f"{name} {found[1]}"
    return user_agent if len(user_agent) <= 80 else user_agent[:79] + "\N{HORIZONTAL ELLIPSIS}"


CATALOGUES: Final = Path(__file__).parent / "catalogues"


NAMES: Final[Mapping[Language, str]] = {Language.ENGLISH: "English", Language.INDONESIAN: "Bahasa Indonesia"}
