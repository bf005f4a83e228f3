"""Figures, queues and health checks for operators."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from attrs import field, frozen

from meetcore.ports.observability import Metric

MOST_COUNTED = 100_000
"""The largest count of rows of one state."""

REMOVAL_TRIES = 3
"""How often the files of a recording are asked to be deleted before an operator is notified."""


def _figure(name: str, about: str, *labels: str, default: object = 0.0) -> Any:
    """Declare a figure, with its metric in the metadata."""
    metadata = {"metric": Metric(name, about, labels)}
    return field(factory=dict, metadata=metadata) if labels else field(default=default, metadata=metadata)


@frozen
class Figures:
    """The figures of one moment, each `None` where the service may not see it or there is none yet.

    Ages are in seconds and 0 where there is nothing. Failed work that waits for its retry is not due. A count
    stops at `MOST_COUNTED`.
    """

    deliveries_oldest_due_s: float = _figure(
        "meetcore_deliveries_oldest_due_seconds", "for how long the oldest delivery that is due has been due"
    )
    deliveries: Mapping[str, int] = _figure(
        "meetcore_deliveries",
        "deliveries that are not over: `pending`, `held` (their endpoint is paused or disabled), `parked` "
        "(they wait behind the posts in flight at their endpoint). Counted up to 100 000 each", "state",
    )  # fmt: skip
    endpoints: Mapping[str, int] = _figure(
        "meetcore_endpoints", "endpoints, counted up to 100 000 each", "state"
    )
    provider_events_oldest_due_s: float = _figure(
        "meetcore_provider_events_oldest_due_seconds",
        "for how long the oldest event of a provider has been due",
    )  # fmt: skip
    mails_oldest_due_s: float = _figure(
        "meetcore_mails_oldest_due_seconds", "for how long the oldest mail has been due"
    )
    mails_oldest_failing_s: float = _figure(
        "meetcore_mails_oldest_failing_seconds",
        "age of the oldest mail whose last attempt failed and that is tried again: it is due in the future",
    )
    meetings_oldest_in_progress_s: float = _figure(
        "meetcore_meetings_oldest_in_progress_seconds",
        "age of the oldest creation in progress, or for how long the lease of a cancellation has been over",
    )
    meetings_running_over: int = _figure(
        "meetcore_meetings_running_over",
        "meetings that were over more than a minute ago, and that the provider has not been able to end",
        default=0,
    )  # fmt: skip
    notes_oldest_due_s: Mapping[str, float] = _figure(
        "meetcore_notes_oldest_due_seconds", "for how long the oldest note of a step has been due", "step"
    )
    notes_oldest_failing_s: Mapping[str, float] = _figure(
        "meetcore_notes_oldest_failing_seconds",
        "age of the oldest note of a step whose last try failed and that is tried again: it is due in the "
        "future", "step",
    )  # fmt: skip
    notes_oldest_s: Mapping[str, float] = _figure(
        "meetcore_notes_oldest_seconds",
        "age of the oldest note in progress of a step, whatever it waits for", "step",
    )  # fmt: skip
    payments_in_doubt: Mapping[str, int] = _figure(
        "meetcore_payments_in_doubt",
        "payments that wait in the console for an operator, by their doubt, such as `wrong_amount`, "
        "`paid_after_end`, `reversed`, `refund_refused` or `disputed`. Counted up to 100 000", "doubt",
    )  # fmt: skip
    recordings_not_removed: int = _figure(
        "meetcore_recordings_not_removed",
        "recordings deleted or past their retention whose files the video provider has not deleted in "
        "three tries; customers read `expired`. Counted up to 100 000", default=0,
    )  # fmt: skip
    hosts: Mapping[str, int] = _figure(
        "meetcore_hosts",
        "hosts now: `free`, `busy` (as many meetings as it can have), `unavailable` (the provider refused "
        "it for a time), `disabled`", "state",
    )  # fmt: skip
    retention_rounds_s: Mapping[str, float] = _figure(
        "meetcore_retention_round_seconds",
        "for how long the present round over `notes` or `meetings` that are past their retention has run; "
        "0 between two rounds, and where they are kept for good", "records",
    )  # fmt: skip
    ledger_verified_at: datetime | None = _figure(  # noqa: RUF009  # evaluated once, as it should be
        "meetcore_ledger_verified_timestamp_seconds",
        "when the whole ledger was verified last; 0 before the first time", default=None,
    )  # fmt: skip
    ledger_is_sound: bool = _figure(
        "meetcore_ledger_sound", "1 where it was sound then, else 0; 1 before the first time", default=True
    )
    credits_today: Mapping[str, int] = _figure(
        "meetcore_ledger_credits_today",
        "what the balances of all accounts gained since 00:00 WIB, negative where they lost, by whichever "
        "process: `topup`, `topup_refund`, `meeting_charge`, `meeting_refund`, `notulen_charge`, "
        "`adjustment` (the sum of those added and taken)", "kind",
    )  # fmt: skip
    oldest_transaction_s: float | None = _figure(
        "meetcore_oldest_transaction_seconds",
        "age of the oldest transaction in the database; left out where the role lacks `pg_read_all_stats`",
    )  # fmt: skip
    replication_lag_s: float | None = _figure(
        "meetcore_replication_lag_seconds",
        "of the standby that is furthest behind; 0 without one, and left out where the role lacks "
        "`pg_read_all_stats`",
    )  # fmt: skip
    standbys_streaming: int | None = _figure(
        "meetcore_standbys_streaming",
        "standbys that follow the server; left out without `pg_read_all_stats`", default=None,
    )  # fmt: skip
    replication_lag_bytes: float | None = _figure(
        "meetcore_replication_lag_bytes",
        "what the standby that is furthest behind has not replayed: it grows where one hangs; 0 without "
        "one, left out without `pg_read_all_stats`", default=None,
    )  # fmt: skip
    is_archiving_failing: bool | None = _figure(
        "meetcore_wal_archiving_failing",
        "1 where the last WAL file that PostgreSQL was to archive could not be; left out where it archives "
        "none", default=None,
    )  # fmt: skip
    database_bytes: int = _figure("meetcore_database_bytes", "size of the database, without WAL", default=0)
    oldest_xid_age: int = _figure(
        "meetcore_oldest_xid_age",
        "transactions since the oldest row that is not frozen: PostgreSQL takes no writes at 2 000 million",
        default=0,
    )  # fmt: skip
    partitions_ahead: int = _figure(
        "meetcore_partitions_ahead",
        "partitions of events, deliveries or attempts that begin in the future, of the table that has the "
        "fewest; a last one that is open at its end is not counted", default=0,
    )  # fmt: skip
    schema_version: int = _figure("meetcore_schema_version", "number of the last migration", default=0)


class FigureReader(Protocol):
    """Reads the figures."""

    async def read(self) -> Figures:
        """Read the present figures. Raises `StoreUnavailable`."""


class HealthStatus(StrEnum):
    """The result of a check: a warning works and should be fixed, a skipped one could not be made."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen
class CheckResult:
    """The result of one check. Its message says what to do.

    It holds no secret, no SQL, and no address but those of others.
    """

    status: HealthStatus
    message: str


ok = partial(CheckResult, HealthStatus.OK)
warning = partial(CheckResult, HealthStatus.WARNING)
failed = partial(CheckResult, HealthStatus.FAILED)
skipped = partial(CheckResult, HealthStatus.SKIPPED)


CheckHealth = Callable[[], Awaitable[Mapping[str, CheckResult]]]
"""Checks everything that a process needs, within some seconds; returns the results by the checks' names."""
