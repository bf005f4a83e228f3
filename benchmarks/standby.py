"""`python -m benchmarks.standby [SECONDS]`: lists from a standby, and from the primary alone.

Two servers of PostgreSQL of its own on loopback, an asynchronous standby behind the primary. Eight clients
list the meetings of 20 accounts, alone, while eight others sell meetings to 20 other accounts, and while they
sell to the same. Printed are lists a second, latencies, the processor time of the primary's processes for one
list where nothing else runs, and where the lists were read.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.load import Load, run_load
from benchmarks.processes import Program, cpu_s
from meetcore.adapters.postgres.migrate import migrate
from tests.e2e.customers import enrol
from tests.e2e.meeting_invariants import add_hosts
from tests.support.program import Launcher, Site, free_port
from tests.support.replicated_postgres import Pair, find_programs, postgres_pair
from tests.support.scrape import scrape, value

SECONDS = 5.0
KEYS = 20
MEETINGS = 20
"""Of each account, before anything is measured: a page."""
SOURCES = ("standby", "own_write", "behind", "given_up", "away")


def measure(pair: Pair, site: Site, name: str, seconds: float) -> None:
    """Serve, and load with each mixture."""
    readers, sellers = ([enrol(site, 10**7)[2] for _ in range(KEYS)] for _ in range(2))
    port = free_port()
    with site.serve(None, "--metrics-port", port, log_level="warning") as api, ThreadPoolExecutor(1) as pool:
        program = Program(api.pid, int(api.url.rpartition(":")[2]))
        run_load(program, "meetings", readers, requests=KEYS * MEETINGS)
        run_load(program, "lists", readers, seconds=3.0)
        for mixture, keys, selling in (
            ("lists alone", readers, None),
            ("others sell", readers, sellers),
            ("the same accounts sell", readers, readers),
        ):
            before = {source: read(port, source) for source in SOURCES}
            sales = (
                None
                if selling is None
                else pool.submit(run_load, program, "meetings", selling, seconds=seconds)
            )
            began_s = primary_s(pair)
            load = run_load(program, "lists", keys, seconds=seconds)
            database_us = (primary_s(pair) - began_s) / load.requests * 1e6
            sold = None if sales is None else sales.result()
            show(
                name,
                mixture,
                load,
                sold,
                database_us,
                {each: read(port, each) - before[each] for each in SOURCES},
            )


def primary_s(pair: Pair) -> float:
    """Processor time of the primary's processes, the sessions included."""
    return sum(cpu_s(pid) for pid in pair.primary.processes)


def read(port: int, source: str) -> float:
    """How many lists were read there."""
    return value(scrape(port), "meetcore_list_reads_total", source=source)


def show(
    name: str, mixture: str, load: Load, sold: Load | None, database_us: float, sources: dict[str, float]
) -> None:
    """Print a row of the table."""
    total = sum(sources.values())
    shares = (
        ", ".join(f"{source} {count / total:.1%}" for source, count in sources.items() if count)
        if total
        else ""
    )
    rate = "" if sold is None else f"{sold.rate:.0f}"
    cost = f"{database_us:.0f}" if sold is None else ""
    print(
        f"| {name} | {mixture} | {load.rate:.0f} | {load.p50_ms:.1f} | {load.p99_ms:.0f} | {rate} | {cost} "
        f"| {shares} |",
        flush=True,
    )


def main(arguments: list[str]) -> None:
    """Measure both and print a table."""
    seconds = float(arguments[0]) if arguments else SECONDS
    programs = find_programs()
    assert programs is not None, "no PostgreSQL server programs"
    print(
        "| lists from | load | lists a second | p50 ms | p99 ms | sales a second | primary µs a list | read |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with postgres_pair(programs) as pair, tempfile.TemporaryDirectory() as place:
        migrate(pair.primary.url)
        pair.attach_standby(is_synchronous=False)
        launcher = Launcher(Path(place))
        site = Site(launcher, pair.primary.url)
        add_hosts(site, 300)
        measure(pair, site, "the primary", seconds)
        measure(
            pair,
            Site(launcher, pair.primary.url, {"database_read_url": pair.standby.url}),
            "the standby",
            seconds,
        )
        launcher.close()


if __name__ == "__main__":
    main(sys.argv[1:])
