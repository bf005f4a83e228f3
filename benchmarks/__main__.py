"""`python -m benchmarks [--smoke | --growth | --pages | --neighbours | --weight | --peers]`: measure, print,
and fill docs/performance.md.

Without options: requests, webhooks, the ledger and the rules. `--growth`: operations at ten million rows
beside ten thousand. `--peers`: packages that do what we do. Only printed: `--pages`, the dashboard of an
account with ten million ledger entries; `--neighbours`, one account's requests while another client strains
the service; `--weight`, WAL, processor time and HOT updates of PostgreSQL. `--smoke`: each of them for a
moment, which says only whether they work.
"""

import argparse
import logging
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import structlog

from benchmarks.api import measure_api
from benchmarks.growth import measure_growth, measure_weight
from benchmarks.ledger import measure_ledger
from benchmarks.neighbours import measure_neighbours
from benchmarks.pages import measure_pages
from benchmarks.peers import measure_peers
from benchmarks.report import Result, save, show
from benchmarks.rules import measure_import, measure_rules
from benchmarks.servers import SERVER_VERSIONS
from benchmarks.webhooks import measure_deliveries, measure_latency

_STARTED = time.monotonic()


def _report(stage: str) -> None:
    print(f"{time.monotonic() - _STARTED:4.0f} s  {stage}", file=sys.stderr, flush=True)


def _measure() -> list[Result]:
    _report("requests")
    results = measure_api(rounds=7, seconds=4, requests=2_000)
    _report("webhooks")
    results += measure_deliveries(rounds=7, count=6_000)
    results += measure_latency(seconds=8, warm_up_s=12, finished=200_000)
    _report("the ledger")
    results += measure_ledger(entries=1_000_000, rounds=3)
    _report("import and rules")
    return [*results, *measure_import(rounds=20), *measure_rules(seconds=1)]


def _smoke() -> list[Result]:
    """Measure everything for a moment, a half of it in a process beside this one."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks", "--smoke-longer"]) as longer:
        results = measure_api(rounds=1, seconds=0.3, requests=200, accounts=16)
        results += measure_deliveries(rounds=1, count=600)
        results += measure_latency(seconds=0.5, warm_up_s=0.3, finished=1_000)
        results += [*measure_ledger(entries=4_000, rounds=1), *measure_import(rounds=1)]
        results += [*measure_rules(0.02), *measure_pages(entries=2_000, rows=2_000, rounds=1)]
        if longer.wait():
            raise SystemExit(longer.returncode)
    return results


def _smoke_longer() -> list[Result]:
    results = measure_growth((400, 4_000), rounds=1, seconds=0.3, deliveries=200, accounts=8)
    results += measure_neighbours(entries=1_000, rounds=1, requests=20) + measure_weight(100, accounts=8)
    return results + measure_peers(rounds=1, seconds=0.3, posts=200, clients=(4,))


_FORMS: Mapping[str, Callable[[], list[Result]]] = {
    "bench": _measure,
    "growth": measure_growth,
    "pages": measure_pages,
    "neighbours": measure_neighbours,
    "weight": measure_weight,
    "peers": measure_peers,
    "smoke": _smoke,
    "smoke-longer": _smoke_longer,
}
SAVED = ("bench", "growth", "peers")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    forms = parser.add_mutually_exclusive_group()
    for name in _FORMS:
        forms.add_argument(f"--{name}", dest="form", action="store_const", const=name, default="bench")
    form = parser.parse_args().form
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    results = _FORMS[form]()
    show(results)
    print(f"\n{len(results)} results, {time.monotonic() - _STARTED:.0f} s")
    if lacking := [each.name for each in results if not each.ours or not math.isfinite(each.ours)]:
        raise SystemExit(f"no figure: {', '.join(lacking)}")
    if form in SAVED:
        save(form, results, f"PostgreSQL {', '.join(SERVER_VERSIONS)}")


if __name__ == "__main__":
    main()
