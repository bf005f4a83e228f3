"""Citations: verify that a quote in a note is in the transcript, and at which second.

A note writer may be a model that misquotes. Each of its quotes is searched for in the
transcript, and the result is the transcript's own text or `None`.
"""

import re
from typing import Final

from attrs import field, frozen

from meetcore.domain.notes.transcripts import Transcript, Utterance

__all__ = ["Quote", "find_citation", "is_in_vocabulary", "vocabulary"]

_FEWEST_LETTERS: Final = 8
_MAX_WORDS: Final = 200
_REACH: Final = 50
_WORD: Final = re.compile(r"\w+")


@frozen
class Quote:
    """Verbatim text of one utterance, and the second at which that utterance begins."""

    text: str = field(repr=False)
    at_s: float


def find_citation(transcript: Transcript, quote: str, near: int) -> Quote | None:
    """Find the passage of a transcript that a writer quotes.

    Args:
        quote: the text as the writer gave it. Letter case, white space and punctuation are ignored.
        near: the index in the transcript, from 0, that the writer gave for it.

    Returns:
        The matching text: in that utterance, else in the nearest of the 50 utterances before and after
        it, if the quote is long enough to be distinctive. Without a match, the whole utterance at
        that index; `None` where there is no such index.
    """
    wanted = [word.casefold() for word in _WORD.findall(quote)][:_MAX_WORDS]
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
    """Return every spoken word and every word of a speaker's name, folded for `is_in_vocabulary`."""
    found_words: set[str] = set()
    for one in transcript:
        found_words.update(word.casefold() for word in _WORD.findall(f"{one.speaker or ''} {one.text}"))
    return frozenset(found_words)


def is_in_vocabulary(text: str, among: frozenset[str]) -> bool:
    """Return whether a text, such as an owner or a day, has words and all of them are in a vocabulary."""
    wanted = {word.casefold() for word in _WORD.findall(text)}
    return bool(wanted) and wanted <= among


def _within(utterance: Utterance, wanted: list[str]) -> Quote | None:
    """Return the part of an utterance that has these words in sequence."""
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
