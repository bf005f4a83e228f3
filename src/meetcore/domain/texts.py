"""Customers' texts: their lengths and characters, and search of titles by words.

Rules 4.1/title, 4.1/description and 4.3/description. A search finds titles in which each of its words begins
a word; case is ignored, and marks and blanks separate words.
"""

import re
from typing import Final
from unicodedata import category

from attrs import frozen

_TABS_AND_BREAKS = ("\t", "\n", "\r")


_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and a symbol that are drawn as nothing."""


def is_blank(text: str) -> bool:
    """Return whether nothing of a text can be seen: blanks, marks without a letter, invisible characters."""
    return all(category(char)[0] in "ZCM" or char in _FILLERS for char in text)


def count_of(number: int, unit: str) -> str:
    """Return a number with its unit, which is given in the singular."""
    return f"{number} {unit}" if abs(number) == 1 else f"{number} {unit}s"


@frozen
class TextLimits:
    """The limits of a text, in code points. Tabs and line breaks are allowed where it `has_lines`.

    Where there is a least length, a character can be seen.
    """

    max_length: int
    min_length: int = 0
    has_lines: bool = False

    def problems(self, text: str) -> list[str]:
        """Return every problem of a text; each continues a sentence that begins with the field's name."""
        problems = []
        if not self.min_length <= len(text) <= self.max_length:
            least = f"{self.min_length} to" if self.min_length else "at most"
            problems.append(f"must be {least} {self.max_length} characters long")
        elif self.min_length and is_blank(text):
            problems.append("must have a character that can be seen")
        allowed = _TABS_AND_BREAKS if self.has_lines else ()
        if any(category(char) in ("Cc", "Cs") and char not in allowed for char in text):
            problems.append("must not contain control characters or lone surrogates")
        return problems


def printable(text: str, at_most: int) -> str:
    """Return the beginning of a text, without what a store or a page cannot show."""
    return "".join(char if char.isprintable() else "?" for char in text[:at_most])


MAX_SEARCH: Final = 200
"""Characters of a search that are looked at."""
MAX_SEARCH_WORDS: Final = 8
"""Words of a search that are looked for."""
_WORD: Final = re.compile(r"[^\W_]+")


def search_words(text: str) -> tuple[str, ...]:
    """Return the words of a search or a title in lower case; of a long search the first ones."""
    return tuple(_WORD.findall(text[:MAX_SEARCH].lower())[:MAX_SEARCH_WORDS])
