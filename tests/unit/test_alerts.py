"""The alerts and the dashboard: they name metrics that exist, and promtool's tests of the alerts pass."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from meetcore.adapters.prometheus import BUILD, FIGURES, UP
from meetcore.ports.observability import PROCESS_METRICS
from meetcore.ports.video_provider import HostUnavailable, HostUnknown, ProviderRefused

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/meetcore.json").read_text("utf-8"))
RULES = DEPLOY / "prometheus/rules.yml"
TESTS = RULES.with_name("rules_test.yml")
ALERTS = [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]
SAMPLES = {
    f"{each.name}_bucket" if each.buckets else each.name
    for each in (*PROCESS_METRICS, BUILD, UP, *FIGURES.values())
}


def names(*expressions: str) -> set[str]:
    """The metrics that expressions name."""
    return {name for each in expressions for name in re.findall(r"\bmeetcore_\w+", each)}


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
    assert quiet == firing == {each["alert"] for each in ALERTS}


def test_refusals_of_the_provider_count_as_failures_and_those_of_one_host_do_not() -> None:
    [expression] = [each["expr"] for each in ALERTS if each["alert"] == "MeetcoreProviderFailing"]
    failures = re.findall(r'result=~"(.*?)"', expression)[0]
    refused = [ProviderRefused(), ProviderRefused("zoom: create answered 401", "status_401")]
    assert all(re.fullmatch(failures, each.code) for each in refused)
    ours = [HostUnknown(), HostUnavailable("", datetime.now(UTC))]
    assert not any(re.fullmatch(failures, each.code) for each in ours)


def test_alerts_name_metrics_that_exist() -> None:
    assert names(*(each["expr"] for each in ALERTS)) <= SAMPLES


def test_each_metric_is_on_a_panel_of_the_dashboard_and_each_that_it_names_exists() -> None:
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    assert all(names(each) for each in shown)
    assert names(*shown) == SAMPLES


def test_panels_of_the_dashboard_lie_beside_each_other() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    taken = {
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    }
    assert len(taken) == sum(at["w"] * at["h"] for at in places)
    assert max(x for x, _ in taken) == 23
