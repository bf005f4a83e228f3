"""`meetcore serve`, `worker`, `migrate`: the processes of production."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import Any, Literal

import uvicorn

from meetcore.adapters.postgres.migrate import Migration, MigrationRefused, migrate, missing
from meetcore.adapters.postgres.partitions import PostgresPartitions
from meetcore.adapters.postgres.roles import GrantRefused, grant_service
from meetcore.adapters.settings import Settings, load_settings
from meetcore.adapters.system import (
    OTHER_FILES,
    allow_open_files,
    call_when,
    configure_logs,
    notify_ready,
    notify_when,
    stdlib_logging,
    stop_with_parent,
)
from meetcore.cli import inputs, output, runner, servers
from meetcore.composition.adapter_checks import check_adapters, warn_of_posting
from meetcore.composition.application import Part
from meetcore.composition.configuration import check_schema, warn_of_role, warn_of_settings
from meetcore.composition.infrastructure import open_application, served_parts
from meetcore.composition.observability import check_metrics, check_traces, metrics_shown
from meetcore.composition.providers import require_notes, warn_of_notes
from meetcore.composition.worker import collect_rarely, working
from meetcore.ports.store import StoreReadOnly, StoreUnavailable

MAX_PORT = 65_535
MAX_PROCESSES = 64
RESTART_PAUSE_S = 1.0
STOP_TIMEOUT_S = 20.0

LOOK_AGAIN_S = 1.0
"""Seconds after which a worker looks again for a database that was away when it started."""

MORE_TO_END_S = 4.0
"""Seconds for one of several processes to end, beside the drain and `STOP_TIMEOUT_S`."""


def serve(
    *,
    host: str = "127.0.0.1",
    port: inputs.Whole = 8000,
    workers: inputs.Whole = 1,
    metrics_port: inputs.Whole | None = None,
    metrics_host: str = "127.0.0.1",
) -> None:
    """Run the API.

    Parameters
    ----------
    host:
        The address to listen on.
    port:
        The port to listen on.
    workers:
        How many processes.
    metrics_port:
        Serve metrics for Prometheus at /metrics on this port; none without it.
    metrics_host:
        The address to listen on for these.
    """
    output.log_refusals("serve")
    check_metrics_port(metrics_host, metrics_port)
    inputs.check_counts(1, MAX_PORT, port=port)
    inputs.check_counts(1, MAX_PROCESSES, workers=workers)
    settings = _settings()
    configure_logs(settings.log_level, "serve")
    check_adapters(settings, served_parts(settings))
    servers.refuse_taken(host, port)
    options: dict[str, Any] = {
        "host": host, "port": port, "workers": workers, "loop": "uvloop",
        "timeout_graceful_shutdown": int(STOP_TIMEOUT_S),
        "timeout_worker_healthcheck": servers.ANSWER_S,
        "log_config": stdlib_logging(settings.log_level, "serve"), **servers.SERVER_OPTIONS,
    }  # fmt: skip
    with metrics_shown(settings, metrics_host, metrics_port):
        line = f"meetcore serves http://{host}:{port}, meetings run on {settings.provider}"
        answers = partial(servers.answers, host, port, HTTPStatus.OK)
        call_when(partial(answers, HTTPStatus.SERVICE_UNAVAILABLE), partial(output.log_or_print, line))
        notify_when(answers)
        if workers == 1:
            uvicorn.run("meetcore.app:app", **options)
        else:
            config = uvicorn.Config("meetcore.app:app", **options)
            end_s = settings.drain_s + STOP_TIMEOUT_S + MORE_TO_END_S
            servers.ServeProcesses(config, [config.bind_socket()], end_s).run()


def work(
    *,
    processes: inputs.Whole = 1,
    threads: inputs.Whole = 1,
    only: Literal["webhooks", "notes"] | None = None,
    metrics_port: inputs.Whole | None = None,
    metrics_host: str = "127.0.0.1",
) -> None:
    """Run workers: deliveries, notes, reconciliation.

    Parameters
    ----------
    processes:
        How many processes; each keeps many posts in flight on its event loop.
    threads:
        Threads in each that listen to the broker.
    only:
        Do only this part: send webhooks and see to meetings, or measure recordings and write notes.
    metrics_port:
        Serve metrics for Prometheus at /metrics on this port; none without it.
    metrics_host:
        The address to listen on for these.
    """
    output.log_refusals("worker")
    check_metrics_port(metrics_host, metrics_port)
    inputs.check_counts(1, MAX_PROCESSES, processes=processes, threads=threads)
    parts = (Part.WEBHOOKS, Part.NOTES) if only is None else (Part(only),)
    settings = _settings()
    if only == "notes":
        require_notes()
    configure_logs(settings.log_level, "worker")
    check_adapters(settings, parts)
    with metrics_shown(settings, metrics_host, metrics_port):
        if processes == 1:
            warn_of_settings(settings)
            if Part.NOTES in parts:
                warn_of_notes()
            if Part.WEBHOOKS in parts:
                warn_of_posting(settings)
            with suppress(StoreUnavailable):
                warn_of_role(settings)
            runner.run_service(_work(settings, threads, parts))
        else:
            _supervise(processes, threads, only)


def check_metrics_port(host: str, port: int | None) -> None:
    """Refuse a port for metrics that is not valid or is taken, or any without the package for metrics."""
    if port is not None:
        inputs.check_counts(1, MAX_PORT, metrics_port=port)
        check_metrics()
        servers.refuse_taken(host, port, "--metrics-port")


def migrate_schema(*, grant_to: str | None = None, plan: bool = False, json: inputs.Json = False) -> None:
    """Bring the schema up to date. Safe to run from many hosts at once; seeds nothing.

    Parameters
    ----------
    grant_to:
        Then give this role what the service needs, and nothing more. Run as the owner of the tables.
    plan:
        Only show the steps that are to come.
    """
    settings = load_settings()
    configure_logs(settings.log_level)
    url = settings.require_direct_database()
    try:
        if plan:
            steps = missing(url)
            kinds = {True: "online", False: "one transaction"}
            output.show([{"step": each.title, "kind": kinds[each.is_online]} for each in steps], as_json=json)
            return
        steps = migrate(url, report=output.log_or_print, on_applied=_log_step)
        asyncio.run(PostgresPartitions(url).make(datetime.now(UTC)))
        if grant_to is not None:
            grant_service(url, grant_to)
            runner.log_action("migrate --grant-to", {"granted_to": grant_to})
    except (MigrationRefused, GrantRefused) as error:
        code = "migration_refused" if isinstance(error, MigrationRefused) else "grant_refused"
        output.complain(code, str(error), as_json=json)
        raise SystemExit(output.ExitCode.REFUSED) from None
    applied = [step.title for step in steps]
    result = {"applied": applied if json else applied or None, "is_current": True}
    output.show(result if grant_to is None else result | {"granted_to": grant_to}, as_json=json)


def _log_step(step: Migration) -> None:
    runner.log_action("migrate", {"applied": [step.title]})


def _settings() -> Settings:
    """Read the settings; refuse to start on an old schema, but not when the database is unavailable."""
    try:
        settings = runner.ready_settings()
    except StoreUnavailable:
        settings = load_settings()
    check_traces(settings)
    return settings


async def _work(settings: Settings, threads: int, parts: tuple[Part, ...]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    stop_with_parent()
    allow_open_files(settings.webhook_posts_in_flight + OTHER_FILES)
    async with open_application(settings, parts=parts) as application:
        collect_rarely()
        notify_ready()
        await _until_checked(settings, application.ports.queries.ping, stop)
        async with working(application, threads):
            output.log_or_print(f"meetcore works on {' and '.join(parts)}")
            await stop.wait()


async def _until_checked(
    settings: Settings, ping: Callable[[], Awaitable[object]], stop: asyncio.Event
) -> None:
    """Wait until the database answers, which may have been away before; raises as `check_schema`.

    `ping` asks through the pool, whose failures are counted.
    """
    import structlog  # before `adapters.system` it would import rich

    while not stop.is_set():
        try:
            with suppress(StoreReadOnly):
                await ping()
            await asyncio.to_thread(check_schema, settings)
            break
        except StoreUnavailable as error:
            cause = repr(error.__cause__)
            structlog.get_logger("meetcore.worker").warning("store unavailable", during="start", cause=cause)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await stop.wait()


def _supervise(processes: int, threads: int, only: Literal["webhooks", "notes"] | None) -> None:
    """Keep a number of worker processes alive until a signal stops them. Without this process they stop."""
    is_stopping = False

    def stop(*_: object) -> None:
        nonlocal is_stopping
        is_stopping = True

    def start() -> SpawnProcess:
        child = get_context("spawn").Process(target=_work_supervised, args=(threads, only))
        child.start()
        return child

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # Before `adapters.system` it would import rich.
    import structlog

    log, children = structlog.get_logger("meetcore"), [start() for _ in range(processes)]
    while children and not is_stopping:
        time.sleep(RESTART_PAUSE_S)
        for child in list(children):
            if child.is_alive() or is_stopping:
                continue
            if child.exitcode == output.ExitCode.SETTINGS:  # another would end in the same way
                log.error("process failed to start", process=child.pid, left=len(children) - 1)
                children.remove(child)
            else:
                log.warning("process ended", process=child.pid, exit_code=child.exitcode)
                children[children.index(child)] = start()
    for child in children:
        child.terminate()
    for child in children:
        child.join(STOP_TIMEOUT_S)
        if child.is_alive():
            child.kill()
            child.join()
    if not is_stopping:
        raise SystemExit(output.ExitCode.SETTINGS)


def _work_supervised(threads: int, only: Literal["webhooks", "notes"] | None) -> None:
    """Run one of several workers."""
    with suppress(KeyboardInterrupt):  # before its handler is there
        runner.guarded(lambda: work(threads=threads, only=only))
