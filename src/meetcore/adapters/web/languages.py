"""The languages of the pages: which one a browser gets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from meetcore.domain.notes.notes import Language

CATALOGUES: Final = Path(__file__).parent / "catalogues"


NAMES: Final[Mapping[Language, str]] = {Language.ENGLISH: "English", Language.INDONESIAN: "Bahasa Indonesia"}


def choose_language(chosen: str | None, accepted: str) -> Language:
    """Choose the language of a page.

    Args:
        chosen: what the visitor switched to, from a cookie.
        accepted: the `Accept-Language` header (RFC 9110, 12.5.4); its order decides, weights are read.

    Returns:
        English where neither names a language of the pages.
    """
    if chosen in set(Language):
        return Language(chosen)
    ranked = sorted((_weighted(item) for item in accepted.split(",")[:20]), key=lambda pair: -pair[1])
    for tag, weight in ranked:
        code = "id" if tag == "in" else tag  # browsers of old Android say "in"
        if weight > 0 and code in set(Language):
            return Language(code)
    return Language.ENGLISH


def _weighted(item: str) -> tuple[str, float]:
    tag, _, parameter = item.strip().lower().partition(";")
    try:
        weight = float(parameter.strip().removeprefix("q=")) if parameter else 1.0
    except ValueError:
        weight = 0.0
    return tag.strip().partition("-")[0], weight
