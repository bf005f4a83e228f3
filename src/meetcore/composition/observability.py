"""Observability of a process: log lines of the application, metrics, and traces.

Log lines have ids, counts and codes; no addresses of customers, and no content of meetings. A process that
serves metrics names a directory in its environment, and its children inherit that: each process keeps its
counts in files there. Without it no package for metrics is imported, nor one for traces where no collector
is named.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from meetcore.adapters.postgres.pool import Pool, PoolState, make_pool
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import LOG_FAILURES, version
from meetcore.composition.configuration import INSTALL_NOTES
from meetcore.composition.policy import Reports
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.ports import observability
from meetcore.ports.maintenance import FEW_AHEAD, Maintained

if TYPE_CHECKING:
    from meetcore.domain.mails.mails import Mail
    from meetcore.domain.money.views import VerificationRun
    from meetcore.domain.payments.payments import Payment
    from meetcore.domain.webhooks.views import Recorded
    from meetcore.ports.figures import FigureReader
    from meetcore.usecases.meetings.create_meeting import CapacityRefusal
    from meetcore.usecases.meetings.reconcile_meetings import OrphanReport

DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of the environment that names the directory; the package reads it when it is imported."""

SAMPLE_EVERY_S: Final = 5.0
FIGURES_S: Final = 4
"""Seconds in which the figures are read; the server itself ends each statement after 2."""

log = structlog.get_logger("meetcore.worker")


def _log_failed_delivery(recorded: Recorded) -> None:
    delivery, attempt = recorded.delivery, recorded.attempt
    emit = log.warning if delivery.status is DeliveryStatus.FAILED else log.info
    due = delivery.next_attempt_at
    emit(
        "delivery failed", account_id=str(delivery.account_id), webhook_id=str(delivery.endpoint_id),
        delivery_id=str(delivery.id), event_id=str(delivery.event_id),
        status=delivery.status.value, attempts=delivery.attempts_made,
        status_code=attempt.status_code, error=attempt.error, duration_ms=attempt.duration_ms,
        next_attempt_at=None if due is None else due.isoformat(),
    )  # fmt: skip


# After a restore only the log says which events customers have.
def _log_delivered(recorded: Recorded) -> None:
    delivery = recorded.delivery
    log.info(
        "delivery succeeded", account_id=str(delivery.account_id), webhook_id=str(delivery.endpoint_id),
        delivery_id=str(delivery.id), event_id=str(delivery.event_id), event_type=delivery.event_kind.value,
    )  # fmt: skip


def _log_orphan(report: OrphanReport) -> None:
    check = report.check
    named: dict[str, object] = {"meeting_id": str(check.meeting.id), "host": check.provider_user_id}
    if report.provider_meeting_id is not None:
        named["provider_meeting_id"] = report.provider_meeting_id
    if report.error is None:
        log.warning("orphan removed", **named)
    elif report.provider_meeting_id is not None:
        log.error("orphan not removed", cause=str(report.error), failures=check.failures + 1, **named)
    else:
        log.warning("orphans not looked for", cause=str(report.error), failures=check.failures + 1, **named)


def _log_capacity_refusal(report: CapacityRefusal) -> None:
    details = dict(report.refusal.details)
    if report.account_id is not None:
        details["account_id"] = str(report.account_id)
    log.warning(
        "no host for a meeting", reason=type(report.refusal).__name__, seats=report.seats,
        start_at=report.start_at.isoformat(), **details,
    )  # fmt: skip


def _log_failed_mail(mail: Mail) -> None:
    emit = log.info if mail.failed_at is None else log.warning
    emit(
        "mail not sent", mail_id=str(mail.id), kind=mail.kind.value, status=mail.status.value,
        account_id=None if mail.account_id is None else str(mail.account_id), attempts=mail.attempts_made,
        error=mail.last_error, next_attempt_at=None if mail.due_at is None else mail.due_at.isoformat(),
    )  # fmt: skip


def _log_payment(payment: Payment, error: Exception | None) -> None:
    named = {"payment_id": str(payment.id), "account_id": str(payment.account_id), "gateway": payment.gateway}
    if error is not None:
        log.warning("payment gateway failed", fault=type(error).__name__, cause=str(error), **named)
    elif payment.doubt is not None:
        log.warning("payment in doubt", doubt=payment.doubt.value, **named)


def _log_verified_ledger(run: VerificationRun) -> None:
    emit = log.error if run.findings else log.info
    emit(
        "ledger verified", is_sound=not run.findings, accounts=run.accounts, entries=run.entries,
        findings=list(run.findings), started_at=run.started_at.isoformat(),
    )  # fmt: skip


def _log_maintained_partitions(done: Maintained) -> None:
    is_short = done.ahead < FEW_AHEAD
    if done.refusal and is_short:
        log.warning("partitions not looked after", reason=done.refusal, ahead=done.ahead)
    elif not done.refusal and (is_short or done != Maintained(ahead=done.ahead)):
        emit = log.warning if is_short else log.info
        emit(
            "partitions", made=list(done.made), dropped=list(done.dropped), waiting=list(done.waiting),
            ahead=done.ahead, is_busy=done.is_busy,
        )  # fmt: skip


_TAKEN_OVER: Final = "expired lease taken over"

LOGGED = Reports(
    expired_lease=lambda expired: log.warning(
        _TAKEN_OVER, account_id=str(expired.account_id), meeting_id=str(expired.meeting_id)
    ),
    expired_delivery=lambda claimed: log.info(
        _TAKEN_OVER, account_id=str(claimed.account_id), delivery_id=str(claimed.delivery_id),
        event_id=str(claimed.event_id),
    ),
    expired_recording=lambda task: log.warning(
        _TAKEN_OVER, account_id=str(task.recording.account_id), recording_id=str(task.recording.id),
        tries=task.tries,
    ),
    expired_note=lambda task: log.warning(
        _TAKEN_OVER, account_id=str(task.note.account_id), note_id=str(task.note.id),
        step=task.note.step.value, expired=task.lease_expirations,
    ),
    expired_event=lambda claimed: log.warning(
        _TAKEN_OVER, provider_event_id=str(claimed.id), provider=claimed.event.provider, tries=claimed.tries
    ),
    expired_mail=lambda claimed: log.warning(
        _TAKEN_OVER, mail_id=str(claimed.mail.id), kind=claimed.mail.kind.value
    ),
    left_meeting=lambda expired, cause: log.warning(
        "meeting left in progress", account_id=str(expired.account_id), meeting_id=str(expired.meeting_id),
        fault=type(cause).__name__, cause=str(cause),
    ),
    orphan=_log_orphan,
    kept_host_key=lambda due, refusal: log.warning(
        "host key not replaced", host=due.provider_user_id, cause=str(refusal)
    ),
    no_capacity=_log_capacity_refusal,
    handled_event=lambda claimed, outcome: log.info(
        "provider event handled", provider=claimed.event.provider, kind=claimed.event.kind.value,
        provider_meeting_id=claimed.event.provider_meeting_id, outcome=outcome.name.lower(),
        tries=claimed.tries,
    ),
    failed_recording=lambda task, fault: log.warning(
        "recording not worked on", recording_id=str(task.recording.id), status=task.recording.status.value,
        tries=task.tries, cause=str(fault),
    ),
    failed_note=lambda note, fault: log.warning(
        "note failed", account_id=str(note.account_id), note_id=str(note.id),
        recording_id=str(note.recording_id), fault=fault.value, step=note.step.value, tries=note.tries,
    ),
    failed_delivery=_log_failed_delivery,
    given_up_delivery=lambda given_up: log.warning(
        "delivery given up", account_id=str(given_up.account_id), webhook_id=str(given_up.endpoint_id),
        delivery_id=str(given_up.delivery_id), event_id=str(given_up.event_id), reason=given_up.reason.value,
    ),
    delivered=_log_delivered,
    disabled_endpoint=lambda endpoint: log.warning(
        "webhook disabled", account_id=str(endpoint.account_id), webhook_id=str(endpoint.id),
        consecutive_failures=endpoint.consecutive_failures,
    ),
    sender_fault=lambda fault: log.error("webhooks cannot be posted", reason=fault.value),
    sender_fault_over=lambda period: log.info(
        "webhooks can be posted again", reason=period.fault.value, put_off=period.put_off,
        lasted_s=round((period.last_at - period.began_at).total_seconds()),
    ),
    failed_mail=_log_failed_mail,
    payment=_log_payment,
    failed_sign_on=lambda reason, is_operators: log.info(
        "sign-on refused", reason=reason, area="console" if is_operators else "dashboard"
    ),
    verified_ledger=_log_verified_ledger,
    overdue_notes=lambda: log.warning(
        "notes are due and are not made here", hint=f"another worker must, or: {INSTALL_NOTES}"
    ),
    dropped_requests=lambda count: log.warning("requests not kept", count=count),
    maintained_partitions=_log_maintained_partitions,
    failed_batch=lambda batch: log.error(
        "batch failed", what=batch.what, size=batch.size, exc_info=batch.fault
    ),
)  # fmt: skip


def check_metrics() -> None:
    """Raise `SettingsRefused` where the extra `metrics` is not installed."""
    if find_spec("prometheus_client") is None:
        raise SettingsRefused("metrics need a package that is not installed: pip install 'meetcore[metrics]'")


@cache
def process_metrics() -> observability.Metrics:
    """Return the metrics of this process, one instance: two would overwrite each other's counts."""
    if not os.environ.get(DIRECTORY) or find_spec("prometheus_client") is None:
        return observability.NO_METRICS
    from meetcore.adapters.prometheus import PrometheusMetrics  # an extra

    return PrometheusMetrics()


async def sample_pool(pool: Pool, metrics: observability.Metrics) -> None:
    """Report the state of the pool, and failures to log, every few seconds, until cancelled."""
    before = PoolState()
    while True:
        metrics.count(observability.LOG_FAILURES, by=LOG_FAILURES.since_last())
        before = report_pool(metrics, pool.serves, pool.state(), before)
        await asyncio.sleep(SAMPLE_EVERY_S)


def report_pool(metrics: observability.Metrics, name: str, state: PoolState, before: PoolState) -> PoolState:
    """Report a pool's state, and how much its totals have grown; one that was opened anew began at zero."""
    metrics.observe(observability.POOL_SIZE, state.size, name)
    metrics.observe(observability.POOL_IDLE, state.idle, name)
    metrics.observe(observability.POOL_WAITING, state.waiting, name)
    metrics.count(observability.POOL_WAITS, name, by=max(0, state.waits - before.waits))
    metrics.count(observability.POOL_WAITED, name, by=max(0, state.waited_s - before.waited_s))
    return state


@contextmanager
def metrics_shown(settings: Settings, host: str, port: int | None) -> Iterator[None]:
    """Serve the metrics of this process and of its children while the block runs; nothing without a port.

    Raises `SettingsRefused` without the extra `metrics`, `OSError` where the address is taken or not ours.
    """
    if port is None:
        yield
        return
    check_metrics()
    directory = tempfile.mkdtemp(prefix="meetcore-metrics-")
    os.environ[DIRECTORY] = directory
    try:
        from meetcore.adapters.prometheus import metrics_served  # an extra

        with (
            _removed_on_sigterm(directory),
            metrics_served(Path(directory), host, port, version(), partial(_open_figures, settings)),
        ):
            yield
    finally:
        del os.environ[DIRECTORY]
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _removed_on_sigterm(directory: str) -> Iterator[None]:
    """Remove a directory also where SIGTERM ends the process: a server that stopped by it raises it again."""

    def end(number: int, _: object) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@asynccontextmanager
async def _open_figures(settings: Settings, idle_s: float) -> AsyncIterator[FigureReader]:
    """Open the figures of the store, on one connection."""
    from meetcore.adapters.postgres.console import PostgresFigures

    pool = make_pool(
        settings.require_database(), max_size=1, min_size=0, idle_s=idle_s, deadline_s=FIGURES_S,
        is_pooled=settings.is_pooled, role="metrics",
    )  # fmt: skip
    async with pool:
        yield PostgresFigures(pool)


def has_traces() -> bool:
    """Return whether the extra `traces` is installed."""
    try:
        return all(map(find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")))
    except ModuleNotFoundError:  # of a package above
        return False


def check_traces(settings: Settings) -> None:
    """Raise `SettingsRefused` where a collector is named and the extra `traces` is not installed."""
    if settings.traces_url and not has_traces():
        raise SettingsRefused(
            "MEETCORE_TRACES_URL needs a package that is not installed: pip install 'meetcore[traces]'"
        )


@asynccontextmanager
async def open_tracing(settings: Settings, role: str) -> AsyncIterator[observability.Tracing]:
    """Open the traces of a process by its role in log lines; at the end send the rest within seconds."""
    check_traces(settings)
    if not settings.traces_url or role == "command":  # which records no request, and is over at once
        yield observability.NO_TRACING
        return
    from meetcore.adapters.otlp import OtlpTracing, Sampling, close_provider, open_provider  # an extra

    process: dict[str, str | int] = {
        "service.name": "meetcore", "service.version": version(), "meetcore.role": role,
        "process.pid": os.getpid(),
    }  # fmt: skip
    provider = open_provider(settings.traces_url, settings.traces_header_fields, process)
    try:
        yield OtlpTracing(provider, Sampling(settings.traces_sampled))
    finally:
        await asyncio.to_thread(close_provider, provider)
