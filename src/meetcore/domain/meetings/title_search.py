"""Searching meetings by their titles: by words, each of which may be the beginning of one.

Owns what a word is. Upper and lower case are one; marks and blanks part words.
"""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["MAX_SEARCH", "MAX_SEARCH_WORDS", "has_words", "search_words"]

MAX_SEARCH: Final = 200
"""Characters of a search that are looked at."""
MAX_SEARCH_WORDS: Final = 8
"""Words of a search that are looked for."""
_WORD: Final = re.compile(r"[^\W_]+")


def search_words(text: str) -> tuple[str, ...]:
    """The words of a search or a title in lower case; of a long search the first ones."""
    return tuple(_WORD.findall(text[:MAX_SEARCH].lower())[:MAX_SEARCH_WORDS])


def has_words(title: str, words: Iterable[str]) -> bool:
    """Whether each of some words begins a word of a title."""
    found = _WORD.findall(title.lower())
    return all(any(each.startswith(word) for each in found) for word in words)
