"""What `/metrics` shows: the counters that processes keep in a directory, and figures of the store."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from meetcore.adapters.prometheus import families
from meetcore.adapters.prometheus.families import Family
from meetcore.ports.figures import Figures

ENDED_KEPT: Final = 100
"""How many processes that have ended keep their counts. Of more, the oldest counts are dropped."""


@frozen
class Exposition:
    """Renders the metrics of all processes that share a directory.

    `figures` gives the last figures of the store, or `None` where there are none of the last minute.
    `version` is that of the program.
    """

    directory: Path
    figures: Callable[[], Figures | None]
    version: str

    def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        forget_ended(self.directory)
        registry = CollectorRegistry()
        registry.register(self)
        MultiProcessCollector(registry, path=str(self.directory))  # type: ignore[no-untyped-call]  # of the package
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Give the metrics that are not in the directory."""
        yield _gauge(families.BUILD, {(self.version, platform.python_version()): 1.0})
        figures = self.figures()
        yield _gauge(families.UP, {(): float(figures is not None)})
        if figures is not None:
            yield from _shown(figures)


def forget_ended(directory: Path) -> None:
    """Remove the gauges of processes that have ended, and the counts of those that ended long ago."""
    ended: dict[int, float] = {}
    for file in directory.glob("*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if pid not in ended and not _is_kept(file, pid):
            mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]  # of the package
            ended[pid] = 0.0
        if pid in ended and file.exists():
            ended[pid] = max(ended[pid], file.stat().st_mtime)
    for pid in sorted(ended, key=ended.__getitem__)[: max(0, len(ended) - ENDED_KEPT)]:
        for file in directory.glob(f"*_{pid}.db"):
            file.unlink(missing_ok=True)


def _is_kept(file: Path, pid: int) -> bool:
    """Return whether a process has its file open. Another process may have the number by now, and has not."""
    try:
        os.kill(pid, 0)
        opened = Path(f"/proc/{pid}/fd").iterdir()
        return any(_leads_to(each, file.resolve()) for each in opened)
    except ProcessLookupError:
        return False
    except (PermissionError, FileNotFoundError):  # another user's, or a system without /proc
        return True


def _leads_to(descriptor: Path, file: Path) -> bool:
    with suppress(FileNotFoundError):  # closed meanwhile
        return descriptor.readlink() == file
    return False


def _shown(figures: Figures) -> Iterator[Metric]:
    verified = figures.ledger_verified_at
    ages = {
        families.DELIVERIES_OLDEST: figures.deliveries_oldest_due_s,
        families.EVENTS_OLDEST: figures.provider_events_oldest_due_s,
        families.MAILS_OLDEST: figures.mails_oldest_due_s,
        families.MAILS_FAILING: figures.mails_oldest_failing_s,
        families.IN_PROGRESS_OLDEST: figures.meetings_oldest_in_progress_s,
        families.LEDGER_VERIFIED: 0.0 if verified is None else verified.timestamp(),
        families.LEDGER_SOUND: float(figures.ledger_is_sound),
        families.TRANSACTION_OLDEST: figures.oldest_transaction_s,
        families.LAG: figures.replication_lag_s,
        families.STANDBYS: figures.standbys_streaming,
        families.LAG_BYTES: figures.replication_lag_bytes,
        families.PARTITIONS_AHEAD: float(figures.partitions_ahead),
        families.SCHEMA: float(figures.schema_version),
    }
    for family, value in ages.items():
        if value is not None:
            yield _gauge(family, {(): float(value)})
    several = {
        families.DELIVERIES: figures.deliveries,
        families.ENDPOINTS: figures.endpoints,
        families.NOTES_OLDEST: figures.notes_oldest_due_s,
        families.NOTES_FAILING: figures.notes_oldest_failing_s,
        families.NOTES_AGE: figures.notes_oldest_s,
        families.CREDITS_TODAY: figures.credits_today,
        families.HOSTS: figures.hosts,
        families.RETENTION: figures.retention_rounds_s,
    }
    for family, values in several.items():
        yield _gauge(family, {(name,): float(value) for name, value in values.items()})


def _gauge(family: Family, values: dict[tuple[str, ...], float]) -> Metric:
    gauge = GaugeMetricFamily(family.name, family.about, labels=family.labels)
    for labels, value in values.items():
        gauge.add_metric(labels, value)
    return gauge
