"""Due dates, in the speaker's words: "paling lambat tanggal 28", "by Friday".

Owns the finding. Dates are not computed: what "besok" means depends on the day of the meeting.
"""

import re
from typing import Final

_DAY_ID: Final = r"(?:Senin|Selasa|Rabu|Kamis|Jumat|Jum'at|Sabtu|Minggu)"
_MONTH_ID: Final = (
    r"(?:Januari|Februari|Maret|April|Mei|Juni|Juli|Agustus|September|Oktober|November|Desember)"
)
_DAY_EN: Final = r"(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_MONTH_EN: Final = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
)
_NUMBER_ID: Final = r"(?:\d{1,3}|satu|dua|tiga|empat|lima|enam|tujuh|delapan|sembilan|sepuluh)"
_NUMBER_EN: Final = (
    r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a\s+few|a\s+couple\s+of)"
)
_ORDINAL_EN: Final = (
    r"(?:\d{1,2}(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh"
    r"|twelfth|fifteenth|twentieth|thirtieth)"
)
_BY_ID: Final = (
    r"(?:paling\s+(?:lambat|telat|lama)|selambat-lambatnya|sebelum|sampai|hingga|deadline(?:nya)?|tenggat(?:nya)?"
    r"|mulai|pada|di)\s+"
)
_BY_EN: Final = (
    r"(?:by|before|until|no\s+later\s+than|not\s+later\s+than|at\s+the\s+latest\s+by|on|due|for|at)\s+"
)
_PART_ID: Final = r"(?:\s+(?:pagi|siang|sore|malam))?"
_PART_EN: Final = r"(?:\s+(?:morning|noon|afternoon|evening|night))?"
_WHEN_ID: Final = rf"""
    (?:hari\s+)?{_DAY_ID}(?:\s+(?:depan|ini|besok))?{_PART_ID}
  | tanggal\s+\d{{1,2}}(?:\s+{_MONTH_ID})?(?:\s+\d{{4}})?
  | \d{{1,2}}\s+{_MONTH_ID}(?:\s+\d{{4}})?
  | (?:akhir|awal|pertengahan)\s+(?:hari|minggu|pekan|bulan|kuartal|tahun)(?:\s+(?:ini|depan|{_MONTH_ID}))?
  | (?:minggu|pekan|bulan|tahun|kuartal)\s+(?:ini|depan)
  | (?:hari|pagi|siang|sore|malam)\s+ini
  | nanti\s+(?:siang|sore|malam)
  | besok{_PART_ID} | lusa
  | (?:jam|pukul)\s+\d{{1,2}}(?:[.:]\d{{2}})?{_PART_ID}
  | (?:dalam\s+)?{_NUMBER_ID}\s+(?:jam|hari|minggu|pekan|bulan)\s+(?:lagi|ke\s+depan)
  | dalam\s+{_NUMBER_ID}\s+(?:jam|hari|minggu|pekan|bulan)
  | secepatnya | sesegera\s+mungkin
"""
_WHEN_EN: Final = rf"""
    (?:this\s+|next\s+|coming\s+)?{_DAY_EN}{_PART_EN}
  | the\s+{_ORDINAL_EN}(?:\s+of\s+{_MONTH_EN})?
  | {_MONTH_EN}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?
  | \d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH_EN}(?:\s+\d{{4}})?
  | (?:the\s+)?(?:end|beginning|middle)\s+of\s+(?:the\s+|this\s+|next\s+)?
    (?:day|week|month|quarter|year|{_MONTH_EN})
  | (?:this|next)\s+(?:week|month|quarter|year|morning|afternoon|evening)
  | tomorrow{_PART_EN} | today | tonight | noon | EOD | COB
  | \d{{1,2}}(?::\d{{2}})?\s?(?:am|pm|o'clock)
  | (?:in|within)\s+{_NUMBER_EN}\s+(?:hours?|days?|weeks?|months?)
  | as\s+soon\s+as\s+possible | ASAP
"""


def _phrase(by: str, when: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:(?:{by})(?:{when})|(?:{when}))(?![\w-])", re.IGNORECASE | re.VERBOSE)


# A word of time may be followed by another: "besok pukul 10", "on Friday at noon".
_PHRASES: Final = (_phrase(_BY_ID, _WHEN_ID), _phrase(_BY_EN, _WHEN_EN))
_END: Final = re.compile(r"[\s.,;:!?…]*(?:ya|please|pak|bu)?[\s.,;:!?…]*", re.IGNORECASE)


def due_in(text: str) -> str | None:
    """The first due phrase, with the due words that follow at once."""
    found = _found(text)
    return None if found is None else text[found[0] : found[1]]


def without_due(text: str) -> str:
    """The text without a due phrase at its end."""
    found = _found(text)
    if found is None or not _END.fullmatch(text, found[1]):
        return text
    return text[: found[0]].rstrip(" ,;:-")


def _found(text: str) -> tuple[int, int] | None:
    spans = sorted(found.span() for phrase in _PHRASES for found in phrase.finditer(text))
    if not spans:
        return None
    begin, end = spans[0]
    for further, until in spans[1:]:
        if text[end:further].strip(" ,") == "" and further >= end:
            end = until
    return begin, end
