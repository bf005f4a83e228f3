"""Make untrusted text fit for storage and display: no control characters, no lone surrogates, bounded.

Owns that and nothing else.
"""

import re
from typing import Final

# What cannot be stored, moves a terminal's cursor or turns the direction of the text around it.
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_SPACES: Final = re.compile(r"[^\S\n]+")
_BREAKS: Final = re.compile(r" ?\n[ \n]*")


def one_line(text: str, most: int) -> str:
    """The text in one line, `most` characters at most."""
    return " ".join(_UNSEEN.sub(" ", text).split())[:most].strip()


def paragraphs(text: str, most: int) -> str:
    """The text with its line breaks, two in a row at most."""
    spaced = _SPACES.sub(" ", _UNSEEN.sub(" ", text.replace("\r\n", "\n")))
    return (
        _BREAKS.sub(lambda found: "\n\n" if found[0].count("\n") > 1 else "\n", spaced).strip()[:most].strip()
    )
