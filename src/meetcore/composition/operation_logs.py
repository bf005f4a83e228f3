"""The log lines of the application: one for each event that an operator may have to examine.

Ids, counts and codes; no addresses of customers, and no content of meetings.
"""

import structlog

from meetcore.composition.notes_extra import INSTALL_NOTES
from meetcore.composition.policy import Reports
from meetcore.domain.mails.mails import Mail
from meetcore.domain.meetings.provider_events import EventOutcome
from meetcore.domain.notes.notes import Note, NoteFault
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.deliveries import Claimed, GivenUp, Recorded
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.ledger_verification import VerificationRun
from meetcore.ports.mails import ClaimedMail
from meetcore.ports.meetings import ExpiredLease
from meetcore.ports.notes import NoteTask
from meetcore.ports.partitions import FEW_AHEAD, Maintained
from meetcore.ports.provider_events import ClaimedEvent
from meetcore.ports.recordings import RecordingTask
from meetcore.ports.video_provider import ProviderRefused
from meetcore.usecases.create_meeting import CapacityRefusal
from meetcore.usecases.lost_events import DELIVERED
from meetcore.usecases.remove_orphans import OrphanReport
from meetcore.usecases.turns import FailedBatch

log = structlog.get_logger("meetcore.worker")


def _log_failed_delivery(recorded: Recorded) -> None:
    """Log an attempt that failed: a warning where it was the last one."""
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


def _log_given_up(given_up: GivenUp) -> None:
    """Log a delivery that ended without a last attempt, and why."""
    log.warning(
        "delivery given up", account_id=str(given_up.account_id), webhook_id=str(given_up.endpoint_id),
        delivery_id=str(given_up.delivery_id), event_id=str(given_up.event_id), reason=given_up.reason.value,
    )  # fmt: skip


def _log_delivered(recorded: Recorded) -> None:
    """Log an event that an endpoint took: after a restore only the log says which events customers have."""
    delivery = recorded.delivery
    log.info(
        DELIVERED, account_id=str(delivery.account_id), webhook_id=str(delivery.endpoint_id),
        delivery_id=str(delivery.id), event_id=str(delivery.event_id), event_type=delivery.event_kind.value,
    )  # fmt: skip


def _log_disabled_endpoint(endpoint: Endpoint) -> None:
    """Log that failures in a row disabled an endpoint."""
    log.warning(
        "webhook disabled", account_id=str(endpoint.account_id), webhook_id=str(endpoint.id),
        consecutive_failures=endpoint.consecutive_failures,
    )  # fmt: skip


def _log_failed_note(note: Note, fault: NoteFault) -> None:
    """Log a note that failed finally."""
    log.warning(
        "note failed", account_id=str(note.account_id), note_id=str(note.id),
        recording_id=str(note.recording_id), fault=fault.value, step=note.step.value, tries=note.tries,
    )  # fmt: skip


def _log_takeover(expired: ExpiredLease) -> None:
    """Log that a meeting is worked on by another process because its lease expired."""
    log.warning(
        "expired lease taken over", account_id=str(expired.account_id), meeting_id=str(expired.meeting_id)
    )


def _log_expired_delivery(claimed: Claimed) -> None:
    """Log a post whose lease expired: its worker died, or could not carry it out."""
    log.info(
        "expired lease taken over", account_id=str(claimed.account_id), delivery_id=str(claimed.delivery_id),
        event_id=str(claimed.event_id),
    )  # fmt: skip


def _log_expired_recording(task: RecordingTask) -> None:
    """Log a recording whose worker died or stood still."""
    recording = task.recording
    log.warning(
        "expired lease taken over", account_id=str(recording.account_id), recording_id=str(recording.id),
        tries=task.tries,
    )  # fmt: skip


def _log_expired_note(task: NoteTask) -> None:
    """Log a note whose worker died or stood still."""
    log.warning(
        "expired lease taken over", account_id=str(task.note.account_id), note_id=str(task.note.id),
        step=task.note.step.value, expired=task.lease_expirations,
    )  # fmt: skip


def _log_expired_event(claimed: ClaimedEvent) -> None:
    """Log an event of a provider whose worker died or stood still, or whose handling met a fault."""
    log.warning(
        "expired lease taken over", provider_event_id=str(claimed.id), provider=claimed.event.provider,
        tries=claimed.tries,
    )  # fmt: skip


def _log_expired_mail(claimed: ClaimedMail) -> None:
    """Log a mail whose worker died or stood still."""
    log.warning("expired lease taken over", mail_id=str(claimed.mail.id), kind=claimed.mail.kind.value)


def _log_kept_key(due: DueHostKey, refusal: ProviderRefused) -> None:
    log.warning("host key not replaced", host=due.provider_user_id, cause=str(refusal))


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


def _log_handled_event(claimed: ClaimedEvent, outcome: EventOutcome) -> None:
    event = claimed.event
    log.info(
        "provider event handled", provider=event.provider, kind=event.kind.value,
        provider_meeting_id=event.provider_meeting_id, outcome=outcome.name.lower(), tries=claimed.tries,
    )  # fmt: skip


def _log_failed_recording(task: RecordingTask, fault: Exception) -> None:
    recording = task.recording
    log.warning(
        "recording not worked on", recording_id=str(recording.id), status=recording.status.value,
        tries=task.tries, cause=str(fault),
    )  # fmt: skip


def _log_dropped_requests(count: int) -> None:
    """Log requests that the dashboard will not show, because too many waited to be written."""
    log.warning("requests not kept", count=count)


def _log_failed_mail(mail: Mail) -> None:
    """Log an attempt that failed: a warning where it was the last one."""
    emit = log.info if mail.failed_at is None else log.warning
    emit(
        "mail not sent", mail_id=str(mail.id), kind=mail.kind.value, status=mail.status.value,
        account_id=None if mail.account_id is None else str(mail.account_id), attempts=mail.attempts_made,
        error=mail.last_error, next_attempt_at=None if mail.due_at is None else mail.due_at.isoformat(),
    )  # fmt: skip


def _log_failed_sign_on(reason: str, is_operators: bool) -> None:
    """Log why nobody was signed in by an OpenID provider; the page says one thing for every reason."""
    log.info("sign-on refused", reason=reason, area="console" if is_operators else "dashboard")


def _log_overdue_notes() -> None:
    """Log that work for notes stays due, in a process that was to do it and cannot."""
    log.warning("notes are due and are not made here", hint=f"another worker must, or: {INSTALL_NOTES}")


def _log_verified_ledger(run: VerificationRun) -> None:
    """Log that the whole ledger was verified: an error where something is wrong."""
    emit = log.error if run.findings else log.info
    emit(
        "ledger verified", is_sound=not run.findings, accounts=run.accounts, entries=run.entries,
        findings=list(run.findings), started_at=run.started_at.isoformat(),
    )  # fmt: skip


def _log_maintained_partitions(done: Maintained) -> None:
    """Log what a round did, and what it could not do: a warning where an operator has to look after it."""
    emit = log.warning if done.needs_attention else log.info
    emit(
        "partitions", made=list(done.made), dropped=list(done.dropped), waiting=list(done.waiting),
        ahead=done.ahead, is_busy=done.is_busy, is_fenced=done.is_fenced, problems=list(done.problems),
    )  # fmt: skip


def _log_refused_partitions(found: Maintained, reason: str) -> None:
    """Log that partitions have to be looked after elsewhere, once it has not been done for some time."""
    if found.ahead < FEW_AHEAD:
        log.warning("partitions not looked after", reason=reason, ahead=found.ahead)


def _log_failed_batch(batch: FailedBatch) -> None:
    """Log writes that failed together: what still fails alone is refused to its caller, the rest is done."""
    log.error("batch failed", what=batch.what, size=batch.size, exc_info=batch.fault)


LOGGED = Reports(
    expired_lease=_log_takeover,
    expired_delivery=_log_expired_delivery,
    expired_recording=_log_expired_recording,
    expired_note=_log_expired_note,
    expired_event=_log_expired_event,
    expired_mail=_log_expired_mail,
    orphan=_log_orphan,
    kept_host_key=_log_kept_key,
    no_capacity=_log_capacity_refusal,
    handled_event=_log_handled_event,
    failed_recording=_log_failed_recording,
    failed_note=_log_failed_note,
    failed_delivery=_log_failed_delivery,
    given_up_delivery=_log_given_up,
    delivered=_log_delivered,
    disabled_endpoint=_log_disabled_endpoint,
    failed_mail=_log_failed_mail,
    failed_sign_on=_log_failed_sign_on,
    verified_ledger=_log_verified_ledger,
    overdue_notes=_log_overdue_notes,
    dropped_requests=_log_dropped_requests,
    maintained_partitions=_log_maintained_partitions,
    refused_partitions=_log_refused_partitions,
    failed_batch=_log_failed_batch,
)
"""Every event is a log line."""
