"""`python -m benchmarks.scaling [SECONDS]`: the steps of docs/scaling.md on this machine.

Each step is a layout of real parts on loopback. For reads (`GET /me`) and sales (`POST /meetings`) it
prints requests a second, latencies, the processor time that the processes of the API and the sessions of
PostgreSQL took for one request, and how many sessions there were. Processor time says what a step costs;
requests a second say what this machine has left.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psycopg
from attrs import evolve, frozen

from benchmarks.load import Load, run_load
from benchmarks.places import database_server, fresh_database
from benchmarks.processes import Program, cpu_s, family
from tests.e2e.customers import enrol
from tests.e2e.meeting_invariants import add_hosts
from tests.support import pooler
from tests.support.balancer import balanced
from tests.support.program import START_S, Launcher, Running, Site, answers, free_port, until
from tests.support.servers import own_redis, own_virtual_host

SECONDS = 4.0
KEYS = 20
HOSTS = 300
RABBITMQ_URL = os.environ.get("MEETCORE_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")


@frozen
class Layout:
    """Where requests go, the processes of the API, and the database."""

    port: int
    processes: tuple[int, ...]
    site: Site


@frozen
class Figures:
    """What a load took: processor time in microseconds for one request."""

    load: Load
    api_us: float
    database_us: float
    connections: int


@contextmanager
def serving(site: Site, workers: int = 1) -> Iterator[Running]:
    """The API with some processes, from when it answers."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = site.env(base_url=url, trusted_proxies="127.0.0.0/8", log_level="warning")
    api = site.launcher.start("serve", "--port", port, "--workers", workers, env=env)
    api.url = url
    try:
        until(lambda: answers(f"{url}/readyz", api), "the API is up", START_S)
        until(lambda: len(family(api.pid)) >= workers, "its processes are there", START_S)
        yield api
    finally:
        api.stop()  # by SIGTERM: its other processes would outlive a kill


def port_of(api: Running) -> int:
    return int(api.url.rpartition(":")[2])


@contextmanager
def one_process(site: Site, _: Path) -> Iterator[Layout]:
    with serving(site) as api:
        yield Layout(port_of(api), (api.pid,), site)


@contextmanager
def two_processes(site: Site, _: Path) -> Iterator[Layout]:
    with serving(site, workers=2) as api:
        yield Layout(port_of(api), (api.pid,), site)


@contextmanager
def with_worker(site: Site, directory: Path) -> Iterator[Layout]:
    with own_virtual_host(RABBITMQ_URL) as broker:
        apart = evolve(site, settings=site.settings | {"broker_url": broker})
        with apart.worker(log_level="warning"), two_processes(apart, directory) as layout:
            yield layout


@contextmanager
def with_redis(site: Site, directory: Path) -> Iterator[Layout]:
    with own_redis(directory) as url:
        counted = evolve(site, settings=site.settings | {"rate_store_url": url})
        with with_worker(counted, directory) as layout:
            yield layout


@contextmanager
def behind_balancer(site: Site, directory: Path) -> Iterator[Layout]:
    with own_redis(directory) as url, own_virtual_host(RABBITMQ_URL) as broker, ExitStack() as stack:
        many = evolve(site, settings=site.settings | {"rate_store_url": url, "broker_url": broker})
        stack.enter_context(many.worker(log_level="warning"))
        apis = [stack.enter_context(serving(many)) for _ in range(2)]
        front, _ = stack.enter_context(balanced([port_of(api) for api in apis], directory))
        until(lambda: answers(f"{front}/readyz", apis[0]), "the balancer is up", START_S)
        yield Layout(int(front.rpartition(":")[2]), tuple(api.pid for api in apis), many)


@contextmanager
def behind_pooler(site: Site, directory: Path) -> Iterator[Layout]:
    pooler.keep_session_settings(site.database_url)
    with pooler.pooling(site.database_url, connections=4) as running:
        pooled = evolve(
            site, database_url=running.url(site.database_url),
            settings=site.settings
            | {"database_pooler": "transaction", "database_direct_url": site.database_url},
        )  # fmt: skip
        with with_redis(pooled, directory) as layout:
            yield evolve(layout, site=site)


Step = Callable[[Site, Path], AbstractContextManager[Layout]]

STEPS: Mapping[str, Step] = {
    "one process, nothing but PostgreSQL": one_process,
    "two processes": two_processes,
    "a worker of its own, RabbitMQ": with_worker,
    "Redis counts requests": with_redis,
    "two servers behind haproxy": behind_balancer,
    "PgBouncer, 4 connections": behind_pooler,
}


def measured(layout: Layout, kind: str, keys: list[str], seconds: float) -> Figures:
    """Load a layout and read what its processes took."""
    database = layout.site.database_url.rpartition("/")[2].partition("?")[0]
    statement = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"

    with psycopg.connect(layout.site.database_url, autocommit=True) as connection:

        def sessions() -> list[int]:
            return [pid for (pid,) in connection.execute(statement, [database])]

        run_load(Program(layout.processes[0], layout.port), kind, keys, seconds=min(1.0, seconds))
        ours = [pid for first in layout.processes for pid in family(first)]
        theirs = sessions()
        before = [sum(map(cpu_s, each)) for each in (ours, theirs)]
        load = run_load(Program(layout.processes[0], layout.port), kind, keys, seconds=seconds)
        left = set(sessions())
        api_s = sum(map(cpu_s, ours)) - before[0]
        database_s = (
            sum(map(cpu_s, left.intersection(theirs))) - before[1] if left >= set(theirs) else float("nan")
        )
    return Figures(load, api_s / load.requests * 1e6, database_s / load.requests * 1e6, len(left))


def main(arguments: list[str]) -> None:
    """Measure every step and print a table."""
    measure(float(arguments[0]) if arguments else SECONDS)


def smoke() -> None:
    """Measure the first step alone, which needs nothing but a database, for figures that say nothing."""
    measure(0.3, dict([next(iter(STEPS.items()))]), number_of_keys=2)


def measure(seconds: float, steps: Mapping[str, Step] = STEPS, number_of_keys: int = KEYS) -> None:
    """Measure steps, so many seconds each kind of request, and print a table."""
    print("| step | request | a second | p50 ms | p99 ms | API µs | PostgreSQL µs | connections |")
    print("|---|---|---|---|---|---|---|---|")
    with database_server() as server, tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        launcher = Launcher(directory)
        for name, step in steps.items():
            with fresh_database(server) as url:
                site = Site(launcher, url)
                add_hosts(site, HOSTS)
                keys = [enrol(site, 10**7)[2] for _ in range(number_of_keys)]
                with step(site, directory) as layout:
                    for kind in ("me", "meetings"):
                        show(name, kind, measured(layout, kind, keys, seconds))
        launcher.close()


def show(name: str, kind: str, figures: Figures) -> None:
    load = figures.load
    request = {"me": "GET /me", "meetings": "POST /meetings"}[kind]
    print(
        f"| {name} | `{request}` | {load.rate:.0f} | {load.p50_ms:.1f} "
        f"| {load.p99_ms:.0f} | {figures.api_us:.0f} | {figures.database_us:.0f} | {figures.connections} |",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
