"""A goal is judged as it reads, and a run fills its own section of docs/performance.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.report import PAGE, Result, save


def test_the_page_has_a_table_of_each_form_that_is_saved() -> None:
    text = PAGE.read_text("utf-8")
    assert re.findall("<!-- measured: (.*) -->", text) == ["bench", "growth", "peers"]
    assert text.count("| ours | floor | ratio |") == 3


@pytest.mark.parametrize(("goal", "ours", "floor", "met"), [
    ("ratio ≥ 0.4", 40.0, 100.0, True),
    ("ratio ≥ 0.4", 39.0, 100.0, False),
    ("ratio ≥ 0.4", 39.0, None, None),
    ("ratio ≤ 1.2", 1.3, 1.0, False),
    ("ratio ≥ 0.2; ≥ 1500/s", 1_400.0, 2_000.0, False),
    ("≥ 100000", 100_001.0, None, True),
    ("adds ≤ 40 ms", 50.0, 3.0, False),
    ("ratio ≥ 0.25; CPU ≤ 1500 µs", 30.0, 100.0, False),
    ("CPU ≤ 1600 µs", 30.0, 100.0, True),
    ("≤ 5 µs", 4.0, None, True),
    ("", 4.0, 1.0, None),
])  # fmt: skip
def test_a_goal_is_judged_as_it_reads(goal: str, ours: float, floor: float | None, met: bool | None) -> None:
    """The request took 1 600 µs of processor time."""
    assert Result("x", ours, floor, "ms", goal, cpu_us=1_600).is_met is met


def test_a_run_fills_its_own_section_and_leaves_the_others(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    growth = "<!-- measured: growth -->\nold\n<!-- end of growth -->\n"
    page.write_text(f"Text.\n<!-- measured: bench -->\n<!-- end of bench -->\n\n{growth}")
    for ours in (50.0, 90.0):
        result = Result("GET /me", ours, 100.0, "requests/s", "ratio ≥ 0.8", 203.4)
        save("bench", [result], "PostgreSQL 15.20", page)
    text = page.read_text("utf-8")
    assert text.count("| GET /me |") == 1
    assert "| GET /me | 90.00 | 100 | 0.90 | requests/s | 203 | ratio ≥ 0.8 | yes |\n" in text
    assert text.endswith(growth)
    assert text.startswith("Text.\n<!-- measured: bench -->\n\n`make bench`, 20")
    with pytest.raises(SystemExit, match="no place for peers"):
        save("peers", [], "PostgreSQL 15.20", page)


def test_figures_name_no_path(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("<!-- measured: bench -->\n<!-- end of bench -->\n")
    save("bench", [], "PostgreSQL 15.20", page)
    assert "/" not in page.read_text("utf-8").replace("GET /", "")
