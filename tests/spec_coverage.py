"""Coverage of the rules of the spec by tests.

A pytest plugin, loaded by conftest.py. It owns the marker ``@pytest.mark.spec("4.1/3", ...)``: an id that
docs/spec-rules.tsv does not list fails the collection. ``--spec-report`` prints the rules against the tests
that were collected and runs none; ``--spec-run`` runs them and counts a rule as covered only when at least
one of its tests passed and none failed. Both exit 1 while a rule of docs/spec-required.txt is uncovered.

Two runs make one table where some tests must not run beside the rest: the first with ``--spec-keep FILE``,
the second with ``--spec-run --spec-with FILE``, which counts what the first left there.

Under pytest-xdist the tests are collected in the workers alone: each hands what it collected to the process
that prints, at its end. All collect the same, so one that crashed is not missed, and the test that it crashed
in is reported as failed.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
NAMES_SHOWN = 3
COLLECTED = "spec_tests"


def read_rules(path: Path) -> dict[str, str]:
    """Rule id to short text, in the order of the file; the first line is a heading."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows, None)
        return {row[0]: row[1] for row in rows if row}


def read_required(path: Path, rules: dict[str, str]) -> list[str]:
    """The rule ids that must be covered. A line that matches no rule is a slip of the pen and is refused."""
    if not path.exists():
        return []
    patterns = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    patterns = [line for line in patterns if line and not line.startswith("#")]
    for pattern in patterns:
        if not any(fnmatchcase(rule, pattern) for rule in rules):
            raise pytest.UsageError(f"{path.name}: {pattern!r} matches no rule of spec-rules.tsv")
    return [rule for rule in rules if any(fnmatchcase(rule, pattern) for pattern in patterns)]


class SpecCoverage:
    """Collects the markers, then the outcomes, then prints the table."""

    def __init__(self, *, runs: bool, reports: bool, keep_in: Path | None, begin_with: Path | None) -> None:
        self.runs = runs
        self.reports = reports
        self.keep_in = keep_in
        self.begun = begin_with is not None
        self.rules = read_rules(DOCS / "spec-rules.tsv")
        self.required = read_required(DOCS / "spec-required.txt", self.rules)
        self.tests: dict[str, list[str]] = defaultdict(list)
        self.outcomes: dict[str, str] = {}
        if begin_with is not None:
            tests, self.outcomes = json.loads(begin_with.read_text(encoding="utf-8"))
            self.tests.update(tests)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Read the markers; refuse an id that is no rule."""
        unknown = []
        for item in items:
            for rule in {str(rule) for mark in item.iter_markers("spec") for rule in mark.args}:
                if rule not in self.rules:
                    unknown.append(f"{item.nodeid}: {rule!r}")
                self.tests[rule].append(item.nodeid)
        if unknown:
            raise pytest.UsageError("not in docs/spec-rules.tsv:\n  " + "\n  ".join(unknown))
        if hasattr(config, "workeroutput"):
            config.workeroutput[COLLECTED] = dict(self.tests)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of xdist collected; one that crashed hands nothing over."""
        for rule, tests in getattr(node, "workeroutput", {}).get(COLLECTED, {}).items():
            self.tests[rule] += [test for test in tests if test not in self.tests[rule]]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when its call passed; a failure in any phase outweighs that."""
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.when == "call" or report.skipped:
            outcome = "skipped" if report.skipped else "passed"
            self.outcomes.setdefault(report.nodeid, outcome)

    def covers(self, rule: str) -> bool:
        """Collected is enough for a report; a run wants a pass and no failure."""
        if not self.runs:
            return bool(self.tests[rule])
        outcomes = {self.outcomes.get(test) for test in self.tests[rule]}
        return "passed" in outcomes and "failed" not in outcomes

    def is_whole(self, config: pytest.Config) -> bool:
        """Return whether every test was selected; a selection of tests need not cover every rule."""
        return self.begun or not config.option.file_or_dir

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run without failures into a failed one when a required rule is uncovered."""
        if self.keep_in is not None:
            self.keep_in.write_text(json.dumps([self.tests, self.outcomes]), encoding="utf-8")
        is_wanted = self.runs or self.reports
        fine = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if is_wanted and session.exitstatus in fine:
            missing = self.is_whole(session.config) and any(not self.covers(rule) for rule in self.required)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if missing else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, when requested."""
        if not (self.runs or self.reports):
            return
        terminalreporter.section("rules of the spec against tests")
        is_whole = self.is_whole(terminalreporter.config)
        for rule, text in self.rules.items():
            if is_whole or self.tests[rule]:
                terminalreporter.write_line(self.line(rule, text))
        if not is_whole:
            return
        covered = sum(self.covers(rule) for rule in self.rules)
        terminalreporter.write_line(f"{covered} of {len(self.rules)} rules covered")
        for rule in self.required:
            if not self.covers(rule):
                terminalreporter.write_line(f"required and not covered: {rule}  {self.rules[rule]}", red=True)

    def line(self, rule: str, text: str) -> str:
        """One rule: id, mark, counts, text, and the names of a few of its tests."""
        tests = self.tests[rule]
        count = f"{len(tests):3d} tests"
        if self.runs:
            by = Counter(self.outcomes.get(test, "not run") for test in tests)
            count = f"{by['passed']:3d} passed {by['failed']:2d} failed"
        names = ", ".join(test.rpartition("::")[2] for test in tests[:NAMES_SHOWN])
        more = f", and {len(tests) - NAMES_SHOWN} more" if len(tests) > NAMES_SHOWN else ""
        return f"{'ok' if self.covers(rule) else '--'} {rule:20} {count}  {text[:60]:60}  {names}{more}"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("spec")
    group.addoption(
        "--spec-report", action="store_true", help="print rules against collected tests, run none"
    )
    group.addoption("--spec-run", action="store_true", help="run, then print rules against passed tests")
    group.addoption("--spec-keep", type=Path, metavar="FILE", help="leave what came of this run in FILE")
    group.addoption(
        "--spec-with", type=Path, metavar="FILE", help="count what an earlier run left in FILE, too"
    )


def pytest_configure(config: pytest.Config) -> None:
    reports = bool(config.getoption("--spec-report"))
    if reports:
        config.option.collectonly = True
        config.option.verbose = min(config.option.verbose, -2)
    if hasattr(config, "workerinput"):  # the process that prints judges; a worker has seen a part
        coverage = SpecCoverage(runs=False, reports=False, keep_in=None, begin_with=None)
    else:
        coverage = SpecCoverage(
            runs=bool(config.getoption("--spec-run")) and not reports, reports=reports,
            keep_in=config.getoption("--spec-keep"), begin_with=config.getoption("--spec-with"),
        )  # fmt: skip
    config.pluginmanager.register(coverage, "spec-coverage-table")
