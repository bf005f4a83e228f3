"""Languages of people: which one, and texts and amounts of money in it.

English stands in the code, a catalogue of gettext translates it.

A catalogue is a `.po` file, compiled in memory when its language is first asked for: there is no build step.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from typing import Final

from meetcore.domain.notes.notes import Language


@cache
def translations(folder: Path, language: Language) -> NullTranslations:
    """Return the texts of a language by the catalogue `<language>.po` of a folder; English as it is."""
    if language is Language.ENGLISH:
        return NullTranslations()
    from babel.messages.mofile import write_mo  # with the first text in another language
    from babel.messages.pofile import read_po

    with (folder / f"{language.value}.po").open("rb") as source:
        catalogue = read_po(source, locale=language.value)
    compiled = BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    return GNUTranslations(compiled)


# Those of ISO 4217, but for the rupiah. Babel has the digits of CLDR: none for HUF, COP and others.
_NO_DECIMALS: Final = "BIF CLP DJF GNF IDR ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE_DECIMALS: Final = "BHD IQD JOD KWD LYD OMR TND"


def format_money(amount: int, currency: str, language: Language) -> str:
    """Format money in units of its currency: whole rupiah, else the minor unit (ISO 4217)."""
    from babel.numbers import format_decimal, get_currency_symbol

    digits = 0 if currency in _NO_DECIMALS else 3 if currency in _THREE_DECIMALS else 2
    pattern = f"#,##0.{'0' * digits}" if digits else "#,##0"
    number = format_decimal(Decimal(abs(amount)).scaleb(-digits), pattern, language.value)
    symbol = get_currency_symbol(currency, language.value)
    space = "\N{NO-BREAK SPACE}" if symbol == currency else ""
    sign = "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}{symbol}{space}{number}"


CLOCKS: Final[Mapping[Language, str]] = {Language.ENGLISH: "HH:mm", Language.INDONESIAN: "HH.mm"}
"""The pattern of a time of day to the minute."""


def choose_language(chosen: str | None, accepted: str) -> Language:
    """Choose the language of a page: that of the cookie, else of `Accept-Language`, else English.

    The highest weight in the header decides, then the order (RFC 9110, 12.5.4).
    """
    if chosen in set(Language):
        return Language(chosen)
    for accepted_range, weight in read_weights(accepted):
        tag = accepted_range.partition("-")[0]
        code = "id" if tag == "in" else tag  # browsers of old Android say "in"
        if weight > 0 and code in set(Language):
            return Language(code)
    return Language.ENGLISH


def read_weights(accepted: str) -> list[tuple[str, float]]:
    """Return up to 20 values of an `Accept` header in lower case by weight (RFC 9110, 12.4.2), highest first.

    A value with a weight that is no number has 0: it is not accepted.
    """
    return sorted((_weighted(item) for item in accepted.split(",")[:20]), key=lambda pair: -pair[1])


def _weighted(item: str) -> tuple[str, float]:
    value, _, parameter = item.strip().lower().partition(";")
    try:
        weight = float(parameter.strip().removeprefix("q=")) if parameter else 1.0
    except ValueError:
        weight = 0.0
    return value.strip(), weight
