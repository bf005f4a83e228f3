"""The alerts and the dashboard: they name metrics that exist, and promtool's tests of the alerts pass."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

import check_grafana  # noqa: E402  # scripts are no package

RULES = check_grafana.RULES
TESTS = RULES.with_name("rules_test.yml")
ALERTS = [
    rule["alert"] for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]
]


def promtool(*arguments: str) -> None:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not here; it is in Debian's package prometheus")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, cwd=RULES.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_rules() -> None:
    promtool("check", "rules", RULES.name)


def test_promtool_runs_the_tests_of_the_rules() -> None:
    promtool("test", "rules", TESTS.name)


def test_every_alert_is_tested_quiet_and_firing() -> None:
    tests = yaml.safe_load(TESTS.read_text("utf-8"))["tests"]
    quiet = {case["alertname"] for case in tests[0]["alert_rule_test"]}
    firing = {
        case["alertname"] for test in tests[1:] for case in test["alert_rule_test"] if case.get("exp_alerts")
    }
    assert quiet == firing == set(ALERTS)


def test_names_that_there_are_not_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check_grafana.unknown()) == []
    (title, panels), *others = check_grafana.ROWS
    wrong = panels[0]._replace(lines=[("sum(meetcore_requsts_total)", "x")])
    monkeypatch.setattr(check_grafana, "ROWS", [(title, [wrong, *panels[2:]]), *others[:-1]])
    problems = list(check_grafana.unknown())
    assert "the dashboard names meetcore_requsts_total, and there is no such metric" in problems
    assert "meetcore_ledger_sound is on no panel of the dashboard" in problems


def test_the_dashboard_is_what_grafana_imports() -> None:
    dashboard = json.loads(check_grafana.DASHBOARD.read_text("utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    taken = {(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in _rows(at)}
    assert len(taken) == sum(at["w"] * at["h"] for at in places), "panels lie beside each other"
    assert max(x for x, _ in taken) == 23
    for panel in panels:
        assert all(re.search(r"meetcore_", target["expr"]) for target in panel.get("targets", []))


def _rows(at: dict[str, int]) -> range:
    return range(at["y"], at["y"] + at["h"])
