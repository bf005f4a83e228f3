"""Every metric: its name, kind, labels and meaning.

The documents, the alerts and the dashboard are checked against this table.
"""

from enum import StrEnum
from typing import Final

from attrs import frozen


class Kind(StrEnum):
    """The kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@frozen
class Family:
    """One metric. `buckets` are the upper bounds of a histogram, in seconds.

    A counter's name ends in `_total`. `of_store` are read from the database, the others are counted by each
    process.
    """

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of_store: bool = False


_REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CALL_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


def _counter(name: str, about: str, *labels: str) -> Family:
    return Family(name, Kind.COUNTER, about, labels)


def _gauge(name: str, about: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, about, labels)


def _figure(name: str, about: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, about, labels, of_store=True)


REQUESTS: Final = _counter(
    "meetcore_requests_total",
    "answers, by the operation (`POST /meetings`, `tool create_meeting`, `page dashboard`; `unknown` for "
    "what is "
    "none), its quota class, the status, and the error code of a refusal",
    "operation", "class", "status", "code",
)  # fmt: skip
REQUEST_DURATION: Final = Family(
    "meetcore_request_duration_seconds", Kind.HISTOGRAM, "time from a request's head to its answer",
    ("operation",), _REQUEST_S,
)  # fmt: skip
IN_PROGRESS: Final = _gauge("meetcore_requests_in_progress", "requests that are not answered yet")
POOL_SIZE: Final = _gauge(
    "meetcore_pool_connections",
    "connections to PostgreSQL that are open, to the `primary` and to the standby for `lists`", "pool",
)  # fmt: skip
POOL_IDLE: Final = _gauge("meetcore_pool_idle_connections", "of these, those that nothing uses", "pool")
POOL_WAITING: Final = _gauge(
    "meetcore_pool_waiting", "transactions and reads that wait for a connection", "pool"
)
POOL_WAITS: Final = _counter(
    "meetcore_pool_waits_total", "transactions and reads that had to wait for one", "pool"
)
POOL_WAITED: Final = _counter("meetcore_pool_wait_seconds_total", "seconds for which they waited", "pool")
STORE_UNAVAILABLE: Final = _counter(
    "meetcore_store_unavailable_total",
    "transactions and reads that PostgreSQL was unavailable for: `pool` (no connection became free), "
    "`timeout`, "
    "`lost`, `full` (no connection left at the server), `login`, `read_only`, `away`. Those of `lists` went "
    "to the primary",
    "pool", "kind",
)  # fmt: skip
ATTEMPTS: Final = _counter(
    "meetcore_delivery_attempts_total",
    "posts of webhooks: `2xx`, another class of status, or the error of a post without an answer",
    "result",
)
ATTEMPT_DURATION: Final = Family(
    "meetcore_delivery_attempt_duration_seconds", Kind.HISTOGRAM, "time of a post of a webhook", (), _CALL_S
)
DELIVERIES_FAILED: Final = _counter(
    "meetcore_deliveries_failed_total",
    "deliveries that ended without success: `attempts` (the last one failed), `held_too_long` (their "
    "endpoint was inactive for too long), `past_retention` (their event was)",
    "reason",
)
ENDPOINTS_DISABLED: Final = _counter("meetcore_endpoints_disabled_total", "endpoints that failures disabled")
LEASES_EXPIRED: Final = _counter(
    "meetcore_leases_expired_total",
    "work that was taken over because its process died or stood still, or could not carry it out: `meeting`, "
    "`delivery`, `recording`, `note`, `provider_event`, `mail`",
    "subject",
)
RECONCILED: Final = _counter(
    "meetcore_meetings_reconciled_total",
    "meetings in progress that were taken over: `finished`, `undone`, `cancelled`, `left` (tried again), "
    "`failed`",
    "outcome",
)
PROVIDER_CALLS: Final = _counter(
    "meetcore_provider_calls_total",
    "calls of the video provider: `done`, `unknown` (no answer), or the code of a refusal. Calls about the "
    "files of recordings (`files_find`, `files_open`, `files_remove`; `files_read` is one that broke off) "
    "end as `done`, `unavailable`, `gone`, `out_of_range` or `unknown`",
    "call", "result",
)  # fmt: skip
PROVIDER_DURATION: Final = Family(
    "meetcore_provider_call_duration_seconds", Kind.HISTOGRAM, "time of a call of the video provider",
    ("call",), _CALL_S,
)  # fmt: skip
NO_HOST: Final = _counter(
    "meetcore_no_host_total",
    "meetings refused for want of a host, by the seats that were asked for",
    "capacity",
)
NOTES_FAILED: Final = _counter("meetcore_notes_failed_total", "notes that were given up", "reason")
CREDITS: Final = _counter(
    "meetcore_credits_total",
    "credits that this process moved: `topup`, `meeting_charge`, `meeting_refund`, `notulen_charge`, "
    "`adjustment_added`, `adjustment_taken`. Commands such as `meetcore credits topup` are processes "
    "without metrics: `meetcore_ledger_credits_today` has theirs, too",
    "kind",
)
LISTS: Final = _counter(
    "meetcore_list_reads_total",
    "lists of a process that may read them from a standby: read from the `standby`, or from the primary, "
    "because the standby lacked what the caller had written (`own_write`), was too far `behind` or no "
    "standby any more, ended the statement (`given_up`), or did not answer (`away`)",
    "source",
)
RATE_FALLBACK: Final = _gauge(
    "meetcore_rate_store_fallback", "processes that count requests by themselves, as the rate store is away"
)
BUILD: Final = _gauge("meetcore_build_info", "1, with the versions that run", "version", "python")
UP: Final = _gauge(
    "meetcore_store_figures_up",
    "1 where the last reading of the figures below, at most a minute ago, succeeded. They are left out "
    "where it is 0",
)

DELIVERIES_OLDEST: Final = _figure(
    "meetcore_deliveries_oldest_due_seconds", "for how long the oldest delivery that is due has been due"
)
DELIVERIES: Final = _figure(
    "meetcore_deliveries",
    "deliveries that are not over: `pending`, `held` (their endpoint is paused or disabled), `parked` "
    "(they wait "
    "behind the posts in flight at their endpoint). Counted up to 100 000 each",
    "state",
)
ENDPOINTS: Final = _figure("meetcore_endpoints", "endpoints, counted up to 100 000 each", "state")
EVENTS_OLDEST: Final = _figure(
    "meetcore_provider_events_oldest_due_seconds", "for how long the oldest event of a provider has been due"
)
MAILS_OLDEST: Final = _figure(
    "meetcore_mails_oldest_due_seconds", "for how long the oldest mail has been due"
)
MAILS_FAILING: Final = _figure(
    "meetcore_mails_oldest_failing_seconds",
    "age of the oldest mail whose last attempt failed and that is tried again: it is due in the future",
)
IN_PROGRESS_OLDEST: Final = _figure(
    "meetcore_meetings_oldest_in_progress_seconds",
    "age of the oldest creation in progress, or for how long the lease of a cancellation has been over",
)
NOTES_OLDEST: Final = _figure(
    "meetcore_notes_oldest_due_seconds", "for how long the oldest note of a step has been due", "step"
)
NOTES_FAILING: Final = _figure(
    "meetcore_notes_oldest_failing_seconds",
    "age of the oldest note of a step whose last try failed and that is tried again: it is due in the future",
    "step",
)
NOTES_AGE: Final = _figure(
    "meetcore_notes_oldest_seconds", "age of the oldest note in progress of a step, whatever it waits for",
    "step",
)  # fmt: skip
HOSTS: Final = _figure(
    "meetcore_hosts",
    "hosts now: `free`, `busy` (as many meetings as it can have), `unavailable` (the provider refused it "
    "for a "
    "time), `disabled`",
    "state",
)
RETENTION: Final = _figure(
    "meetcore_retention_round_seconds",
    "for how long the present round over `notes` or `meetings` that are past their retention has run; 0 "
    "between two rounds, and where they are kept for good",
    "records",
)
LEDGER_VERIFIED: Final = _figure(
    "meetcore_ledger_verified_timestamp_seconds",
    "when the whole ledger was verified last; 0 before the first time",
)
LEDGER_SOUND: Final = _figure(
    "meetcore_ledger_sound", "1 where it was sound then, else 0; 1 before the first time"
)
CREDITS_TODAY: Final = _figure(
    "meetcore_ledger_credits_today",
    "what the balances of all accounts gained since 00:00 WIB, negative where they lost, by whichever "
    "process: `topup`, `meeting_charge`, `meeting_refund`, `notulen_charge`, `adjustment` (the sum of "
    "those added and taken)",
    "kind",
)
TRANSACTION_OLDEST: Final = _figure(
    "meetcore_oldest_transaction_seconds",
    "age of the oldest transaction in the database; left out where the role lacks `pg_read_all_stats`",
)
LAG: Final = _figure(
    "meetcore_replication_lag_seconds",
    "of the standby that is furthest behind; 0 without one, and left out where the role lacks "
    "`pg_read_all_stats`",
)
STANDBYS: Final = _figure(
    "meetcore_standbys_streaming", "standbys that follow the server; left out without `pg_read_all_stats`"
)
LAG_BYTES: Final = _figure(
    "meetcore_replication_lag_bytes",
    "what the standby that is furthest behind has not replayed: it grows where one hangs; 0 without one, "
    "left out without `pg_read_all_stats`",
)
PARTITIONS_AHEAD: Final = _figure(
    "meetcore_partitions_ahead",
    "partitions of events, deliveries or attempts that begin in the future, of the table that has the "
    "fewest; a "
    "last one that is open at its end is not counted",
)
SCHEMA: Final = _figure("meetcore_schema_version", "number of the last migration")

FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All, in the order above."""
