"""Due dates: the day that spoken words mean, counted from the day of the meeting.

A rule is a pattern and its meaning; the first that matches decides. Words that name no one day ("minggu
depan", "awal Januari", "Q1 2027", "secepatnya") have none. "By", "before" and their like name the day that
follows. A weekday is the next one after the meeting's day, "Senin depan" that of the next week, which begins
on a Monday; a day of a month is the next one on or after the meeting's. The end of a week is its Friday.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from attrs import evolve

from meetcore.domain.notes.due_words import (
    HOLIDAYS,
    MONTHS,
    NUMBERS,
    ORDINALS,
    WEEKDAYS,
    Holidays,
    any_of,
    number_of,
)
from meetcore.domain.notes.notes import NoteDraft

_MOST_CHARS: Final = 200
_FRIDAY: Final = 4
# The lengths of units: in days, 0 for a part of one, or in months. H-3 has no unit.
_DAYS: Final = {
    "": 1, "hari": 1, "day": 1, "minggu": 7, "pekan": 7, "week": 7,
    "jam": 0, "menit": 0, "hour": 0, "minute": 0,
}  # fmt: skip
_MONTHS: Final = {
    "bulan": 1, "month": 1, "kuartal": 3, "triwulan": 3, "quarter": 3, "tahun": 12, "year": 12,
}  # fmt: skip
_Means = Callable[[re.Match[str], date, Holidays], date | None]


def resolve(words: str, day: date, holidays: Holidays) -> date | None:
    """Return the date of due words; `None` where they name no day, or a holiday that is not known."""
    text = " ".join(words.casefold().replace("\u2019", "'").split())[:_MOST_CHARS]
    for pattern, means in _RULES:
        if found := pattern.search(text):
            try:
                return means(found, day, holidays)
            except (ValueError, OverflowError):  # 31 April; past the last year
                return None
    return None


def names_holiday(words: str) -> bool:
    """Return whether the date of due words depends on a holiday."""
    return _NAMES_HOLIDAY.search(words.casefold()) is not None


def with_due_dates(draft: NoteDraft, day: date, holidays: Holidays) -> NoteDraft:
    """Set the dates of a draft's action items, for a meeting on this day."""
    items = (
        one if one.due is None else evolve(one, due_on=resolve(one.due, day, holidays))
        for one in draft.action_items
    )
    return evolve(draft, action_items=tuple(items))


def _iso(found: re.Match[str], _: date, __: Holidays) -> date:
    return date(int(found["y"]), int(found["m"]), int(found["d"]))


def _digits(found: re.Match[str], day: date, _: Holidays) -> date | None:
    """The day comes first, as in Indonesia, unless only the other order makes a date."""
    number, month = int(found["d"]), int(found["m"])
    number, month = (month, number) if month > 12 else (number, month)
    return _in_month(number, month, found, day)


def _named_month(found: re.Match[str], day: date, _: Holidays) -> date | None:
    return _in_month(number_of(found["d"]), MONTHS[found["m"]], found, day)


def _in_month(number: int, month: int, found: re.Match[str], day: date) -> date:
    if year := found["y"]:
        return date(int(year) + (2000 if len(year) == 2 else 0), month, number)
    is_next = (month, number) < (day.month, day.day) or _is_next("year", found)
    return date(day.year + is_next, month, number)


def _day_of_month(found: re.Match[str], day: date, _: Holidays) -> date | None:
    """The next such day; of this or of the next month where that is said."""
    number, is_this = number_of(found["d"]), _THIS_MONTH.search(found.string) is not None
    for months in (1,) if _is_next("month", found) else (0,) if is_this else (0, 1, 2):
        year, month = _month_from(day, months)
        if number <= _length(year, month) and (is_this or months or number >= day.day):
            return date(year, month, number)
    return None


def _month_from(day: date, months: int) -> tuple[int, int]:
    """Return the year and the month so many months later."""
    years, month = divmod(day.month - 1 + months, 12)
    return day.year + years, month + 1


def _length(year: int, month: int) -> int:
    return monthrange(year, month)[1]


def _is_next(unit: str, found: re.Match[str]) -> bool:
    """Return whether the next week, month or year is said anywhere in the words."""
    return _NEXT[unit].search(found.string) is not None


def _ahead(found: re.Match[str], day: date, _: Holidays) -> date:
    return _counted(found, day, 1)


def _counted(found: re.Match[str], day: date, sign: int) -> date:
    """Count from a day on or back; a month away is the same day, or the last of a shorter month."""
    unit = found["one"] or found["unit"]
    count = sign * (1 if found["one"] else number_of(found["n"]))
    if unit in _DAYS:
        return day + timedelta(days=count * _DAYS[unit])
    year, month = _month_from(day, count * _MONTHS[unit])
    return date(year, month, min(day.day, _length(year, month)))


def _from_holiday(found: re.Match[str], day: date, holidays: Holidays) -> date | None:
    """So long before or after the next such holiday."""
    held = _next_holiday(found["holiday"], day, holidays)
    if held is None:
        return None
    sign = -1 if found["side"].startswith(("-", "min", "sebelum", "before")) else 1
    return _counted(found, held, sign)


def _on_holiday(found: re.Match[str], day: date, holidays: Holidays) -> date | None:
    """The holiday, or the day before: its eve."""
    before = timedelta(days=found[0] != found["holiday"])
    held = _next_holiday(found["holiday"], day + before, holidays)
    return held and held - before


def _next_holiday(name: str, day: date, holidays: Holidays) -> date | None:
    days = holidays.get(HOLIDAYS[name], ())
    return next((each for each in days if each >= day), None)


def _end_of_period(found: re.Match[str], day: date, _: Holidays) -> date:
    return _end_of(found["unit"], day, is_next="next" in found[0] or "depan" in found[0])


def _end_of(unit: str, day: date, *, is_next: bool = False) -> date:
    if unit in _DAYS:  # a week
        return day + timedelta(days=_FRIDAY - day.weekday() + 7 * (is_next or day.weekday() > _FRIDAY))
    months = _MONTHS[unit]
    return _last_of(*_month_from(day, months - 1 - (day.month - 1) % months + months * is_next))


def _end_of_month(found: re.Match[str], day: date, _: Holidays) -> date:
    """The end of a named month or of a quarter by its number."""
    month = MONTHS[found["m"]] if found["m"] else 3 * int(found["q"])
    is_next = month < day.month or _is_next("year", found)
    return _last_of(int(found["y"]) if found["y"] else day.year + is_next, month)


def _last_of(year: int, month: int) -> date:
    return date(year, month, _length(year, month))


def _weekday(found: re.Match[str], day: date, _: Holidays) -> date:
    number = 6 if found["day"] is None else WEEKDAYS[found["day"]]
    monday = day - timedelta(days=day.weekday())
    if "depan" in found[0] or "next" in found[0] or _is_next("week", found):
        return monday + timedelta(days=7 + number)
    if "ini" in found[0] or "this" in found[0]:
        return monday + timedelta(days=number + 7 * (number < day.weekday()))
    return day + timedelta(days=(number - day.weekday() - 1) % 7 + 1)


def _same_day(_: re.Match[str], day: date, __: Holidays) -> date:
    return day


def _unknown(_: re.Match[str], __: date, ___: Holidays) -> None:
    """Meet the words that name no one day."""


_NUMBER: Final = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|{any_of(NUMBERS)})"
_ORDINAL: Final = rf"(?:\d{{1,2}}(?:st|nd|rd|th)|{any_of(ORDINALS)})"
_MONTH: Final = rf"(?P<m>{any_of(MONTHS)})\.?"
_YEAR: Final = r"(?:,?\s(?P<y>20\d\d))?"
_HOLIDAY: Final = rf"(?P<holiday>{any_of(HOLIDAYS)})"
_DAY: Final = rf"(?:(?P<day>{any_of(WEEKDAYS)})|hari\sminggu|minggu(?=\s(?:pagi|siang|sore|malam|malem)))"
_LENGTH: Final = (
    r"(?P<unit>jam|menit|hari(?!\skerja)|minggu|pekan|bulan|tahun|hour|minute|day|week|month|year)s?"
)
_COUNT: Final = rf"(?:se(?P<one>jam|hari|minggu|pekan|bulan|tahun)|(?P<n>{_NUMBER})\s{_LENGTH})"
_H: Final = r"(?:[-+]|min(?:us)?\s|plus\s)"  # "H-3" as it is written and spoken
_MEETING: Final = r"(?:ini|rapat|meeting|this|th(?:is|e)\s(?:meeting|call))"
_AFTER: Final = r"(?:setelah|sesudah|habis|abis|after)"
_LATER: Final = rf"(?:lagi|ke\sdepan|mendatang|dari\ssekarang|from\s(?:now|today)|{_AFTER}\s{_MEETING})"
_WEEKS: Final = r"(?:(?:minggu|pekan)\s(?:depan|ini),?\s(?:hari\s)?|(?:next|this)\s(?:week\s)?(?:on\s)?)"
_PERIODS: Final = r"(?:minggu|pekan|bulan|tahun|kuartal|triwulan)"
_PERIODS_EN: Final = r"(?:week|month|quarter|year)"
# White space is one space, and letters are small, before a rule is tried.
_FORMS: Final[tuple[tuple[str, _Means], ...]] = (
    # Counted from a day that is named, or from another event: of that alone the day would be wrong.
    (
        rf"(?:se|{_NUMBER}\s)(?:hari|minggu|pekan|bulan|tahun|day|week|month|year)s?"
        rf"\s(?:sebelum|before|setelah|sesudah|after|from)(?!\s(?:{_MEETING}|now|today|{any_of(HOLIDAYS)}))",
        _unknown,
    ),
    (r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})", _iso),
    (r"(?P<d>\d{1,2})[/.-](?P<m>\d{1,2})[/.-](?P<y>\d{4}|\d{2})", _digits),
    (r"(?P<d>\d{1,2})/(?P<m>\d{1,2})(?P<y>)", _digits),
    (rf"(?P<d>{_NUMBER})\s(?:of\s|bulan\s)?{_MONTH}{_YEAR}", _named_month),
    (rf"{_MONTH}\s(?:the\s)?(?P<d>{_NUMBER}){_YEAR}", _named_month),
    (
        rf"h\s?(?P<side>{_H})\s?(?P<n>{_NUMBER})\s(?:sebelum\s)?(?:hari\s)?{_HOLIDAY}(?P<unit>)(?P<one>)",
        _from_holiday,
    ),
    (rf"{_COUNT}\s(?P<side>sebelum|before|setelah|sesudah|after)\s{_HOLIDAY}", _from_holiday),
    (rf"h\s?{_H}\s?{_NUMBER}", _unknown),
    (rf"{_COUNT}\s{_LATER}", _ahead),
    (rf"(?:first|second|third|fourth|last)\s{_DAY}", _unknown),
    (rf"{_DAY}\s(?:pertama|kedua|ketiga|keempat|terakhir)", _unknown),
    (rf"(?:dalam|in|within)\s(?:waktu\s|the\snext\s)?{_COUNT}", _ahead),
    (rf"(?:tanggal|tgl\.?|tg)\s?(?P<d>{_NUMBER})", _day_of_month),
    (rf"the\s(?P<d>{_ORDINAL})(?!\s(?:week|half|quarter|month|day))", _day_of_month),
    (
        rf"(?:akhir|end\sof)\s(?:(?:bulan\s)?{_MONTH}|(?:q|kuartal\s|triwulan\s)(?P<q>[1-4])){_YEAR}",
        _end_of_month,
    ),
    (rf"akhir\s(?P<unit>{_PERIODS})(?:\s(?:depan|ini))?", _end_of_period),
    (rf"end\sof\s(?:the\s|this\s|next\s)?(?P<unit>{_PERIODS_EN})", _end_of_period),
    (rf"(?P<unit>{_PERIODS_EN})(?:'s)?[-\s]end", _end_of_period),
    (r"eom", lambda _, day, __: _end_of("month", day)),
    (r"eow", lambda _, day, __: _end_of("week", day)),
    (r"(?:every|each|setiap|tiap)\s\w+", _unknown),
    (
        rf"(?P<before>{_WEEKS})?{_DAY}(?P<after>,?\s(?:(?:minggu\s|pekan\s)?(?:depan|ini)|(?:next|this)\sweek))?",
        _weekday,
    ),
    (rf"(?:malam\s)?{_HOLIDAY}(?:\seve)?", _on_holiday),
    (r"(?:besok\s)?lusa|day\safter\stomorrow", lambda _, day, __: day + timedelta(days=2)),
    (r"besok(?:nya)?|bsk|tomorrow", lambda _, day, __: day + timedelta(days=1)),
    (
        r"(?:hari|pagi|siang|sore|malam|malem)\sini|(?:nanti|ntar|entar)\s(?:siang|sore|malam|malem)"
        r"|akhir\shari|end\sof\s(?:the\s|this\s)?(?:business\s)?day"
        rf"|today|tonight|noon|this\s(?:morning|afternoon|evening)|eod|cob|{_AFTER}\s{_MEETING}",
        _same_day,
    ),
    (rf"{_PERIODS}\s(?:ini|depan)|(?:this|next)\s{_PERIODS_EN}", _unknown),
    (r"(?:jam|pukul)\s\w+|\d{1,2}(?::\d\d)?\s?(?:am|pm|o'clock)", _same_day),
)
_NEXT: Final = {
    unit: re.compile(rf"(?<!\w)(?:{names}\s(?:depan|berikutnya)|(?:next|following)\s{unit})(?!\w)")
    for unit, names in (("week", "(?:minggu|pekan)"), ("month", "bulan"), ("year", "tahun"))
}
_THIS_MONTH: Final = re.compile(r"(?<!\w)(?:bulan\sini|this\smonth)(?!\w)")
_RULES: Final = tuple((re.compile(rf"(?<!\w)(?:{form})(?!\w)"), means) for form, means in _FORMS)
_NAMES_HOLIDAY: Final = re.compile(rf"(?<!\w){any_of(HOLIDAYS)}(?!\w)")
