"""Texts in several languages: English stands in the code, a catalogue of gettext translates it.

A catalogue is a `.po` file, compiled in memory when its language is first asked for: there is no build step.
"""

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
