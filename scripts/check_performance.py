"""docs/performance.md and its charts, made of docs/performance/*.json, which the runs of `make bench` fill.

Without arguments the page is written; with `--check` nothing is written, and the exit code is 1 where it is
stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.performance_page import read_figures, wanted_files, write_page  # noqa: E402  # the path comes first

DOCS = ROOT / "docs"


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` report that it is stale."""
    if arguments != ["--check"]:
        write_page(DOCS)
        return 0
    stale = stale_files(DOCS)
    for path in stale:
        print(
            f"docs/{path} is not what its figures make: run python scripts/check_performance.py",
            file=sys.stderr,
        )
    return 1 if stale else 0


def stale_files(docs: Path) -> list[str]:
    """The files that are not what their figures make of them."""
    wanted = wanted_files(read_figures(docs))
    return [
        path
        for path, text in wanted.items()
        if not (docs / path).exists() or (docs / path).read_text("utf-8") != text
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
