"""Write deploy/grafana/meetcore.json, the dashboard; check that it and the alerts name metrics that exist.

With `--check` nothing is written, and the exit code is 1 where the file is stale. The exit code is 1, too,
where an expression of the dashboard or of an alert names a metric that there is not, or a metric is on no
panel.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from meetcore.adapters.prometheus.families import FAMILIES, Kind  # noqa: E402  # the path comes first

DASHBOARD = ROOT / "deploy/grafana/meetcore.json"
RULES = ROOT / "deploy/prometheus/rules.yml"
WIDTH, HEIGHT, COLUMNS = 8, 7, 24
SOURCE = {"type": "prometheus", "uid": "${source}"}
RATE = "[$__rate_interval]"


class Panel(NamedTuple):
    """A graph: what it shows, in which unit of Grafana, and its expressions with the names of their lines."""

    title: str
    unit: str
    lines: Sequence[tuple[str, str]]


def rate(metric: str, *labels: str) -> tuple[str, str]:
    """Return the rate of a counter by some of its labels, and the name of each line."""
    name = " ".join(f"{{{{{label}}}}}" for label in labels) or "all"
    return f"sum by ({', '.join(labels)}) (rate(meetcore_{metric}{RATE}))", name


def quantile(share: float, metric: str, *labels: str) -> tuple[str, str]:
    """Return a quantile of a histogram by some of its labels, and the name of each line."""
    by = ", ".join(("le", *labels))
    name = " ".join((f"p{share * 100:g}", *(f"{{{{{label}}}}}" for label in labels)))
    return f"histogram_quantile({share}, sum by ({by}) (rate(meetcore_{metric}_bucket{RATE})))", name


def now(metric: str, *labels: str, how: str = "max") -> tuple[str, str]:
    """Return a gauge by some of its labels, and the name of each line."""
    name = " ".join(f"{{{{{label}}}}}" for label in labels) or metric
    return f"{how} by ({', '.join(labels)}) (meetcore_{metric})", name


ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    ("Requests", (
        Panel("Requests by operation", "reqps", [rate("requests_total", "operation")]),
        Panel("Answers by status and code", "reqps", [rate("requests_total", "status", "code")]),
        Panel("Share of 5xx", "percentunit", [(
            f'sum(rate(meetcore_requests_total{{status=~"5.."}}{RATE}))'
            f" / sum(rate(meetcore_requests_total{RATE}))",
            "5xx",
        )]),
        Panel("Duration", "s", [
            quantile(each, "request_duration_seconds") for each in (0.5, 0.9, 0.99)
        ]),
        Panel("Duration by operation", "s", [quantile(0.99, "request_duration_seconds", "operation")]),
        Panel("In progress", "short", [now("requests_in_progress", "instance", how="sum")]),
    )),
    ("PostgreSQL", (
        Panel("Connections", "short", [
            now("pool_connections", "instance", "pool", how="sum"),
            ("sum by (instance, pool) (meetcore_pool_idle_connections)", "{{instance}} {{pool}} idle"),
        ]),
        Panel("Waiting for a connection", "short", [
            now("pool_waiting", "instance", "pool", how="sum"),
            (
                f"sum by (instance, pool) (rate(meetcore_pool_waits_total{RATE}))",
                "{{instance}} {{pool}} waits a second",
            ),
        ]),
        Panel("Time waited", "s", [rate("pool_wait_seconds_total", "instance", "pool")]),
        Panel("Unavailable", "cps", [rate("store_unavailable_total", "pool", "kind")]),
        Panel("Oldest transaction, replication lag", "s", [
            now("oldest_transaction_seconds"), now("replication_lag_seconds"),
        ]),
        Panel("Standbys that follow", "short", [now("standbys_streaming")]),
        Panel("Replication lag by size", "bytes", [now("replication_lag_bytes")]),
        Panel("Requests counted without the rate store", "short", [now("rate_store_fallback", how="sum")]),
        Panel("Rounds over what is past its retention", "s", [now("retention_round_seconds", "records")]),
        Panel("Lists by where they were read", "reqps", [rate("list_reads_total", "source")]),
    )),
    ("Webhooks", (
        Panel("Oldest due", "s", [
            now("deliveries_oldest_due_seconds"), now("provider_events_oldest_due_seconds"),
            now("mails_oldest_due_seconds"), now("mails_oldest_failing_seconds"),
        ]),
        Panel("Waiting deliveries", "short", [now("deliveries", "state")]),
        Panel("Attempts", "cps", [rate("delivery_attempts_total", "result")]),
        Panel("Duration of attempts", "s", [
            quantile(each, "delivery_attempt_duration_seconds") for each in (0.5, 0.99)
        ]),
        Panel("Endpoints", "short", [now("endpoints", "state")]),
        Panel("Deliveries failed", "cps", [rate("deliveries_failed_total", "reason")]),
        Panel("Endpoints disabled", "cps", [rate("endpoints_disabled_total")]),
        Panel("Partitions ahead", "short", [now("partitions_ahead", how="min")]),
    )),
    ("Meetings", (
        Panel("Calls of the provider", "cps", [rate("provider_calls_total", "call", "result")]),
        Panel("Duration of calls", "s", [quantile(0.99, "provider_call_duration_seconds", "call")]),
        Panel("Hosts", "short", [now("hosts", "state")]),
        Panel("Refused for want of a host", "cps", [rate("no_host_total", "capacity")]),
        Panel("Oldest in progress", "s", [now("meetings_oldest_in_progress_seconds")]),
        Panel("Taken over", "cps", [
            rate("leases_expired_total", "subject"), rate("meetings_reconciled_total", "outcome"),
        ]),
    )),
    ("Notes and credits", (
        Panel("Oldest note by step", "s", [now("notes_oldest_due_seconds", "step")]),
        Panel("Age of notes in progress", "s", [
            ("max by (step) (meetcore_notes_oldest_failing_seconds)", "{{step}} failing"),
            now("notes_oldest_seconds", "step"),
        ]),
        Panel("Notes failed", "cps", [rate("notes_failed_total", "reason")]),
        Panel("Credits moved", "short", [rate("credits_total", "kind")]),
        Panel("Credits today", "short", [  # what was taken is negative
            ("abs(max by (kind) (meetcore_ledger_credits_today))", "{{kind}}"),
        ]),
        Panel("Since the ledger was verified", "s", [
            ("time() - max(meetcore_ledger_verified_timestamp_seconds)", "age"),
        ]),
        Panel("Ledger sound", "bool", [now("ledger_sound", how="min")]),
        Panel("Versions", "short", [
            now("build_info", "version", "python", how="count"), now("schema_version"),
            now("store_figures_up"),
        ]),
    )),
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Write the dashboard, or with `--check` report that it is stale; report names that there are not."""
    wanted = json.dumps(dashboard(), indent=2) + "\n"
    problems = list(unknown())
    if arguments != ["--check"]:
        DASHBOARD.write_text(wanted, "utf-8")
    elif not DASHBOARD.exists() or DASHBOARD.read_text("utf-8") != wanted:
        problems.append(f"{DASHBOARD.name} is stale: run python scripts/check_grafana.py")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def unknown() -> Iterator[str]:
    """Name each metric that an expression names and that there is not, and each that is on no panel."""
    shown = {
        name for _, panels in ROWS for panel in panels for line, _ in panel.lines for name in names(line)
    }
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    alerted = {name for group in rules["groups"] for rule in group["rules"] for name in names(rule["expr"])}
    samples = {
        f"{family.name}_bucket" if family.kind is Kind.HISTOGRAM else family.name for family in FAMILIES
    }
    for where, found in (("the dashboard", shown), ("an alert", alerted)):
        for name in sorted(found - samples):
            yield f"{where} names {name}, and there is no such metric"
    for name in sorted(samples - shown):
        yield f"{name} is on no panel of the dashboard"


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(re.findall(r"\bmeetcore_\w+", expression))


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "meetcore",
        "title": "meetcore",
        "tags": ["meetcore"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
        }  # fmt: skip
        top += 1
        for place, panel in enumerate(panels):
            number += 1
            left, down = place * WIDTH % COLUMNS, place * WIDTH // COLUMNS * HEIGHT
            yield _graph(number, panel, {"x": left, "y": top + down, "w": WIDTH, "h": HEIGHT})
        top += -(-len(panels) * WIDTH // COLUMNS) * HEIGHT


def _graph(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + each), "expr": expression, "legendFormat": name, "datasource": SOURCE}
        for each, (expression, name) in enumerate(panel.lines)
    ]
    return {
        "id": number, "type": "timeseries", "title": panel.title, "datasource": SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
