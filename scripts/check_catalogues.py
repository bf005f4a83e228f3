"""The catalogues of the pages: every text of the templates and the code, in every other language.

Without arguments it takes new texts into `catalogues/*.po` and drops those that are gone; with `--check` it
writes nothing and exits 1 where a catalogue lacks a text or its translation, or a translation lacks a value
of its text.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "src/meetcore/adapters/web"
METHODS = [("**/templates/**.html", "jinja2.ext:babel_extract"), ("**.py", "python")]
OPTIONS = {"**/templates/**.html": {"trimmed": "true", "silent": "false"}}
# `_` marks a text, `text` translates one at once.
KEYWORDS = {"_": None, "gettext": None, "text": None, "ngettext": (1, 2)}
VALUE = re.compile(r"%\(\w+\)s")


def texts() -> Catalog:
    """The texts as they stand in the code."""
    found = Catalog()
    for file, _, message, _, _ in extract_from_dir(str(WEB), METHODS, OPTIONS, KEYWORDS):
        found.add(message, locations=[(Path(file).as_posix(), 1)])
    return found


def updated(path: Path, found: Catalog) -> Catalog:
    """A catalogue with the texts of the code and the translations that it had."""
    catalogue = Catalog(locale=path.stem, project="meetcore", fuzzy=False)
    if path.exists():
        with path.open("rb") as source:
            catalogue = read_po(source, locale=path.stem)
    catalogue.update(found, no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.fuzzy = False
    return catalogue


def problems(path: Path, found: Catalog) -> list[str]:
    """What a catalogue lacks."""
    with path.open("rb") as source:
        catalogue = read_po(source, locale=path.stem)
    lacking = [
        f"{path.name}: no text {each.id!r}" for each in found if each.id and catalogue.get(each.id) is None
    ]
    gone = [
        f"{path.name}: {each.id!r} is used nowhere"
        for each in catalogue
        if each.id and found.get(each.id) is None
    ]
    return (
        lacking + gone + [f"{path.name}: {text}" for each in catalogue if each.id for text in _faults(each)]
    )


def _faults(message: Message) -> list[str]:
    translated = message.string if isinstance(message.string, tuple) else (message.string,)
    if not all(translated):
        return [f"no translation of {message.id!r}"]
    source = message.id if isinstance(message.id, str) else message.id[-1]
    return [
        f"the translation of {source!r} has other values"
        for text in translated
        if set(VALUE.findall(source)) != set(VALUE.findall(text))
    ]


def write(path: Path, catalogue: Catalog) -> None:
    """Write a catalogue, without dates and places: both would change with every edit of the code."""
    out = BytesIO()
    write_po(out, catalogue, width=110, no_location=True, omit_header=False, sort_output=True)
    lines = [
        line for line in out.getvalue().decode().splitlines() if not line.startswith(('"POT-C', '"PO-Rev'))
    ]
    path.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


def main() -> int:
    """Write the catalogues, or check them; return the exit status."""
    found = texts()
    catalogues = sorted(WEB.glob("catalogues/*.po"))
    if "--check" not in sys.argv:
        for path in catalogues:
            write(path, updated(path, found))
        return 0
    wrong = [problem for path in catalogues for problem in problems(path, found)]
    if wrong:
        print("\n".join(wrong[:40]), file=sys.stderr)
        print("run python scripts/check_catalogues.py, then translate what is empty", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
