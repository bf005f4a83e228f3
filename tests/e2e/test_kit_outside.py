"""The test kit for outsiders: each block of docs/testing.md runs as a test module outside the tree."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.program import ROOT, START_S

PAGE = ROOT / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


INI = """[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def run_pytest(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (place / "pytest.ini").write_text(INI, "utf-8")
    prefixes = ("PYTEST", "HYPOTHESIS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=place,
        env=environment | {"PYTHONPATH": str(ROOT / "src"), "CI": "true"},  # where Hypothesis has no deadline
        capture_output=True,
        text=True,
        timeout=5 * START_S,
        check=False,
    )


def test_every_block_of_the_page_passes_as_a_test_module(tmp_path: Path) -> None:
    assert len(BLOCKS) >= 4
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"test_block_{number}.py").write_text(block, "utf-8")
    ran = run_pytest(tmp_path, "-rA")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for number in range(len(BLOCKS)):
        assert f"PASSED test_block_{number}.py::" in ran.stdout


def test_a_suite_runs_in_the_auto_mode_of_pytest_asyncio_too(tmp_path: Path) -> None:
    (tmp_path / "test_counters.py").write_text(BLOCKS[0], "utf-8")
    ran = run_pytest(tmp_path, "--asyncio-mode=auto")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_assertion_of_the_kit_shows_the_compared_values(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(
        BLOCKS[0].replace("self.hits[name] += 1", "self.hits[name] += 2"), "utf-8"
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 1
    assert "assert [2, 4, 6" in ran.stdout


def test_a_missing_fixture_is_named(tmp_path: Path) -> None:
    module = """from meetcore.testing.contracts import RateCountersContract


class TestMine(RateCountersContract):
    pass
"""
    (tmp_path / "test_empty.py").write_text(module, "utf-8")
    ran = run_pytest(tmp_path)
    assert ran.returncode == 1
    assert "fixture 'counters' not found" in ran.stdout
