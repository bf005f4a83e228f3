"""docs/performance.md is what its figures make of it, and a goal is judged as it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.goals import is_met
from benchmarks.performance_page import read_figures, save_figures, wanted_files
from benchmarks.report import Result
from benchmarks.texts import SECTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"
MACHINE = {
    "date": "2026-11-23", "cpu": "A CPU", "cores": 2, "memory_gb": 24, "python": "3.11.7",
    "postgresql": "15.20", "redis": "7.0", "meetcore": "0.1.0",
}  # fmt: skip
CURVE = [(10_000, 1.0), (1_000_000, 1.1), (10_000_000, 1.3)]


def test_the_page_and_its_charts_are_those_of_the_figures() -> None:
    for path, text in wanted_files(read_figures(DOCS)).items():
        assert (DOCS / path).read_text("utf-8") == text, "run python scripts/check_performance.py"


def test_figures_name_no_host_and_no_path() -> None:
    for figures in read_figures(DOCS).values():
        assert set(figures["machine"]) == set(MACHINE)


@pytest.mark.parametrize(
    ("goal", "service", "floor", "unit", "met"),
    [
        ("ratio ≥ 0.4", 40.0, 100.0, "1/s", True),
        ("ratio ≥ 0.4", 39.0, 100.0, "1/s", False),
        ("ratio ≥ 0.4", 39.0, None, "1/s", None),
        ("ratio ≤ 1.2", 1.3, 1.0, "ms", False),
        ("ratio > 1", 2.0, 1.0, "1/s", True),
        ("ratio ≥ 0.2, ≥ 1 500/s", 1_400.0, 2_000.0, "1/s", False),
        ("≥ 100 000", 100_001.0, None, "entries/s", True),
        ("adds ≤ 3 ms", 5.0, 3.0, "CPU ms/call", True),
        ("adds < 40 ms", 50.0, 3.0, "ms", False),
        ("ratio ≥ 0.25, aim 0.4; ≤ 1500 µs", 30.0, 100.0, "requests/s", False),
        ("≤ 5 µs", 4.0, None, "µs", True),
        ("", 4.0, 1.0, "µs", None),
    ],
)
def test_a_goal_is_judged_as_it_reads(
    goal: str, service: float, floor: float | None, unit: str, met: bool | None
) -> None:
    """Where it has a bound on processor time, that counts which the request took: 1 600 µs here."""
    assert is_met(Result("x", service, floor, unit, goal, {"cpu_us_per_request": 1_600})) is met


def test_a_run_fills_its_own_section_and_leaves_the_others(tmp_path: Path) -> None:
    save_figures(tmp_path, "bench", [Result("GET /me", 50.0, 100.0, "requests/s", "ratio ≥ 0.8")], MACHINE)
    save_figures(
        tmp_path,
        "growth",
        [Result("POST /meetings", 1.3, 1.0, "ms", "ratio ≤ 1.2", {"curve": CURVE})],
        MACHINE,
    )
    save_figures(tmp_path, "bench", [Result("GET /me", 90.0, 100.0, "requests/s", "ratio ≥ 0.8")], MACHINE)
    page = (tmp_path / "performance.md").read_text("utf-8")
    assert page.count("| GET /me<br>") == 1
    assert "| 90.00 | 100 | 0.90 | requests/s | ratio ≥ 0.8 | yes |" in page
    assert "| 1.30 | 1.00 | 1.30 | ms | ratio ≤ 1.2 | **no** |" in page
    assert "**1 of 2 goals are met.** Not met:" in page
    assert SECTIONS["growth"].title in page
    assert SECTIONS["peers"].title not in page
    chart = (tmp_path / "performance/growth.svg").read_text("utf-8")
    assert "POST /meetings" in chart
    assert json.loads((tmp_path / "performance/bench.json").read_text("utf-8"))["machine"] == MACHINE
