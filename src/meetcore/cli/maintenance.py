"""`meetcore doctor`, `partitions`, `secrets`: check the settings, keep partitions, move to another key."""

import asyncio
import time
from contextlib import suppress
from typing import Annotated

import structlog
from attrs import asdict
from cyclopts import App, Parameter

from meetcore.adapters.postgres.partitions import PostgresPartitions
from meetcore.adapters.settings import Settings, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.cli import inputs, runner
from meetcore.cli.output import ExitCode, complain, print_message, progress, show, until_unread
from meetcore.composition import configuration, infrastructure
from meetcore.composition.application import Application
from meetcore.ports import maintenance, store
from meetcore.usecases.requests.erasure import Resealing, ResealSecrets

LEAST_HOURS, MOST_HOURS = 0.01, 168.0

secrets = App(name="secrets", help="The secrets key: move to another one, and remove the old one.")

log = structlog.get_logger("meetcore")


def check_health(*, json: inputs.Json = False) -> None:
    """Check database, servers and providers that the settings name. Ends with 1 if any check failed."""
    from meetcore.composition.doctor import run_checks
    from meetcore.ports.figures import HealthStatus

    settings = load_settings()
    results = run_checks(settings, asks_models=True)
    is_healthy = all(result.status is not HealthStatus.FAILED for result in results.values())
    if json:
        checks = [
            {"check": name, "status": result.status.value, "message": result.message}
            for name, result in results.items()
        ]
        show({"is_healthy": is_healthy, "checks": checks}, as_json=True)
    else:
        with until_unread():
            for name, result in results.items():
                print_message(f"{result.status.value:<9}{name:<12}{result.message}")
    if not is_healthy:
        raise SystemExit(ExitCode.REFUSED)


def maintain_partitions(
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    every_h: float | None = None,
    json: inputs.Json = False,
) -> None:
    """Make the partitions of events and deliveries that are to come; drop those past their retention.

    Workers do it by themselves where their role owns the tables; else run this as the owner.

    Parameters
    ----------
    dry_run:
        Only show what would be done.
    every_h:
        Do it again and again, so many hours after the last time, until the program is ended.
    """
    inputs.check_hours(LEAST_HOURS, MOST_HOURS, every_h=every_h)
    settings = load_settings()
    configure_logs(settings.log_level)
    partitions = PostgresPartitions(settings.direct_database or settings.require_database())

    def work() -> maintenance.Maintained:
        return asyncio.run(partitions.maintain(None, settings.events_kept, is_dry=dry_run))

    if every_h is None:
        done = work()
        _show_partitions(done, is_dry=dry_run, as_json=json)
        if done.needs_attention and not dry_run:
            raise SystemExit(ExitCode.REFUSED)
        return
    with suppress(KeyboardInterrupt):
        while True:
            try:
                _show_partitions(work(), is_dry=dry_run, as_json=json)
            except store.StoreUnavailable as error:
                _, reason = runner.store_failure(error)
                log.warning("partitions not looked after", reason=reason, again_in_h=every_h)
            time.sleep(every_h * 3600)


def _show_partitions(done: maintenance.Maintained, *, is_dry: bool, as_json: bool) -> None:
    if done.refusal:
        complain("partitions_refused", done.refusal, as_json=as_json)
        raise SystemExit(ExitCode.REFUSED)
    if not is_dry and (done.made or done.dropped):
        runner.log_action("partitions", {"made": list(done.made), "dropped": list(done.dropped)})
    names = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(done).items()}
    show(names if as_json else {name: value or None for name, value in names.items()}, as_json=as_json)


@secrets.command
def reseal(*, dry_run: Annotated[bool, Parameter(negative="")] = False, json: inputs.Json = False) -> None:
    """Encrypt values of other keys under the first key, while the service runs. Ends with 1 if any is left.

    Parameters
    ----------
    dry_run:
        Only count what is under each key.
    """

    async def work(settings: Settings, application: Application) -> Resealing:
        async with infrastructure.open_sealed_values(settings) as values:
            use_case = ResealSecrets(
                values, application.ports.store, application.runtime, origin=application.origin
            )
            with progress("values encrypted") as report:
                done = await use_case(dry_run=dry_run, on_progress=report)
        if done.resealed:
            runner.log_action("secrets reseal", {"amount": done.resealed})
        return done

    done = runner.with_settings(work, as_json=json)
    named = {id_: done.left.get(id_, 0) for id_ in (*done.keys, *done.left)}
    show(
        {
            "resealed": done.resealed,
            "changed_meanwhile": done.changed,
            "unreadable": done.unreadable,
            "is_done": done.is_done,
            "first_key": done.keys[0],
            "values": named if json else "; ".join(f"{id_}: {count}" for id_, count in named.items()),
        },
        as_json=json,
    )
    if unknown := sorted(set(done.left) - set(done.keys)):
        print_message(
            f"Values are under keys that are not in MEETCORE_SECRETS_KEY: put back {', '.join(unknown)}.",
            as_json=True,
        )
    if not done.is_done:
        raise SystemExit(ExitCode.REFUSED)


@secrets.command
def derive(*, json: inputs.Json = False) -> None:
    """Print what has to be kept of the keys behind the first before they are removed. These are secrets."""
    kept = configuration.kept_of_removed(load_settings())
    show(dict(kept), as_json=json)
    if not kept:
        print_message("There is one key, and nothing to keep of another.", as_json=True)
