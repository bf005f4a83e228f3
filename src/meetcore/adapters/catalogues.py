"""Texts and amounts of money in several languages.

English stands in the code, a catalogue of gettext translates it.

A catalogue is a `.po` file, compiled in memory when its language is first asked for: there is no build step.
"""

from decimal import Decimal
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

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


def format_money(amount: int, currency: str, language: Language) -> str:
    """Format money in units of its currency: whole rupiah, else the minor unit (ISO 4217)."""
    from babel.numbers import format_decimal, get_currency_precision, get_currency_symbol

    digits = 0 if currency == "IDR" else get_currency_precision(currency)
    pattern = f"#,##0.{'0' * digits}" if digits else "#,##0"
    number = format_decimal(Decimal(abs(amount)).scaleb(-digits), pattern, language.value)
    symbol = get_currency_symbol(currency, language.value)
    space = "\N{NO-BREAK SPACE}" if symbol == currency else ""
    sign = "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}{symbol}{space}{number}"
