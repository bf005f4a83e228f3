"""`meetcore serve`, `worker`, `migrate`: the processes of production."""

import asyncio
import signal
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import Any, Literal

import uvicorn

from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.migration_plan import PlannedStep, plan_migrations
from meetcore.adapters.postgres.migration_steps import (
    Migration,
    MigrationRefused,
    load_migrations,
    schemas_of,
)
from meetcore.adapters.postgres.roles import GrantRefused, grant_service
from meetcore.adapters.settings import Settings, load_settings
from meetcore.adapters.system import configure_logs, stdlib_logging, stop_with_parent
from meetcore.cli.inputs import Json, Whole, check_counts
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import ExitCode, complain, log_or_print, log_refusals, print_message, show
from meetcore.cli.ports import refuse_taken
from meetcore.cli.progress import progress
from meetcore.cli.runner import guarded, ready_settings, run_service
from meetcore.cli.serve_processes import ANSWER_S, ServeProcesses
from meetcore.cli.server_options import SERVER_OPTIONS
from meetcore.composition.infrastructure import open_application
from meetcore.composition.metrics import check_metrics
from meetcore.composition.metrics_server import metrics_shown
from meetcore.composition.notes_extra import require_notes, warn_of_notes
from meetcore.composition.ports import Part
from meetcore.composition.start_warnings import warn_of_role, warn_of_settings
from meetcore.composition.tracing import check_traces
from meetcore.composition.worker import working
from meetcore.ports.store import StoreUnavailable

MAX_PORT = 65_535
MAX_PROCESSES = 64
RESTART_PAUSE_S = 1.0
STOP_TIMEOUT_S = 20.0
KEEP_ALIVE_S = 75
"""How long a connection may idle: longer than proxies (60 s) and clients (5 s) keep theirs, so that they
close it. One that is closed here just as a request comes costs an answer."""

MORE_TO_END_S = 4.0
"""What a process of several has to end beside the drain and `STOP_TIMEOUT_S`."""


def serve(
    *,
    host: str = "127.0.0.1",
    port: Whole = 8000,
    workers: Whole = 1,
    metrics_port: Whole | None = None,
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
    log_refusals("serve")
    check_metrics_port(metrics_host, metrics_port)
    guarded(lambda: check_counts(1, MAX_PORT, port=port))
    guarded(lambda: check_counts(1, MAX_PROCESSES, workers=workers))
    settings = guarded(_settings)
    configure_logs(settings.log_level, "serve")
    refuse_taken(host, port)
    log_or_print(f"meetcore serves http://{host}:{port}, meetings run on {settings.provider}")
    options: dict[str, Any] = {
        "host": host, "port": port, "workers": workers, "loop": "uvloop",
        "timeout_graceful_shutdown": int(STOP_TIMEOUT_S), "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_worker_healthcheck": ANSWER_S,
        "log_config": stdlib_logging(settings.log_level, "serve"), **SERVER_OPTIONS,
    }  # fmt: skip
    with metrics_shown(settings, metrics_host, metrics_port):
        if workers == 1:
            uvicorn.run("meetcore.app:app", **options)
        else:
            config = uvicorn.Config("meetcore.app:app", **options)
            end_s = settings.drain_s + STOP_TIMEOUT_S + MORE_TO_END_S
            ServeProcesses(config, [config.bind_socket()], end_s).run()


def work(
    *,
    processes: Whole = 1,
    threads: Whole = 1,
    only: Literal["webhooks", "notes"] | None = None,
    metrics_port: Whole | None = None,
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
    log_refusals("worker")
    check_metrics_port(metrics_host, metrics_port)
    guarded(lambda: check_counts(1, MAX_PROCESSES, processes=processes, threads=threads))
    parts = (Part.WEBHOOKS, Part.NOTES) if only is None else (Part(only),)
    settings = guarded(_settings)
    if only == "notes":
        guarded(require_notes)
    configure_logs(settings.log_level, "worker")
    with metrics_shown(settings, metrics_host, metrics_port):
        if processes == 1:
            warn_of_settings(settings)
            if Part.NOTES in parts:
                warn_of_notes()
            with suppress(StoreUnavailable):
                warn_of_role(settings)
            run_service(_work(settings, threads, parts))
        else:
            _supervise(processes, threads, only)


def check_metrics_port(host: str, port: int | None) -> None:
    """Refuse a port for metrics that cannot be listened on, or without the package for them.

    Raises:
        SystemExit: reported on standard error.
    """
    if port is not None:
        guarded(lambda: check_counts(1, MAX_PORT, metrics_port=port))
        guarded(check_metrics)
        refuse_taken(host, port, "--metrics-port")


def migrate_schema(*, grant_to: str | None = None, plan: bool = False, json: Json = False) -> None:
    """Bring the schema up to date. Safe to run from many hosts at once; seeds nothing.

    Parameters
    ----------
    grant_to:
        Then give this role what the service needs, and nothing more. Run as the owner of the tables.
    plan:
        Only show the steps that are to come, the locks that each takes, and how much it reads.
    """
    settings = guarded(load_settings, as_json=json)
    configure_logs(settings.log_level)
    url = guarded(settings.require_direct_database, as_json=json)
    try:
        if plan:
            _show_plan(guarded(lambda: plan_migrations(url), as_json=json), as_json=json)
            return
        applied = guarded(lambda: _migrate(url), as_json=json)
        if grant_to is not None:
            guarded(lambda: grant_service(url, grant_to), as_json=json)
            log_action("migrate --grant-to", {"granted_to": grant_to})
    except (MigrationRefused, GrantRefused) as error:
        code = "migration_refused" if isinstance(error, MigrationRefused) else "grant_refused"
        complain(code, str(error), as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    result = {"applied": applied if json else applied or None, "is_current": True}
    show(result if grant_to is None else result | {"granted_to": grant_to}, as_json=json)


def _migrate(url: str) -> list[str]:
    """Apply what is missing and log the steps that were applied, those before one that failed included."""
    begun: list[str] = []
    is_done = False
    try:
        with progress("migrations") as report:

            def on_step(step: Migration, place: int, total: int) -> None:
                begun.append(step.title)
                report(place, total)

            migrate(url, on_step=on_step, on_wait=_report_wait)
        is_done = True
    finally:
        applied = begun if is_done else begun[:-1]
        if applied:
            log_action("migrate", {"applied": applied})
    return applied


def _show_plan(planned: list[PlannedStep], *, as_json: bool) -> None:
    """Show the steps that are to come, and the schemas that this release runs on."""
    rows, runs_on = [_plan_row(each) for each in planned], schemas_of(load_migrations())
    if as_json:
        show({"data": rows, "runs_on": {"oldest": runs_on.oldest, "newest": runs_on.newest}}, as_json=True)
        return
    if rows:
        show(rows, as_json=False)
    else:
        print_message("the schema is up to date")
    print_message(f"this release runs on migrations {runs_on.text}")


def _plan_row(planned: PlannedStep) -> dict[str, object]:
    """One step of the plan as it is shown."""
    locks = [f"{table}: {lock.text}" for table, lock in sorted(planned.locks.items())]
    return {
        "step": planned.step.title,
        "kind": "online" if planned.step.is_online else "one transaction",
        "may_follow": planned.step.is_optional,
        "locks": locks,
        "reads_bytes": planned.reads_bytes,
        "reads_s": round(planned.reads_s, 1),
    }


def _report_wait(step: Migration, pause_s: float) -> None:
    log_or_print(f"migration {step.number:04} waits for locks that others hold; next try in {pause_s:.0f} s")


def _settings() -> Settings:
    """Read the settings; refuse to start on an old schema, but not when the database is unavailable."""
    try:
        settings = ready_settings()
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
    async with open_application(settings, parts=parts) as application, working(application, threads):
        log_or_print(f"meetcore works on {' and '.join(parts)}")
        await stop.wait()


def _supervise(processes: int, threads: int, only: Literal["webhooks", "notes"] | None) -> None:
    """Keep a number of worker processes alive until a signal stops them.

    Without this process they stop, too.
    """
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
    children = [start() for _ in range(processes)]
    while not is_stopping:
        time.sleep(RESTART_PAUSE_S)
        children = [child if child.is_alive() or is_stopping else start() for child in children]
    for child in children:
        child.terminate()
    for child in children:
        child.join(STOP_TIMEOUT_S)
        if child.is_alive():
            child.kill()
            child.join()


def _work_supervised(threads: int, only: Literal["webhooks", "notes"] | None) -> None:
    """Run one of several workers."""
    with suppress(KeyboardInterrupt):  # before its handler is there
        work(threads=threads, only=only)
