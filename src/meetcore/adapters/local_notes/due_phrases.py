"""Find the words that say by when: "paling lambat tgl 5", "H-3 Lebaran", "by Friday".

They are the speaker's own; days in the past are none. `domain.notes.due_dates` says which day they mean.
"""

import re
from typing import Final

from meetcore.domain.notes.due_words import HOLIDAYS, MONTHS, NUMBERS, any_of

_MONTH: Final = rf"(?:{any_of(MONTHS)}\b(?:\.(?=\s+\d))?)"
_NUMBER: Final = rf"(?:\d{{1,3}}|{any_of(word for word in NUMBERS if word not in ('a', 'an'))})"
_ORDINAL: Final = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)"
    rf"|{any_of(word for word in NUMBERS if word[-2:] in ('st', 'nd', 'rd', 'th'))})"
)
_YEAR: Final = r"(?:,?\s+20\d\d)?"
_HOLIDAY: Final = any_of((*HOLIDAYS, "puasa", "ramadan", "ramadhan", "libur"))
_DAY_ID: Final = (
    r"(?:hari\s+)?(?:senin|selasa|rabu|kamis|jumat|jum'at|sabtu|ahad|(?<=hari\s)minggu)|hari\s+minggu"
    r"|minggu(?=\s+(?:pagi|siang|sore|malam|malem))"
)
_DAY_EN: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PART_ID: Final = r"(?:\s+(?:pagi|siang|sore|malam|malem|subuh))?"
_PART_EN: Final = r"(?:\s+(?:morning|noon|afternoon|evening|night))?"
_PERIOD: Final = r"(?:minggu|pekan|bulan|tahun|kuartal|triwulan|semester)"
_PERIOD_EN: Final = r"(?:week|month|quarter|year)"
_DATE: Final = r"\d{1,2}[/-]\d{1,2}[/-]\d{2,4}|\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}"
_EVENT_ID: Final = (
    r"(?:rapat|meeting|acara|pertemuan|rilis|launching|demo|sprint|kegiatan|ujian|kerja\s+bakti)"
)
_EVENT_EN: Final = r"(?:meeting|call|launch|release|demo|sprint|board\s+meeting|event)"
_BY_ID: Final = (
    r"(?:paling\s+(?:lambat|telat|lama)|selambat-lambatnya|selambatnya|sebelum|sebelom|sampai|hingga"
    r"|deadline(?:nya)?"
    r"|tenggat(?:nya)?|batas(?:nya)?|mulai|pada|di|per|untuk|buat)\s+"
)
_BY_EN: Final = (
    r"(?:by|before|until|no\s+later\s+than|not\s+later\s+than|at\s+the\s+latest\s+by|on|due|for|at"
    r"|starting|from)\s+"
)
_WHEN_ID: Final = rf"""
    (?:{_DAY_ID})(?:\s+(?:(?:minggu\s+|pekan\s+)?(?:depan|ini)|besok))?{_PART_ID}(?:,?\s+(?:tanggal
    |tgl)\s+{_NUMBER}(?:\s+{_MONTH})?{_YEAR})?
    (?!\s+(?:lalu|kemarin|kemaren|yang\s+lalu))
  | (?:tanggal|tgl\.?)\s*{_NUMBER}(?:\s+(?:{_MONTH}|bulan\s+(?:depan|ini)))?{_YEAR}(?!\s+(?:lalu|kemarin
  |kemaren))
  | {_NUMBER}\s+{_MONTH}{_YEAR} | {_DATE}
  | h\s?[-+]\s?\d{{1,2}}(?:\s+(?:sebelum\s+)?(?:hari\s+)?(?:{_HOLIDAY}|\w+))?
  | (?:{_NUMBER}\s+|se)(?:hari|minggu|pekan|bulan)\s+(?:sebelum|setelah|sesudah)\s+(?:{_HOLIDAY}|{_EVENT_ID})
  | (?:akhir|awal|pertengahan)\s+(?:hari|{_PERIOD}|{_MONTH}|q[1-4])(?:\s+(?:ini|depan|{_MONTH}))?{_YEAR}
  | q[1-4]{_YEAR}
  | {_PERIOD}\s+(?:ini|depan)(?:nya)?(?:,?\s+hari\s+\w+)?
  | (?:hari|pagi|siang|sore|malam|malem)\s+ini(?:\s+juga)?
  | malam\s+minggu | sekarang\s+juga
  | (?:sebelum\s+(?:jam\s+)?|jam\s+)makan\s+siang | minggu-minggu\s+ini | sesuk
  | (?:nanti|ntar|entar)\s+(?:siang|sore|malam|malem)
  | (?:(?:bsk|besok)(?:\s+lusa)?|lusa){_PART_ID}
  | (?:minggu|pekan)\s+(?:pertama|kedua|ketiga|keempat)(?:\s+(?:{_MONTH}|bulan\s+(?:ini|depan)))?
  | (?:jam|pukul)\s+(?:\d{{1,2}}(?:[.:]\d{{2}})?|{_NUMBER})(?:\s+an)?{_PART_ID}
  | (?:dalam\s+(?:waktu\s+)?)?(?:{_NUMBER}\s+|se)(?:jam|hari|minggu|pekan|bulan)\s+(?:lagi|ke\s+depan
  |dari\s+sekarang)
  | dalam\s+(?:waktu\s+)?(?:{_NUMBER}\s+|se)(?:jam|hari|minggu|pekan|bulan)
  | (?:setelah|sesudah|habis|abis|sehabis|selesai)\s+(?:rapat|meeting|acara|ini|makan\s+siang)(?:\s+ini)?
  | (?:setiap|tiap)\s+(?:(?:tanggal|tgl)\s+{_NUMBER}|(?:{_DAY_ID}){_PART_ID}|hari|pagi
  |sore|malam|malem|minggu|bulan|akhir\s+bulan|awal\s+bulan)
  | {_EVENT_ID}\s+(?:berikutnya|selanjutnya|depan|mendatang)
  | weekend\s+(?:ini|depan) | secepatnya | sesegera\s+mungkin | secepat\s+mungkin
"""
_SPOKEN_BY_ID: Final = (
    rf"(?:sebelum|sebelom|sampai|pas|saat|h\+?1\s+setelah)\s+(?:{_HOLIDAY}|{_EVENT_ID}(?:\s+(?:dimulai"
    rf"|mulai|ini))?|dia\s+masuk)|(?:sebelum|sebelom)\s+(?!nya)\w+(?:\s+\w+){{0,2}}(?=\s*(?:ya|yah|pak|bu"
    rf"|dong)?[\s.,!?]*$)"
)
_WHEN_EN: Final = rf"""
    (?<!last\s)(?:(?:this|next)\s+(?:coming\s+)?|coming\s+)?{_DAY_EN}(?:\s+(?:next
    |this)\s+week)?{_PART_EN}(?:,?\s+(?:the\s+)?{_ORDINAL})?
  | the\s+(?:\d{{1,2}}(?:st|nd|rd|th)|{_ORDINAL}(?=\s*(?:[.,;!?]|$|at\b|of\b
  |for\b)))(?:\s+of\s+(?:{_MONTH}|next\s+month|this\s+month))?(?!\s+(?:one|time|thing|option|week|half
  |floor|item|point))
  | {_MONTH}\s+(?:the\s+)?(?:\d{{1,2}}(?:st|nd|rd|th)?|{_ORDINAL})\b{_YEAR}
  | \d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}{_YEAR} | {_DATE}
  | (?:the\s+)?(?:very\s+)?(?:end|beginning|middle|start)\s+of\s+(?:the\s+|this\s+|next\s+)?(?:business\s+)?
    (?:day|{_PERIOD_EN}|{_MONTH}|q[1-4]){_YEAR}
  | (?:early|mid|late)[\s-](?:next\s+)?(?:{_MONTH}|week|month){_YEAR}
  | q[1-4]{_YEAR} | (?:month|year|quarter)[-\s]end | eom | eow | eod | cob
  | (?:this|next)\s+(?:{_PERIOD_EN}|weekend|sprint|morning|afternoon|evening)(?:\s+on\s+{_DAY_EN})?
  | (?:the\s+)?day\s+after\s+tomorrow
  | (?:noon\s+)?tomorrow{_PART_EN} | today | tonight | noon | end\s+of\s+play
  | \d{{1,2}}(?::\d{{2}})?\s?(?:am|pm|o'clock)
  | (?:in|within)\s+(?:the\s+next\s+)?(?:{_NUMBER}|an?|a\s+few|a\s+couple\s+of)\s+(?:hours?|days?|weeks?
  |months?)
  | (?:{_NUMBER}|an?|a\s+couple\s+of)\s+(?:days?|weeks?)\s+(?:from\s+(?:now|today)|before\s+{_HOLIDAY})
  | (?:right\s+)?after\s+(?:the|this)\s+(?:meeting|call) | after\s+(?:lunch|this) | over\s+the\s+weekend
  | (?:every|each)\s+(?:{_DAY_EN}|day|week|month|morning)
  | (?:the\s+)?next\s+{_EVENT_EN}
  | as\s+soon\s+as\s+possible | asap
"""
_SPOKEN_BY_EN: Final = (
    rf"(?:before|by|until)\s+(?:{_HOLIDAY}|the\s+{_EVENT_EN}|our\s+next\s+{_EVENT_EN}|lunch)"
    r"|before\s+(?:we|they|the|our|he|she)\s+\w+(?:\s+\w+)?(?=\s*(?:please)?[.,!?]*$)"
    r"|before\s+\w+(?=[.,!?]*$)"
)


def _phrase(by: str, when: str, spoken: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:(?:{by})?(?:{when})|{spoken})(?![\w-])", re.IGNORECASE | re.VERBOSE)


_SPOKEN: Final = re.compile(f"{_SPOKEN_BY_ID}|{_SPOKEN_BY_EN}", re.IGNORECASE)
_PHRASES: Final = (_phrase(_BY_ID, _WHEN_ID, _SPOKEN_BY_ID), _phrase(_BY_EN, _WHEN_EN, _SPOKEN_BY_EN))
_PAST: Final = re.compile(r"\b(?:tadi|kemarin|kemaren|sejak|dari|since|last)\s+$", re.IGNORECASE)
# The day of a thing, by which nothing is due: "risalah rapat hari ini".
_OF_A_THING: Final = re.compile(
    r"\b(?:(?<!habis\s)(?<!setelah\s)rapat|notul\w*|risalah|undangan)\s+(?:hari\s+ini|rapat\s)", re.IGNORECASE
)
_DEADLINE: Final = re.compile(
    r"(?:paling|selambat|sebelum|deadline|tenggat|batas|by\b|before|until|no\s+later|due\b)", re.IGNORECASE
)
_AFTER: Final = (
    r"(?:ya|please|pak|bu|latest|at\s+the\s+latest|harus\s+sudah\s+\w+|sudah\s+\w+|kelar|beres|selesai"
    r"|oke|dong)"
)
_DUE_AT_END: Final = re.compile(rf"[\s.,;:!?…]*(?:{_AFTER}[\s.,;:!?…]*){{0,3}}", re.IGNORECASE)


def due_in(text: str) -> str | None:
    """Return the due phrase, with the due words that directly follow; a deadline before any other."""
    found = _found(text)
    return None if found is None else text[found[0] : found[1]]


def without_due(text: str) -> str:
    """Return the text without a due phrase at its end."""
    found = _found(text)
    if found is None or not _DUE_AT_END.fullmatch(text, found[1]):
        return text
    return text[: found[0]].rstrip(" ,;:-")


def due_at(text: str, begin: int) -> int:
    """Return the end of a due phrase that begins at a place, or the place."""
    return max((found.end() for phrase in _PHRASES if (found := phrase.match(text, begin))), default=begin)


def due_spans(text: str) -> list[tuple[int, int]]:
    """Return the due phrases of a text, in order; those that follow one another directly are one."""
    things = [found.end() for found in _OF_A_THING.finditer(text)]
    spans = sorted(found.span() for phrase in _PHRASES for found in phrase.finditer(text))
    joined: list[tuple[int, int]] = []
    for begin, end in spans:
        if _PAST.search(text, 0, begin) or any(begin < thing <= end for thing in things):
            continue
        if joined and (begin < joined[-1][1] or not text[joined[-1][1] : begin].strip(" ,")):
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _found(text: str) -> tuple[int, int] | None:
    """Find the due phrase: a deadline before another day, and a day before other words."""

    def rank(span: tuple[int, int]) -> tuple[bool, bool]:
        return _SPOKEN.fullmatch(text, *span) is not None, _DEADLINE.match(text, span[0]) is None

    return min(due_spans(text), key=rank, default=None)
