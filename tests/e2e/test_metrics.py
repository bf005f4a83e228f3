"""`/metrics` of several processes, on its own port, and without the extra."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from meetcore.adapters.prometheus import FIGURES
from tests.e2e.customers import enrol
from tests.e2e.test_logs import lines_of
from tests.support import servers
from tests.support.interpreter import output_of
from tests.support.program import START_S, Running, Site, free_port, until
from tests.support.scrape import Sample, label_values, scrape, value

VERIFIED = "meetcore_ledger_verified_timestamp_seconds"
REQUESTS = "meetcore_requests_total"
DURATIONS = "meetcore_request_duration_seconds_count"


def children_of(pid: int) -> list[int]:
    """Return the child processes that run the program's code."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def files_of(pid: int) -> list[Path]:
    """Return the metric files of a process."""
    return list(Path(tempfile.gettempdir()).glob(f"meetcore-metrics-*/*_{pid}.db"))


def test_requests_of_all_processes_are_counted_and_stay_when_one_dies(site: Site) -> None:
    _, _, key = enrol(site, credits=100)
    headers = {"Authorization": f"Bearer {key}"}
    port = free_port()
    with site.serve(None, "--workers", 2, "--metrics-port", port) as server:
        for _ in range(20):  # each on a connection of its own: both processes get some
            httpx.get(f"{server.url}/api/v1/me", headers=headers, trust_env=False, timeout=20)
        httpx.get(
            f"{server.url}/api/v1/me", headers={"Authorization": "Bearer nobody"}, trust_env=False, timeout=20
        )
        for path in ("one", "two", "three"):
            httpx.get(f"{server.url}/api/v1/{path}", headers=headers, trust_env=False, timeout=20)
            httpx.get(f"{server.url}/{path}", trust_env=False, timeout=20)
        # An answer is out before its process has counted it.
        until(lambda: _is_counted(scrape(port), 27), "all are counted")
        seen = scrape(port)
        me = {"operation": "GET /me", "class_": "read"}
        assert value(seen, REQUESTS, **me, status="200", code="") == 20
        assert value(seen, REQUESTS, **me, status="401", code="invalid_api_key") == 1
        assert value(seen, REQUESTS, operation="unknown") == 6
        assert value(seen, DURATIONS, operation="GET /me") == 21
        assert value(seen, "meetcore_requests_in_progress") == 0
        assert value(seen, "meetcore_build_info") == 1
        until(lambda: value(scrape(port), "meetcore_pool_connections") >= 2, "both pools are sampled")
        assert label_values(seen, "operation") <= {"GET /me", "unknown", "page readyz"}

        workers = _workers_of(server.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        until(lambda: len(set(_workers_of(server.pid)) - {workers[0]}) == 2, "it is replaced", START_S)
        assert value(scrape(port), REQUESTS, **me, status="200") == 20
    assert not files_of(workers[1])


def _is_counted(seen: dict[Sample, float], requests: int) -> bool:
    """Return whether this many API requests are counted and none is in progress."""
    counted = value(seen, REQUESTS) - value(seen, REQUESTS, operation="page readyz")
    assert counted <= requests
    return counted == requests and value(seen, "meetcore_requests_in_progress") == 0


def _workers_of(pid: int) -> list[int]:
    """Return the serving processes, without Python's resource tracker."""
    return [child for child in children_of(pid) if b"spawn_main" in _command_of(child)]


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


@contextmanager
def seen_activity(site: Site) -> Iterator[None]:
    """Let the site's role see transactions of others and standbys, as docs/deploying.md does, for a while."""
    role = servers.role_of(site.database_url)
    with psycopg.connect(servers.as_superuser(site.database_url), autocommit=True) as connection:
        connection.execute(f"GRANT pg_read_all_stats TO {role}".encode())
        try:
            yield
        finally:  # the role is that of other tests
            connection.execute(f"REVOKE pg_read_all_stats FROM {role}".encode())


def test_the_ledger_is_verified_and_figures_of_the_store_are_shown(site: Site) -> None:
    enrol(site, credits=100)
    with psycopg.connect(site.database_url, autocommit=True) as connection:
        # Another test may have done it.
        connection.execute("UPDATE ledger_verification SET due_at = now(), verified_at = NULL")
    port = free_port()
    with seen_activity(site), site.worker("--metrics-port", port, verify_every="24h") as worker:
        until(
            lambda: [line for line in lines_of(worker) if line["event"] == "ledger verified"],
            "the ledger is verified", START_S,
        )  # fmt: skip

        def shown_verification() -> dict[Sample, float]:
            samples = scrape(port)
            return samples if value(samples, VERIFIED) > 0 else {}

        seen = until(shown_verification, "it is shown", START_S)
    assert value(seen, "meetcore_store_figures_up") == 1
    assert value(seen, "meetcore_ledger_sound") == 1
    assert value(seen, "meetcore_schema_version") >= 1
    [line] = [line for line in lines_of(worker) if line["event"] == "ledger verified"]
    assert (line["level"], line["is_sound"], line["findings"]) == ("info", True, [])
    shown = {name for name, _ in seen}
    # The server of the tests archives no WAL.
    assert {metric.name for metric in FIGURES.values()} - shown <= {"meetcore_wal_archiving_failing"}


def test_figures_of_a_database_that_is_away_are_left_out_and_nothing_fails(site: Site) -> None:
    port, nowhere = free_port(), free_port()
    with site.worker(
        "--metrics-port", port, database_url=f"postgresql://nobody@127.0.0.1:{nowhere}/x"
    ) as worker:
        until(lambda: _answers(port, worker), "metrics are served", START_S)
        unavailable = "meetcore_store_unavailable_total"
        until(lambda: value(scrape(port), unavailable, kind="pool") > 0, "the failures are counted", START_S)
        seen = scrape(port)
    assert value(seen, "meetcore_store_figures_up") == 0
    assert not {name for name, _ in seen} & {metric.name for metric in FIGURES.values()}


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_counts_its_attempts(site: Site, processes: int) -> None:
    port = free_port()
    with site.worker("--processes", processes, "--metrics-port", port) as worker:
        until(lambda: _answers(port, worker), "metrics are served", START_S)
        until(
            lambda: value(scrape(port), "meetcore_pool_connections") >= processes,
            "pools are sampled",
            START_S,
        )


def _answers(port: int, process: Running) -> bool:
    assert process.poll() is None, process.err.read_text()
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_the_port_serves_nothing_else_and_is_closed_to_other_addresses(site: Site) -> None:
    port = free_port()
    with site.serve(None, "--metrics-port", port) as server:
        base = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{base}/", trust_env=False, timeout=20).status_code == 404
        assert httpx.post(f"{base}/metrics", trust_env=False, timeout=20).status_code == 405
        assert httpx.get(f"{server.url}/metrics", trust_env=False, timeout=20).status_code == 404
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.2:{port}/metrics", trust_env=False, timeout=20)
        assert files_of(server.pid)
    assert not files_of(server.pid), "they go with the command"


def test_a_port_that_is_taken_is_refused(site: Site) -> None:
    with site.serve() as server:
        port = int(server.url.rpartition(":")[2])
        done = site.launcher.run("worker", "--metrics-port", port, env=site.env())
    assert done.code == 1
    assert "choose another with --metrics-port" in done.err


@pytest.mark.parametrize("module", ["meetcore.app", "meetcore.cli.processes", "meetcore.composition.worker"])
def test_importing_the_programs_does_not_import_the_extra(module: str) -> None:
    assert output_of(f"import {module}; print('prometheus_client' in sys.modules)") == "False\n"


SERVE = """
import asyncio
from meetcore.app import Service
from tests.support.api_harness import settings_for, started

async def main():
    async with started(Service(settings_for(sys.argv[1]))):
        return "prometheus_client" in sys.modules

print(asyncio.run(main()))
"""
REFUSED = """
from meetcore.composition.observability import check_metrics
try:
    check_metrics()
except Exception as error:
    print(error)
"""


def test_a_service_without_a_port_for_metrics_does_not_import_it(site: Site) -> None:
    assert output_of(SERVE, site.database_url) == "False\n"


def test_without_the_extra_the_service_serves_and_a_port_is_refused(site: Site) -> None:
    assert output_of(SERVE, site.database_url, lacks=("prometheus_client",)) == "False\n"
    assert "pip install 'meetcore[metrics]'" in output_of(REFUSED, lacks=("prometheus_client",))
