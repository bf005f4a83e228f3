"""Telemetry of a process: metrics, traces, and fields of log lines."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from itertools import product
from types import MappingProxyType
from typing import Final, Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import NoteFault
from meetcore.domain.webhooks.sender_faults import SenderFault


class Log(Protocol):
    """A structlog logger or one like it."""

    def info(self, event: str, /, **fields: object) -> object: ...
    def warning(self, event: str, /, **fields: object) -> object: ...
    def error(self, event: str, /, **fields: object) -> object:
        """Log an event that an operator must act on."""

    def exception(self, event: str, /, **fields: object) -> object: ...


@frozen(eq=False)
class Metric:
    """One metric. `buckets` are the bounds of a histogram, in seconds; a counter's name ends in `_total`.

    `known` are values of the labels that begin at zero: `increase()` misses the first event of others.
    """

    name: str
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()

    @property
    def kind(self) -> str:
        """`histogram`, `counter` or `gauge`."""
        return "histogram" if self.buckets else "counter" if self.name.endswith("_total") else "gauge"


class Metrics(Protocol):
    """Metrics of one process."""

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None:
        """Add to a counter or a gauge."""

    def observe(self, metric: Metric, value: float, *labels: str | int) -> None:
        """Set a gauge, or add a duration in seconds to a histogram."""


class NoMetrics:
    """Metrics of a process without a reader."""

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None: ...
    def observe(self, metric: Metric, value: float, *labels: str | int) -> None: ...


NO_METRICS: Metrics = NoMetrics()


def count_credits(metrics: Metrics, kind: TransferKind, credits: int) -> None:
    """Count the credits of a committed transfer; an adjustment may have negative ones."""
    name: str = kind.value
    if kind is TransferKind.ADJUSTMENT:
        name = "adjustment_added" if credits > 0 else "adjustment_taken"
    metrics.count(CREDITS, name, by=abs(credits))


def _metric(
    name: str, about: str, *labels: str, buckets: tuple[float, ...] = (), known: Iterable[str] = (),
    known_pairs: Iterable[tuple[str, str]] = (),
) -> Metric:  # fmt: skip
    return Metric(name, about, labels, buckets, (*((value,) for value in known), *known_pairs))


_REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CALL_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)

REQUESTS: Final = _metric(
    "meetcore_requests_total",
    "answers, by the operation (`POST /meetings`, `tool create_meeting`, `page dashboard`; `unknown` for "
    "any other), its quota class, the status, and the error code of a refusal",
    "operation", "class", "status", "code",
)  # fmt: skip
REQUEST_DURATION: Final = _metric(
    "meetcore_request_duration_seconds",
    "time from a request's head to its answer", "operation", buckets=_REQUEST_S,
)  # fmt: skip
IN_PROGRESS: Final = _metric("meetcore_requests_in_progress", "requests that are not answered yet")
POOL_SIZE: Final = _metric(
    "meetcore_pool_connections",
    "connections to PostgreSQL that are open, to the `primary` and to the standby for `lists`", "pool",
)  # fmt: skip
POOL_IDLE: Final = _metric("meetcore_pool_idle_connections", "of these, those that nothing uses", "pool")
POOL_WAITING: Final = _metric(
    "meetcore_pool_waiting", "transactions and reads that wait for a connection", "pool"
)
POOL_WAITS: Final = _metric(
    "meetcore_pool_waits_total", "transactions and reads that had to wait for one", "pool"
)
POOL_WAITED: Final = _metric("meetcore_pool_wait_seconds_total", "seconds for which they waited", "pool")
STORE_UNAVAILABLE: Final = _metric(
    "meetcore_store_unavailable_total",
    "transactions and reads that PostgreSQL was unavailable for: `pool` (no connection became free), "
    "`timeout`, `lost`, `full` (no connection left at the server), `disk_full`, `login`, `read_only`, "
    "`away`. Those of `lists` went to the primary", "pool", "kind", known_pairs=product(
        ("primary", "lists"), ("pool", "timeout", "lost", "full", "disk_full", "login", "read_only", "away")
    ),
)  # fmt: skip
ATTEMPTS: Final = _metric(
    "meetcore_delivery_attempts_total",
    "posts of webhooks: `2xx`, another class of status, or the error of a post without a whole answer",
    "result",
)  # fmt: skip
ATTEMPT_DURATION: Final = _metric(
    "meetcore_delivery_attempt_duration_seconds", "time of a post of a webhook", buckets=_CALL_S
)
DELIVERIES_FAILED: Final = _metric(
    "meetcore_deliveries_failed_total",
    "deliveries that ended without success: `attempts` (the last one failed), `held_too_long` (their "
    "endpoint was inactive for too long), `past_retention` (their event was)", "reason",
    known=("attempts", "held_too_long", "past_retention"),
)  # fmt: skip
SENDER_FAULTS: Final = _metric(
    "meetcore_sender_faults_total",
    "deliveries that a fault of the sender put off, which counts against no endpoint: `no_resolver`, "
    "`no_authorities`, `no_route`, `no_resources`, `no_key`, `wrong_clock`, or `hosts_fail_alike` (more than "
    "half of all hosts had the same error)", "reason", known=tuple(SenderFault),
)  # fmt: skip
ENDPOINTS_DISABLED: Final = _metric("meetcore_endpoints_disabled_total", "endpoints that failures disabled")
LEASES_EXPIRED: Final = _metric(
    "meetcore_leases_expired_total",
    "work that was taken over because its process died or stood still, or could not carry it out: "
    "`meeting`, `delivery`, `recording`, `note`, `provider_event`, `mail`", "subject",
    known=("meeting", "delivery", "recording", "note", "provider_event", "mail"),
)  # fmt: skip
RECONCILED: Final = _metric(
    "meetcore_meetings_reconciled_total",
    "meetings in progress that were taken over: `finished`, `undone`, `cancelled`, `left` (tried again), "
    "`failed`", "outcome", known=("finished", "undone", "cancelled", "left", "failed"),
)  # fmt: skip
PROVIDER_CALLS: Final = _metric(
    "meetcore_provider_calls_total",
    "calls of the video provider: `done`, `unknown` (no answer), or the code of a refusal. Calls about "
    "the files of recordings (`files_find`, `files_open`, `files_remove`; `files_read` is one that broke "
    "off) end as `done`, `unavailable`, `gone`, `out_of_range` or `unknown`", "call", "result",
    known_pairs=(
        *product(
            ("create", "find", "remove", "end", "list", "read", "set_host_key"),
            ("done", "unknown", "refused"),
        ),
        *product(("files_find", "files_open", "files_remove"), ("done", "unknown", "unavailable")),
        ("files_read", "unavailable"),
    ),
)  # fmt: skip
PROVIDER_DURATION: Final = _metric(
    "meetcore_provider_call_duration_seconds", "time of a call of the video provider", "call", buckets=_CALL_S
)
GATEWAY_CALLS: Final = _metric(
    "meetcore_gateway_calls_total",
    "calls of the payment gateway (`checkout`, `find`, `refund`): `done`, `refused`, or `unknown` (no "
    "answer)", "call", "result",
    known_pairs=product(("checkout", "find", "refund"), ("done", "refused", "unknown")),
)  # fmt: skip
NO_HOST: Final = _metric(
    "meetcore_no_host_total",
    "meetings refused for want of a host, by the seats that were asked for", "capacity",
)  # fmt: skip
NOTES_FAILED: Final = _metric(
    "meetcore_notes_failed_total", "notes that were given up", "reason", known=tuple(NoteFault)
)
CREDITS: Final = _metric(
    "meetcore_credits_total",
    "credits that this process moved: `topup`, `topup_refund`, `meeting_charge`, `meeting_refund`, "
    "`notulen_charge`, `adjustment_added`, `adjustment_taken`. Commands such as "
    "`meetcore credits topup` are processes without metrics: `meetcore_ledger_credits_today` has theirs, too",
    "kind",
    known=(
        "topup", "topup_refund", "meeting_charge", "meeting_refund", "notulen_charge", "adjustment_added",
        "adjustment_taken",
    ),
)  # fmt: skip
LISTS: Final = _metric(
    "meetcore_list_reads_total",
    "lists of a process that may read them from a standby: read from the `standby`, or from the primary, "
    "because the standby lacked what the caller had written (`own_write`), was too far `behind` or no "
    "standby any more, ended the statement (`given_up`), or did not answer (`away`)", "source",
    known=("standby", "own_write", "behind", "given_up", "away"),
)  # fmt: skip
RATE_FALLBACK: Final = _metric(
    "meetcore_rate_store_fallback", "processes that count requests by themselves, as the rate store is away"
)
BROKER_AWAY: Final = _metric(
    "meetcore_broker_away",
    "queues to which a process cannot send notifications, or from which it receives none, as the broker is "
    "away or blocks it",
)  # fmt: skip
LOG_FAILURES: Final = _metric(
    "meetcore_log_failures_total",
    "log lines that could not be written, as on a full disk: delayed or lost",
)  # fmt: skip

PROCESS_METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All, in the order above."""


Detail = str | int | float | bool | UUID | None
"""An attribute of a span; `None` is left out. The attribute `error`, a code, marks the span as failed."""

RawHeaders = Iterable[tuple[bytes, bytes]]


class Tracing(Protocol):
    """Spans of one process. A span is open in the task that opened it, and in the tasks that this starts."""

    def request(self, headers: RawHeaders) -> AbstractContextManager[object]:
        """Record a request, continue its caller's trace, or neither; names of `headers` are in lower case."""

    def span(self, name: str, **details: Detail) -> AbstractContextManager[object]:
        """Record a span inside the open one, if any; an exception that leaves it marks it as failed."""

    def caused(self, name: str, cause: str | None, **details: Detail) -> AbstractContextManager[object]:
        """Record a trace with a link to an earlier span, by its `cause`; nothing for `None`."""

    def resumed(self, place: str | None) -> AbstractContextManager[object]:
        """Give the log lines of the context the trace of a span that is over, by its `cause`."""

    def describe(self, name: str | None = None, **details: Detail) -> None:
        """Add attributes to the open span, if any, and rename it where a name is given."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers of an outgoing request that continue the trace; empty without one."""

    def cause(self) -> str | None:
        """Return the traceparent of the open span, to store; `None` without one."""


NO_HEADERS: Final[Mapping[str, str]] = {}
NOT_RECORDED: Final[AbstractContextManager[object]] = nullcontext()
"""The reusable context of spans that are not recorded."""


class NoTracing:
    """Tracing of a process without a reader."""

    def span(self, *_: object, **__: object) -> AbstractContextManager[object]:
        return NOT_RECORDED

    request = caused = resumed = span

    def describe(self, *_: object, **__: object) -> None: ...
    def headers(self) -> Mapping[str, str]:
        return NO_HEADERS

    def cause(self) -> str | None:
        return None


NO_TRACING: Tracing = NoTracing()

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_FIELDS: Final[ContextVar[dict[str, str] | None]] = ContextVar("meetcore_log_fields", default=None)


class logged_with:  # noqa: N801  # a statement, as those of contextlib are
    """Adds fields to every log line of a request within the block."""

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        known = _FIELDS.get()
        self._token = _FIELDS.set({**known, **self._fields} if known else self._fields)

    def __exit__(self, *_: object) -> None:
        _FIELDS.reset(self._token)


def add_log_fields(**fields: str) -> None:
    """Add fields to the log lines of the present request, if any."""
    known = _FIELDS.get()
    if known is not None:
        known |= fields


def log_fields() -> Mapping[str, str]:
    """Return the log fields of the present request."""
    return _FIELDS.get() or _NONE


_REQUEST_ID: Final = 36
"""The length of a request's id, which no traceparent has."""


def cause_of(tracing: Tracing) -> str | None:
    """Return the present span and the present request's id, to store with what follows from them."""
    found = [part for part in (tracing.cause(), log_fields().get("request_id")) if part]
    return " ".join(found) or None


def span_of(cause: str | None) -> str | None:
    """Return the traceparent of a stored cause."""
    return next((part for part in (cause or "").split() if len(part) != _REQUEST_ID), None)


def request_of(cause: str | None) -> str | None:
    """Return the request's id of a stored cause."""
    return next((part for part in (cause or "").split() if len(part) == _REQUEST_ID), None)


def logged_as_caused(cause: str | None) -> AbstractContextManager[object]:
    """Give the log lines of the context the request's id of a stored cause, where it has one."""
    request_id = request_of(cause)
    return NOT_RECORDED if request_id is None else logged_with(request_id=request_id)
