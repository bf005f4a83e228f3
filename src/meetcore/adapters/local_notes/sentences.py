"""Transcripts split into sentences; each is an exact part of one utterance.

Owns the splitting. Text without full stops, as of some transcribers, is split between words: no sentence is
longer than 400 letters, so that every rule has an end.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from attrs import field, frozen

from meetcore.domain.notes.transcripts import Transcript

MOST_SENTENCES: Final = 10_000
"""How many sentences of a transcript are looked at: six hours of talking without a pause."""

_LONGEST: Final = 400
# Of one utterance: two hours without a pause.
_MOST_CHARS: Final = 100_000
# A full stop ends a sentence before a space and what is no small letter, unless it ends a short form.
# Each word and each run of stops is looked at once: a million letters without a space must not take for ever.
_END: Final = re.compile(r"""(?:(?<!\w)(\w++)|(?<![\w.!?…]))[.!?…]++["')\]]*+(?=\s+[^\sa-z])""")
_SHORT: Final = frozenset({"Bpk", "Dr", "Hj", "Ir", "Jl", "Mr", "Mrs", "Ms", "No", "Prof", "Rp", "St"})


@frozen
class Sentence:
    """One sentence, its speaker, and the second at which its utterance begins."""

    text: str = field(repr=False)
    at_s: float
    speaker: str | None = field(repr=False)


def sentences_of(transcript: Transcript) -> list[Sentence]:
    """The sentences in the order of time, `MOST_SENTENCES` at most."""
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
    """A sentence, or a part between two spaces of one that is too long."""
    text = text.strip()
    while len(text) > _LONGEST:
        cut = text.rfind(" ", 1, _LONGEST)
        cut = _LONGEST if cut < 0 else cut
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text
