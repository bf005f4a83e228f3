"""The table of rules against tests: the same from one process or several, for every outcome of a test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spec_coverage import DOCS, read_required, read_rules

RULES = read_rules(DOCS / "spec-rules.tsv")
FIRST, *OTHERS = read_required(DOCS / "spec-required.txt", RULES)
IN_PROCESSES = ("-p", "xdist.plugin", "-n", "2", "--dist", "loadfile")

FILE = """
import os, pytest

@pytest.mark.spec({rules})
def test_{name}():
    {does}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two files of tests that together carry out every rule."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spec: a rule\n")
    write(tmp_path, "first", [FIRST])
    write(tmp_path, "others", [rule for rule in RULES if rule != FIRST])
    return tmp_path


def write(place: Path, name: str, rules: list[str], does: str = "pass") -> None:
    rule_list = ", ".join(map(repr, rules))
    (place / f"test_{name}.py").write_text(FILE.format(rules=rule_list, name=name, does=does))


def run(place: Path, *arguments: str, kind: str = "--spec-run") -> tuple[int, list[str]]:
    """The exit status of pytest, and the table that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.spec_coverage", "-p", "no:cacheprovider",
         kind, *arguments],
        cwd=place,
        # Without the plugins that packages bring along, most of which cost more to load than these tests do.
        env={**os.environ, "PYTHONPATH": str(DOCS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    table = done.stdout.partition("rules of the spec against tests")[2].splitlines()
    kinds = ("ok ", "-- ", "required ", f"of {len(RULES)} rules")
    return done.returncode, [line for line in table if any(kind in line for kind in kinds)]


@pytest.mark.parametrize(("does", "counted"), [
    ("assert False", "0 passed  1 failed"),
    ("pytest.skip('not here')", "0 passed  0 failed"),
])  # fmt: skip
def test_a_required_rule_without_a_passing_test_is_reported(place: Path, does: str, counted: str):
    write(place, "first", [FIRST], does)
    status, table = run(place)
    assert status == 1
    assert table[-1] == f"required and not covered: {FIRST}  {RULES[FIRST]}"
    assert [line for line in table if line.startswith(f"-- {FIRST} ") and counted in line]
    if "skip" in does:  # what fails in processes of their own is below
        assert run(place, *IN_PROCESSES) == (status, table)


def test_a_failure_outweighs_a_pass_in_another_process(place: Path):
    write(place, "again", [FIRST], "assert False")
    status, table = run(place, *IN_PROCESSES)
    assert status == 1
    assert [line for line in table if line.startswith(f"-- {FIRST} ") and "1 passed  1 failed" in line]


def test_a_crashed_process_fails_its_test_and_no_other(place: Path):
    write(place, "first", [FIRST], "os._exit(1)")
    status, table = run(place, *IN_PROCESSES)
    assert status == 1
    assert f"{len(RULES) - 1} of {len(RULES)} rules covered" in table
    assert [line for line in table if line.startswith(f"-- {FIRST} ") and "0 passed  1 failed" in line]


def test_tests_that_did_not_run_cover_nothing(place: Path):
    write(place, "first", [FIRST], "assert False")
    write(place, "others", OTHERS)
    status, table = run(place, "-x")
    assert status != 0
    assert [line for line in table if line.startswith(f"-- {OTHERS[0]} ") and "0 passed  0 failed" in line]
    assert f"0 of {len(RULES)} rules covered" in table


@pytest.mark.parametrize("arguments", [(), IN_PROCESSES])
def test_an_unknown_rule_id_fails_the_collection(place: Path, arguments: tuple[str, ...]):
    write(place, "first", ["no/rule"])
    status, table = run(place, *arguments)
    assert status != 0
    assert not any(line.startswith("ok") for line in table)


def test_two_runs_in_several_processes_print_the_table_of_one(place: Path):
    kept = place / "kept.json"
    whole = run(place)
    assert (whole[0], whole[1][-1]) == (0, f"{len(RULES)} of {len(RULES)} rules covered")
    assert run(place, *IN_PROCESSES, "--ignore=test_others.py", kind=f"--spec-keep={kept}") == (0, [])
    assert run(place, *IN_PROCESSES, f"--spec-with={kept}", "test_others.py") == whole


def test_a_failure_in_the_first_of_two_runs_is_reported_by_the_second(place: Path):
    write(place, "first", [FIRST], "assert False")
    kept = place / "kept.json"
    assert run(place, "test_first.py", kind=f"--spec-keep={kept}") == (1, [])
    status, table = run(place, f"--spec-with={kept}", "test_others.py")
    assert status == 1
    assert table[-1] == f"required and not covered: {FIRST}  {RULES[FIRST]}"
