"""The table of metrics in docs/observability.md, generated from the families.

Without arguments it is written between its markers; with `--check` nothing is written, and the exit code is 1
where it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts")]

from check_docs import placed  # noqa: E402  # the path comes first

from meetcore.adapters.prometheus.families import FAMILIES, Family  # noqa: E402

PAGE = ROOT / "docs/observability.md"


def main(arguments: list[str]) -> int:
    """Write the tables, or with `--check` report that they are stale."""
    text = PAGE.read_text("utf-8")
    wanted = placed(text, "metrics of processes", table(each for each in FAMILIES if not each.of_store))
    wanted = placed(wanted, "figures of the store", table(each for each in FAMILIES if each.of_store))
    if arguments != ["--check"]:
        PAGE.write_text(wanted, "utf-8")
        return 0
    if text == wanted:
        return 0
    print(f"{PAGE.name} no longer lists the metrics: run python scripts/check_metrics.py", file=sys.stderr)
    return 1


def table(families: Iterable[Family]) -> str:
    """One row for each metric."""
    rows = [
        f"| `{each.name}` | {each.kind.value} | {', '.join(f'`{label}`' for label in each.labels)} "
        f"| {each.about} |"
        for each in families
    ]
    return "\n".join(["| metric | kind | labels | what it says |", "|---|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
