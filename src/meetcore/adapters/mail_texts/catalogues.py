"""The translations of mails. English stands in the code; a catalogue is compiled when it is first read."""

from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from typing import Final

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from meetcore.domain.notes.notes import Language

CATALOGUES: Final = Path(__file__).parent / "catalogues"


@cache
def translations(language: Language) -> NullTranslations:
    """Return the texts of a language."""
    if language is Language.ENGLISH:
        return NullTranslations()
    with (CATALOGUES / f"{language.value}.po").open("rb") as source:
        catalogue = read_po(source, locale=language.value)
    compiled = BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    return GNUTranslations(compiled)
