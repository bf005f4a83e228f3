"""The words of a text that carry its meaning, without the frequent words of Indonesian and English."""

import re
from typing import Final

from meetcore.adapters.local_notes.lexicon import words_of

_WORD: Final = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")
_TERM: Final = re.compile(r"\w[\w'-]*")


def content_of(text: str) -> list[str]:
    """Return the words in lower case, without stop words and single letters."""
    stopwords = words_of("stopwords")
    found = (word.casefold() for word in _WORD.findall(text))
    return [word for word in found if word not in stopwords and len(word) > 1]


def terms_of(text: str) -> frozenset[str]:
    """Return words and numbers by which two sentences are about the same thing, without endings."""
    stopwords = words_of("stopwords")
    found = (word.casefold() for word in _TERM.findall(text))
    ended = (
        word[:-3].removesuffix("-") if word.endswith("nya") and len(word) > 5 else word for word in found
    )
    return frozenset(word for word in ended if word not in stopwords and (len(word) > 2 or word.isdecimal()))
