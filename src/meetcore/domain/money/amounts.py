"""Whole credits as people type them, in a form, in the console or on a command line."""

import re
from collections.abc import Mapping
from typing import Final

from meetcore.domain.money.transfers import MAX_CREDITS, InvalidAmount
from meetcore.domain.notes.notes import Language

SEPARATORS: Final[Mapping[Language, str]] = {Language.ENGLISH: ",", Language.INDONESIAN: "."}
"""What stands between groups of three digits."""
_DIGITS: Final = "[0-9]{1,18}"


MAX_TYPED: Final = 10**12 - 1
"""The largest cap or threshold that is read."""


def read_amount(
    text: str, language: Language | None = None, *, least: int | None = None, most: int = MAX_CREDITS
) -> int:
    """Read digits, with or without a sign and separators: in a language, its own between groups of three.

    `1.5` is neither 15 nor 1500, and `1,500` of one language is no number of the other: anything else, or
    what is below `least` (without it, `-most`) or above `most`, raises `InvalidAmount`.
    """
    groups = (
        "" if language is None else rf"|[0-9]{{1,3}}(?:{re.escape(SEPARATORS[language])}[0-9]{{3}}){{1,5}}"
    )
    found = re.fullmatch(rf"([+-]?)({_DIGITS}{groups})", text.strip())
    if found is None:
        raise InvalidAmount("it must be a whole number")
    amount = int(found[1] + re.sub("[.,]", "", found[2]))
    least = -most if least is None else least
    if not least <= amount <= most:
        raise InvalidAmount(f"it must be a whole number from {least} to {most}")
    return amount
