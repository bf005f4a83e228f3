"""`python -m benchmarks [--quick]`: measure everything, print the table, write `results.json`."""

import argparse
import asyncio
import base64
import logging
import os
import sys
import time
from contextlib import ExitStack
from uuid import UUID

import psycopg
import structlog
from attrs import frozen

from benchmarks.agents import measure_agents
from benchmarks.audit import fill_ledger, measure_audit, measure_pages
from benchmarks.creations import measure_creations
from benchmarks.deliveries import measure_deliveries, measure_latency
from benchmarks.footprint import measure_import, measure_memory
from benchmarks.hosts import measure_hosts
from benchmarks.house import ID_LEAD, House, account_number, furnish, furnish_numbered, wired
from benchmarks.notes import measure_beside_notes
from benchmarks.pgbench import prepared
from benchmarks.places import database_server, fresh_database, rate_store
from benchmarks.posts import measure_posts
from benchmarks.processes import bare_route, meetcore_serve
from benchmarks.reads import measure_reads
from benchmarks.recording import record_creation
from benchmarks.report import RESULTS, Result, show, write
from benchmarks.rules import measure_rules
from benchmarks.script import Script, make_script


@frozen
class Effort:
    """How long it may take."""

    rounds: int
    seconds: float
    imports: int
    entries: int
    rules_s: float
    per_host: int
    reservations: int


FULL = Effort(rounds=7, seconds=4, imports=20, entries=1_000_000, rules_s=1.0, per_host=100, reservations=200)
QUICK = Effort(rounds=2, seconds=2, imports=5, entries=50_000, rules_s=0.3, per_host=5, reservations=40)


async def _furnish(ours: str, floor: str, redis_url: str, secrets_key: str) -> tuple[House, Script]:
    async with wired(ours, redis_url, secrets_key) as wiring:
        house = await furnish(wiring)
    async with wired(floor, redis_url, secrets_key) as wiring:
        account_id = await furnish_numbered(wiring)
        creation = await record_creation(wiring, account_id)
    house.key_ids.add(creation.key_id)
    for url in (ours, floor):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    return house, make_script(creation)


def _say(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)


def _measure(effort: Effort) -> list[Result]:
    secrets_key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    key_ids: set[UUID] = set()
    _say("import and rules")
    results = measure_import(effort.imports)
    rules = measure_rules(effort.rules_s)
    _say("webhook posts")
    posts = measure_posts(effort.rounds, effort.seconds / 2)
    _say("webhook deliveries")
    with database_server() as server:
        with fresh_database(server) as url:
            deliveries = measure_deliveries(url, effort.rounds, int(effort.seconds * 1500))
        with fresh_database(server) as url:
            deliveries += measure_latency(url, effort.seconds * 2)
        _say("webhooks beside notes")
        with fresh_database(server) as url:
            deliveries += measure_beside_notes(url, effort.rounds // 2, effort.seconds * 8)
    _say("the ledger")
    with database_server() as server, fresh_database(server) as url:
        account_id = fill_ledger(url, effort.entries)
        audit = [measure_audit(url, min(effort.rounds, 3)), measure_pages(url, account_id, effort.rounds)]
    _say("hosts")
    with database_server() as server, fresh_database(server) as few, fresh_database(server) as many:
        hosts = measure_hosts(few, many, effort.per_host, effort.reservations)
    with ExitStack() as stack:
        server = stack.enter_context(database_server())
        ours_url, floor_url = (stack.enter_context(fresh_database(server)) for _ in range(2))
        redis_url = stack.enter_context(rate_store(key_ids))
        house, script = asyncio.run(_furnish(ours_url, floor_url, redis_url, secrets_key))
        key_ids |= house.key_ids
        ours = stack.enter_context(meetcore_serve(ours_url, redis_url, secrets_key))
        bare = stack.enter_context(bare_route(floor_url, f"{ID_LEAD}{account_number(1)}"))
        _say("memory")
        results.append(measure_memory(ours, bare, house))
        _say("GET /me")
        reads = measure_reads(ours, bare, house, effort.rounds, effort.seconds)
        _say("POST /meetings")
        with prepared(script, floor_url) as floor:
            creations = measure_creations(ours, house, floor, effort.rounds, effort.seconds)
        _say("tools of agents")
        agents = measure_agents(ours, house, effort.rounds, effort.seconds)
    return [*creations, *agents, *hosts, reads, posts, *deliveries, *audit, *results, *rules]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rougher figures in under a minute")
    effort = QUICK if parser.parse_args().quick else FULL
    started = time.monotonic()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    results = _measure(effort)
    show(results)
    write(results)
    print(f"\n{time.monotonic() - started:.0f} s; also in {RESULTS}")


if __name__ == "__main__":
    main()
