"""Split transcripts into sentences, and find names and due dates in them.

Each sentence is an exact part of one utterance. Text without full stops is split between words, at 400
letters at most, to bound the time of every rule.

A capitalised word is a name unless it often begins sentences. Due dates are the speaker's words ("paling
lambat tanggal 28", "by Friday"), not computed: "besok" depends on the day of the meeting.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from attrs import field, frozen

from meetcore.domain.notes.transcripts import Transcript

MOST_SENTENCES: Final = 10_000
"""Limit of sentences per transcript: six hours of speech without a pause."""

_LONGEST: Final = 400
# Limit per utterance: two hours without a pause.
_MOST_CHARS: Final = 100_000
# A full stop before a space and anything but a small letter ends a sentence, except after abbreviations.
# Linear: each word and each run of stops is matched once, even in a million letters without a space.
_END: Final = re.compile(r"""(?:(?<!\w)(\w++)|(?<![\w.!?…]))[.!?…]++["')\]]*+(?=\s+[^\sa-z])""")
_SHORT: Final = frozenset({"Bpk", "Dr", "Hj", "Ir", "Jl", "Mr", "Mrs", "Ms", "No", "Prof", "Rp", "St"})


@frozen
class Sentence:
    """A sentence with its speaker and the second at which its utterance begins."""

    text: str = field(repr=False)
    at_s: float
    speaker: str | None = field(repr=False)


def sentences_of(transcript: Transcript) -> list[Sentence]:
    """Return at most `MOST_SENTENCES` sentences in order."""
    return list(islice(_sentences(transcript), MOST_SENTENCES))


def _sentences(transcript: Transcript) -> Iterator[Sentence]:
    for one in transcript:
        for stretch in _stretches(one.text[:_MOST_CHARS]):
            for text in _pieces(stretch):
                yield Sentence(text, one.at_s, (one.speaker or "").strip() or None)


def _stretches(text: str) -> Iterator[str]:
    begin = 0
    for end in _END.finditer(text):
        word = end[1] or ""
        if word in _SHORT or (len(word) == 1 and word.isupper()):
            continue
        yield text[begin : end.end()]
        begin = end.end()
    yield text[begin:]


def _pieces(text: str) -> Iterator[str]:
    """Yield a sentence, in parts between spaces if it is too long."""
    text = text.strip()
    while len(text) > _LONGEST:
        cut = text.rfind(" ", 1, _LONGEST)
        cut = _LONGEST if cut < 0 else cut
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text


_NO_NAMES: Final = frozenset(
    """
    acara ada agar agenda aku anda anggaran apa apakah atau bagaimana baik baiklah barang berarti besok
    biaya bisa boleh bulan coba dan dari data deadline dengan di dia dokumen dua gue hal harga hari
    harus hasil ini itu iya jadi jangan jika jumlah kalau kalian kalo kami kamu kapan karena kemarin
    kemudian keputusan kita lalu laporan lo lu maaf makanya mari masalah mereka minggu mohon mungkin nah
    namun nanti ok okay oke padahal pagi pasar pekan pelanggan pembayaran perusahaan produk proyek rapat
    rencana ruangan saat saya sebelum sebenarnya selamat selanjutnya semoga semua sepertinya server
    setelah setuju siang siapa silakan sip sistem sore sudah supaya tadi tahun tampaknya tapi tentu
    terima tetapi tidak tiga tolong uang untuk usulan versi waktu ya yang

    a actually after agreed all alright also and another any anybody anyone anything are as at because
    before but can could customers demand did do does either english even every everybody everyone
    everything exactly finally fine first for from good great he hello her here hers hey hi his
    hopefully how however i if in indeed is it its just let let's lets look maybe meanwhile meeting more
    most much my next no nobody none not nothing now of ok on once one only or our ours people perhaps
    please prices probably project rain really right sales she should since so some somebody someone
    something sorry still sure thank thanks that the their them then there these they things this those
    though thus to today tomorrow tonight two unless until us users very wait we well what whatever when
    where whether which while who whoever why will with would yeah yes yesterday yet you your yours
    """.split()  # noqa: SIM905  # a list of words is read as words
)
_TITLE: Final = r"(?:Pak|Bu|Bapak|Ibu|Mas|Mbak|Kak|Bang|Bung|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)"
_WORD: Final = r"[A-ZÀ-ÖØ-Þ][\w'’-]*"  # noqa: RUF001  # the apostrophe of software
_NO_NAME: Final = rf"(?!(?i:{'|'.join(sorted(_NO_NAMES))})\b)"
NAME: Final = rf"{_NO_NAME}(?:{_TITLE}\s+)?{_WORD}(?:\s+{_WORD}){{0,2}}"
"""Pattern of a name, with or without a title."""

_TEAM: Final = r"(?:[Tt]im|[Dd]ivisi|[Bb]agian)\s+[\w-]+|[Tt]he\s+(?:[\w-]+\s+){1,2}team"
WHO: Final = rf"(?:{_TEAM}|{NAME})"
"""Pattern of a name or a team."""


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


# Due words combine: "besok pukul 10", "on Friday at noon".
_PHRASES: Final = (_phrase(_BY_ID, _WHEN_ID), _phrase(_BY_EN, _WHEN_EN))
_DUE_AT_END: Final = re.compile(r"[\s.,;:!?…]*(?:ya|please|pak|bu)?[\s.,;:!?…]*", re.IGNORECASE)


def due_in(text: str) -> str | None:
    """Return the first due phrase, with the due words that directly follow."""
    found = _found(text)
    return None if found is None else text[found[0] : found[1]]


def without_due(text: str) -> str:
    """Return the text without a due phrase at its end."""
    found = _found(text)
    if found is None or not _DUE_AT_END.fullmatch(text, found[1]):
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
