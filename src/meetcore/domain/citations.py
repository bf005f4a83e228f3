"""Quotes: whatever a note says that was said was said, and at that second.

A writer may be a machine that remembers words wrongly. What it gives for a quote is looked for in the
transcript, and what comes out is the transcript's own text or nothing.

Owns that search. Refuses to judge whether a quote bears out what a note says of it.
"""

import re
from typing import Final

from attrs import field, frozen

from meetcore.domain.transcripts import Transcript, Utterance

__all__ = ["Quote", "find_citation", "is_said", "vocabulary"]

_FEWEST_LETTERS: Final = 8
_MOST_WORDS: Final = 200
_REACH: Final = 50
_WORD: Final = re.compile(r"\w+")


@frozen
class Quote:
    """Words of one utterance, letter for letter, and the second at which that utterance begins."""

    text: str = field(repr=False)
    at_s: float


def find_citation(transcript: Transcript, words: str, near: int) -> Quote | None:
    """What somebody said that a writer quotes.

    Args:
        transcript: what was said.
        words: the quote as the writer remembers it. Letter case, white space and punctuation do not count.
        near: the place in the transcript, from 0, at which the writer says that it stands.

    Returns:
        The words where they stand: at that place, else in the nearest of the 50 utterances before and after
        it, if they are long enough to be told from others. Where they stand in none, the whole utterance at
        that place; none where there is no such place.
    """
    wanted = [word.casefold() for word in _WORD.findall(words)][:_MOST_WORDS]
    is_place = 0 <= near < len(transcript)
    if is_place and (found := _within(transcript[near], wanted)):
        return found
    if sum(map(len, wanted)) >= _FEWEST_LETTERS:
        reach = range(max(0, near - _REACH), min(len(transcript), near + _REACH + 1))
        for at in sorted(reach, key=lambda at: abs(at - near)):
            if found := _within(transcript[at], wanted):
                return found
    if is_place and (whole := transcript[near].text.strip()):
        return Quote(whole, transcript[near].at_s)
    return None


def vocabulary(transcript: Transcript) -> frozenset[str]:
    """Every word that was said, and every word of a speaker's name, folded for `is_said`."""
    words: set[str] = set()
    for one in transcript:
        words.update(word.casefold() for word in _WORD.findall(f"{one.speaker or ''} {one.text}"))
    return frozenset(words)


def is_said(words: str, among: frozenset[str]) -> bool:
    """Whether there are words, and each is in a vocabulary: an owner that was named, a day that was told."""
    wanted = {word.casefold() for word in _WORD.findall(words)}
    return bool(wanted) and wanted <= among


def _within(utterance: Utterance, wanted: list[str]) -> Quote | None:
    """The stretch of an utterance that has these words one after the other."""
    if not wanted:
        return None
    found = list(_WORD.finditer(utterance.text))
    words = [word[0].casefold() for word in found]
    for first in range(len(words) - len(wanted) + 1):
        if words[first : first + len(wanted)] == wanted:
            begin, end = found[first].start(), found[first + len(wanted) - 1].end()
            while end < len(utterance.text) and utterance.text[end] in ".!?…":
                end += 1  # the sentence's own end belongs to it
            return Quote(utterance.text[begin:end], utterance.at_s)
    return None
