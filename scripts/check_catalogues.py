"""The catalogues of the pages: every text of the templates and the code, in every other language.

Without arguments it takes new texts into `catalogues/*.po` and drops those that are gone; with `--check` it
writes nothing and exits 1 where a catalogue is not so, a translation is empty, or lacks a value of its text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

WEB = Path(__file__).resolve().parent.parent / "src/meetcore/adapters/web"
METHODS = [("**/templates/**.html", "jinja2.ext:babel_extract"), ("**.py", "python")]
OPTIONS = {"**/templates/**.html": {"trimmed": "true", "silent": "false"}}
# `_` marks a text, `text` translates one at once.
KEYWORDS = {"_": None, "gettext": None, "text": None, "ngettext": (1, 2), "plural": (1, 2)}
VALUE = re.compile(r"%\(\w+\)s")


def updated(path: Path) -> Catalog:
    """A catalogue with the texts as they stand in the code, and the translations that it had."""
    found = Catalog()
    for file, _, message, _, _ in extract_from_dir(str(WEB), METHODS, OPTIONS, KEYWORDS):
        found.add(message, locations=[(Path(file).as_posix(), 1)])
    with path.open("rb") as source:
        catalogue = read_po(source, locale=path.stem)
    catalogue.update(found, no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.fuzzy = False
    return catalogue


def rendered(catalogue: Catalog) -> str:
    """A catalogue as a file, without dates and places: both would change with every edit of the code."""
    out = BytesIO()
    write_po(out, catalogue, width=110, no_location=True, omit_header=False, sort_output=True)
    lines = out.getvalue().decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith(('"POT-C', '"PO-Rev'))).rstrip() + "\n"


def faults(catalogue: Catalog) -> Iterator[str]:
    """The texts that are not translated, or with other values."""
    for each in catalogue:
        source = each.id if isinstance(each.id, str) else each.id[-1]
        for text in each.string if isinstance(each.string, tuple) else (each.string,):
            if source and (not text or set(VALUE.findall(source)) != set(VALUE.findall(text))):
                yield f"no translation of {source!r}, or one with other values"


def main(arguments: list[str]) -> int:
    """Write the catalogues, or check them; return the exit status."""
    wrong = []
    for path in sorted(WEB.glob("catalogues/*.po")):
        catalogue = updated(path)
        if arguments != ["--check"]:
            path.write_text(rendered(catalogue), "utf-8")
            continue
        wrong += [f"{path.name}: {each}" for each in faults(catalogue)]
        if path.read_text("utf-8") != rendered(catalogue):
            wrong.append(f"{path.name} has other texts than the code: run python scripts/check_catalogues.py")
    if wrong:
        print("\n".join(wrong[:40]), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
