"""`python -m benchmarks [--quick | --smoke | --pages | --plans | --growth | --peers]`: measure and print.

A whole run fills its section of docs/performance.md; `--quick`, `--smoke` and the sized forms write nothing.
`--smoke` asks only whether every benchmark still yields its figures. `--pages` measures the pages of the
dashboard alone, for an account with ten million ledger entries and a million rows of the rest; `--plans`
the creation of meetings alone, from an empty database to 100 000; `--growth` what operations cost at ten
thousand, a million and ten million rows; `--peers` packages that do what we do.
"""

import argparse
import asyncio
import base64
import logging
import math
import os
import sys
import time
from contextlib import ExitStack
from uuid import UUID

import psycopg
import structlog
from attrs import field, frozen

from benchmarks import migrations, resealing, scaling, spread
from benchmarks.agents import measure_agents
from benchmarks.audit import fill_ledger, measure_audit, measure_pages
from benchmarks.creations import measure_busy_account, measure_creations
from benchmarks.deliveries import measure_deliveries, measure_latency
from benchmarks.footprint import measure_import, measure_memory
from benchmarks.growth import GrowthLoad, measure_growth
from benchmarks.hosts import measure_hosts
from benchmarks.machine import describe_machine
from benchmarks.metrics import measure_metrics
from benchmarks.notes import NoteLoad, measure_beside_notes
from benchmarks.pages import PAGE_ROUNDS, PageLoad, measure_dashboard, show_pages
from benchmarks.partitions import measure_partitions
from benchmarks.peers.run import FULL as PEERS
from benchmarks.peers.run import measure_peers
from benchmarks.performance_page import save_figures
from benchmarks.pgbench import prepared
from benchmarks.places import database_server, fresh_database, rate_store
from benchmarks.plans import PlanLoad, measure_plans
from benchmarks.posts import measure_posts
from benchmarks.processes import ROOT, bare_route, meetcore_serve
from benchmarks.reads import measure_reads
from benchmarks.recording import record_creation
from benchmarks.report import Result, show
from benchmarks.rules import measure_rules
from benchmarks.script import Script, make_script
from benchmarks.seeds import ID_LEAD, SeededAccounts, account_number, furnish, furnish_numbered, wired
from benchmarks.traces import measure_traces


@frozen
class Effort:
    """The size of a run: rounds in which both sides alternate, seconds of a turn, rows, requests."""

    rounds: int = 7
    seconds: float = 4
    imports: int = 20
    entries: int = 1_000_000
    rules_s: float = 1.0
    hosts: int = 10_000
    per_host: int = 100
    reservations: int = 200
    requests: int = 2_000
    finished: int = 200_000
    partitions: int = 60
    parted: int = 300_000
    warm_up_s: float = 12  # until every post that hangs has hung, and the connections are open
    notes: NoteLoad = field(factory=NoteLoad)
    pages: PageLoad | None = None
    plans: PlanLoad | None = None
    growth: GrowthLoad | None = None


FULL = Effort()
QUICK = Effort(rounds=2, seconds=2, imports=5, entries=50_000, rules_s=0.3, per_host=5, reservations=40)
SMOKE = Effort(
    rounds=1, seconds=0.4, imports=1, entries=4_000, rules_s=0.02, hosts=200, per_host=2, reservations=4,
    requests=200, finished=1_000, partitions=8, parted=2_000, warm_up_s=0.5,
    notes=NoteLoad(recording_s=60, ai_latency_s=0.5, recordings=100, warm_up_s=1.0),
    pages=PageLoad(2_000, 2_000, 2_000, 2_000), plans=PlanLoad(400, 100),
    growth=GrowthLoad((400, 4_000), 1, 0.4, 200),
)  # fmt: skip
_STARTED = time.monotonic()


async def _furnish(
    service: str, floor: str, redis_url: str, secrets_key: str
) -> tuple[SeededAccounts, Script]:
    async with wired(service, redis_url, secrets_key) as application:
        seeded = await furnish(application)
    async with wired(floor, redis_url, secrets_key) as application:
        account_id = await furnish_numbered(application)
        creation = await record_creation(application, floor, account_id)
    seeded.key_ids.add(creation.key_id)
    for url in (service, floor):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    return seeded, make_script(creation)


def _report(stage: str) -> None:
    print(f"{time.monotonic() - _STARTED:4.0f} s  {stage}", file=sys.stderr, flush=True)


def _measure(effort: Effort) -> list[Result]:
    secrets_key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    key_ids: set[UUID] = set()
    _report("import and rules")
    results = measure_import(effort.imports)
    rules = measure_rules(effort.rules_s)
    results.append(measure_metrics(effort.rounds, effort.requests * 10))
    results += measure_traces(effort.rounds, effort.requests * 10)
    _report("webhook posts")
    posts = measure_posts(effort.rounds, effort.seconds / 2)
    _report("webhook deliveries")
    with database_server() as server:
        with fresh_database(server) as url:
            deliveries = measure_deliveries(url, effort.rounds, int(effort.seconds * 1500))
        with fresh_database(server) as url:
            deliveries += measure_latency(url, effort.seconds * 2, effort.finished, effort.warm_up_s)
        _report("webhooks beside notes")
        with fresh_database(server) as url:
            rounds = max(1, effort.rounds // 2)
            deliveries += measure_beside_notes(url, rounds, effort.seconds * 8, effort.notes)
        _report("claims at many partitions")
        with fresh_database(server) as whole, fresh_database(server) as parted:
            rounds = effort.rounds * 2
            deliveries.append(measure_partitions(whole, parted, effort.partitions, effort.parted, rounds))
    _report("the ledger")
    with database_server() as server, fresh_database(server) as url:
        account_id = fill_ledger(url, effort.entries)
        audit = [measure_audit(url, min(effort.rounds, 3)), measure_pages(url, account_id, effort.rounds)]
    pages = [] if effort.pages is None else _measure_pages(effort.pages, effort.rounds)
    if effort.plans is not None:
        _report("plans from an empty database on")
        pages += measure_plans(effort.plans)
    if effort.growth is not None:
        pages += measure_growth(effort.growth, _report)
    _report("hosts")
    with database_server() as server, fresh_database(server) as few, fresh_database(server) as many:
        hosts = measure_hosts(few, many, effort.hosts, effort.per_host, effort.reservations)
    with ExitStack() as stack:
        server = stack.enter_context(database_server())
        service_url, floor_url = (stack.enter_context(fresh_database(server)) for _ in range(2))
        redis_url = stack.enter_context(rate_store(key_ids))
        seeded, script = asyncio.run(_furnish(service_url, floor_url, redis_url, secrets_key))
        key_ids |= seeded.key_ids
        service = stack.enter_context(meetcore_serve(service_url, redis_url, secrets_key))
        bare = stack.enter_context(bare_route(floor_url, f"{ID_LEAD}{account_number(1)}"))
        _report("memory")
        results.append(measure_memory(service, bare, seeded, effort.requests))
        _report("reads")
        reads = measure_reads(service, bare, seeded, effort.rounds, effort.seconds)
        _report("POST /meetings")
        with prepared(script, floor_url) as floor:
            creations = measure_creations(service, seeded, floor, effort.rounds, effort.seconds)
        _report("POST /meetings on one account and on sixteen")
        creations.append(measure_busy_account(service, seeded, effort.rounds, effort.seconds))
        _report("tools of agents")
        agents = measure_agents(service, seeded, effort.rounds, effort.seconds)
    return [*creations, *agents, *hosts, *reads, posts, *deliveries, *audit, *pages, *results, *rules]


def _measure_pages(load: PageLoad, rounds: int) -> list[Result]:
    _report("the pages of the dashboard")
    with database_server() as server, fresh_database(server) as url:
        return measure_dashboard(url, load, rounds)


def _lacking(results: list[Result]) -> list[str]:
    """The names of the results that have no figure. Of the floors pgbench's alone may be missing."""
    return [
        each.name
        for each in results
        if not each.service or (each.floor is not None and not each.floor) or not math.isfinite(each.service)
    ]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", dest="effort", action="store_const", const=QUICK, help="rougher figures")
    how.add_argument(
        "--smoke", dest="effort", action="store_const", const=SMOKE,
        help="figures that say nothing, in under 90 s: whether every benchmark works",
    )  # fmt: skip
    for section, said in (
        ("plans", "creations, from an empty database to many meetings"),
        ("pages", "the pages of the dashboard for a large account"),
        ("growth", "what operations cost as tables grow"),
        ("peers", "packages that do what we do, beside us"),
    ):
        how.add_argument(f"--{section}", dest="section", action="store_const", const=section, help=said)
    parser.add_argument("--entries", type=int, help="of the ledger, with --pages: 10 000 000")
    parser.add_argument("--meetings", type=int, help="that are made, with --plans: 100 000")
    parser.add_argument(
        "--rows", type=int, help="of meetings and others: with --pages 1 000 000, with --growth 10 000 000"
    )
    return parser.parse_args()


def _measure_section(chosen: argparse.Namespace) -> list[Result]:
    match chosen.section:
        case "pages":
            rows = chosen.rows or 1_000_000
            load = PageLoad(chosen.entries or 10_000_000, rows, rows, rows)
            return sorted(_measure_pages(load, PAGE_ROUNDS), key=lambda each: -(each.service or 0))
        case "plans":
            return measure_plans(PlanLoad(chosen.meetings or PlanLoad().meetings))
        case "growth":
            return measure_growth(GrowthLoad.up_to(chosen.rows or 10_000_000), _report)
        case "peers":
            return measure_peers(PEERS)
    return _measure(chosen.effort or FULL)


def main() -> None:
    chosen = _parsed()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    results = _measure_section(chosen)
    (show_pages if chosen.section == "pages" else show)(results)
    print(f"\n{len(results)} results, {time.monotonic() - _STARTED:.0f} s")
    if lacking := _lacking(results):
        raise SystemExit(f"no figure: {', '.join(lacking)}")
    if chosen.effort is SMOKE:
        _report("migrations beside load")
        faults = migrations.measure()
        _report("another secrets key")
        if faults := [*faults, *resealing.measure()]:
            raise SystemExit("; ".join(faults))
        _report("accounts over databases, and the first step of docs/scaling.md")
        spread.main(["200"])
        scaling.smoke()
    if not any((chosen.effort, chosen.entries, chosen.meetings, chosen.rows)):
        save_figures(ROOT / "docs", chosen.section or "bench", results, describe_machine())
        print("also in docs/performance.md")


if __name__ == "__main__":
    main()
