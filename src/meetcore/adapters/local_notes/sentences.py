"""Split transcripts into sentences.

Each sentence is an exact part of one utterance. Text without full stops is split between words, at 400
letters at most, to bound the time of every rule.
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
