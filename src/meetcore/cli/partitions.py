"""`meetcore partitions`: look after the partitions of events and deliveries, as workers do."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Annotated

import structlog
from attrs import asdict
from cyclopts import Parameter

from meetcore.adapters.postgres.partitions.maintenance import PostgresPartitions
from meetcore.adapters.settings import Settings, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.cli.inputs import Json, check_hours
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import ExitCode, complain, show
from meetcore.cli.runner import guarded, store_failure
from meetcore.ports.partitions import Maintained, PartitionsRefused
from meetcore.ports.store import StoreUnavailable

LEAST_HOURS, MOST_HOURS = 0.01, 168.0

log = structlog.get_logger("meetcore")


def maintain_partitions(
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    every_h: float | None = None,
    json: Json = False,
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
    guarded(lambda: check_hours(LEAST_HOURS, MOST_HOURS, every_h=every_h), as_json=json)
    settings = guarded(load_settings, as_json=json)
    configure_logs(settings.log_level)
    partitions = PostgresPartitions(guarded(settings.require_direct_database, as_json=json))
    if every_h is None:
        done = guarded(lambda: _work_once(partitions, settings, is_dry=dry_run, as_json=json), as_json=json)
        if done.needs_attention and not dry_run:
            raise SystemExit(ExitCode.REFUSED)
        return
    while True:
        try:
            done = _work_once(partitions, settings, is_dry=dry_run, as_json=json)
        except StoreUnavailable as error:
            _, reason = store_failure(error)
            log.warning("partitions not looked after", reason=reason, again_in_h=every_h)
        else:
            if done.needs_attention and not dry_run:
                log.warning("partitions", ahead=done.ahead, problems=list(done.problems))
        time.sleep(every_h * 3600)


def _work_once(
    partitions: PostgresPartitions, settings: Settings, *, is_dry: bool, as_json: bool
) -> Maintained:
    work = partitions.plan if is_dry else partitions.maintain
    try:
        done = asyncio.run(work(datetime.now(UTC), settings.partition_rules))
    except PartitionsRefused as error:
        complain("partitions_refused", str(error), as_json=as_json)
        raise SystemExit(ExitCode.REFUSED) from None
    if not is_dry and (done.made or done.dropped):
        log_action("partitions", {"made": list(done.made), "dropped": list(done.dropped)})
    names = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(done).items()}
    show(names if as_json else {name: value or None for name, value in names.items()}, as_json=as_json)
    return done
