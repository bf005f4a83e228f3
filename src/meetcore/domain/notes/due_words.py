"""The words of days in Indonesian and English, spoken and written: numbers, weekdays, months, holidays."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Holiday(StrEnum):
    """A holiday by which people set a date."""

    EID_AL_FITR = "eid_al_fitr"
    EID_AL_ADHA = "eid_al_adha"
    CHRISTMAS = "christmas"
    NEW_YEAR = "new_year"
    LUNAR_NEW_YEAR = "lunar_new_year"
    NYEPI = "nyepi"
    VESAK = "vesak"
    GOOD_FRIDAY = "good_friday"
    EASTER = "easter"
    INDEPENDENCE_DAY = "independence_day"


Holidays = Mapping[Holiday, Sequence[date]]
"""The days of each holiday, in order; one that is missing is unknown."""

HOLIDAYS: Final[Mapping[str, Holiday]] = MappingProxyType(
    dict.fromkeys(("lebaran", "idul fitri", "idulfitri", "hari raya", "eid al-fitr"), Holiday.EID_AL_FITR)
    | dict.fromkeys(
        ("idul adha", "iduladha", "lebaran haji", "hari kurban", "eid al-adha"), Holiday.EID_AL_ADHA
    )
    | dict.fromkeys(("natal", "christmas", "xmas"), Holiday.CHRISTMAS)
    | dict.fromkeys(("tahun baru", "new year's day", "new year's", "new year"), Holiday.NEW_YEAR)
    | dict.fromkeys(
        ("imlek", "tahun baru imlek", "chinese new year", "lunar new year"), Holiday.LUNAR_NEW_YEAR
    )
    | dict.fromkeys(("nyepi",), Holiday.NYEPI)
    | dict.fromkeys(("waisak", "vesak"), Holiday.VESAK)
    | dict.fromkeys(("jumat agung", "good friday"), Holiday.GOOD_FRIDAY)
    | dict.fromkeys(("paskah", "easter"), Holiday.EASTER)
    | dict.fromkeys(
        ("hari kemerdekaan", "hut ri", "agustusan", "tujuh belasan", "17-an", "17an", "independence day"),
        Holiday.INDEPENDENCE_DAY,
    )
)
"""What people call them."""

WEEKDAYS: Final[Mapping[str, int]] = MappingProxyType(
    {"senin": 0, "selasa": 1, "rabu": 2, "kamis": 3, "jumat": 4, "jum'at": 4, "sabtu": 5, "ahad": 6}
    | {"monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6}
)
"""From Monday, 0. `minggu` is left out: it is a week, too."""

_MONTHS: Final = (
    "januari january jan", "februari february feb", "maret march mar", "april apr",
    "mei may", "juni june jun", "juli july jul", "agustus august agu aug",
    "september sept sep", "oktober october okt oct",
    "november nov nop", "desember december des dec",
)  # fmt: skip
MONTHS: Final[Mapping[str, int]] = MappingProxyType(
    {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
)
"""Names and short forms, from 1."""

_ONES_ID: Final = ("satu", "dua", "tiga", "empat", "lima", "enam", "tujuh", "delapan", "sembilan")
_TO_TWELVE: Final = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_TO_NINTH: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_TO_TWENTIETH: Final = (
    *_TO_NINTH, "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
    "seventeenth", "eighteenth", "nineteenth", "twentieth",
)  # fmt: skip

ORDINALS: Final[Mapping[str, int]] = MappingProxyType(
    {word: number for number, word in enumerate(_TO_TWENTIETH, 1)}
    | {f"twenty{mark}{word}": 20 + number for number, word in enumerate(_TO_NINTH, 1) for mark in "- "}
    | {"thirtieth": 30, "thirty-first": 31}
)
"""English ordinals up to 31."""

NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {word: number for number, word in enumerate((*_ONES_ID, "sepuluh", "sebelas"), 1)}
    | {f"{word} belas": 10 + number for number, word in enumerate(_ONES_ID[1:], 2)}
    | {f"dua puluh {word}": 20 + number for number, word in enumerate(_ONES_ID, 1)}
    | {"dua puluh": 20, "tiga puluh": 30, "tiga puluh satu": 31}
    | {word: number for number, word in enumerate(_TO_TWELVE, 1)}
    | {"a": 1, "an": 1, "a couple of": 2, **ORDINALS}
)
"""Number words up to 31, as days of a month and lengths of time have them."""


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches the longest of some words; a space in one stands for any white space."""
    longer_first = sorted(words, reverse=True)
    return f"(?:{'|'.join(longer_first)})".replace(" ", r"\s+")


def number_of(text: str) -> int:
    """Return the value of digits, with or without an English ordinal's ending, or of a number word."""
    digits = "".join(filter(str.isdecimal, text))
    return int(digits) if digits else NUMBERS[text]
