"""The log lines of the background work: one for each event that an operator may have to examine.

Ids, counts and codes; no addresses of customers, and no content of meetings.
"""

import structlog

from meetcore.domain.notes.notes import Note, NoteFault
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.deliveries import Recorded
from meetcore.ports.meetings import ExpiredLease

__all__ = ["log_disabled_endpoint", "log_failed_delivery", "log_failed_note", "log_takeover"]

log = structlog.get_logger("meetcore.worker")


def log_failed_delivery(recorded: Recorded) -> None:
    """Log an attempt that failed: a warning where it was the last one."""
    delivery, attempt = recorded.delivery, recorded.attempt
    emit = log.warning if delivery.status is DeliveryStatus.FAILED else log.info
    due = delivery.next_attempt_at
    emit(
        "delivery failed", account_id=str(delivery.account_id), webhook_id=str(delivery.endpoint_id),
        delivery_id=str(delivery.id), status=delivery.status.value, attempts=delivery.attempts_made,
        status_code=attempt.status_code, error=attempt.error, duration_ms=attempt.duration_ms,
        next_attempt_at=None if due is None else due.isoformat(),
    )  # fmt: skip


def log_disabled_endpoint(endpoint: Endpoint) -> None:
    """Log that failures in a row disabled an endpoint."""
    log.warning(
        "webhook disabled", account_id=str(endpoint.account_id), webhook_id=str(endpoint.id),
        consecutive_failures=endpoint.consecutive_failures,
    )  # fmt: skip


def log_failed_note(note: Note, fault: NoteFault) -> None:
    """Log a note that failed finally."""
    log.warning(
        "note failed", account_id=str(note.account_id), note_id=str(note.id),
        recording_id=str(note.recording_id), fault=fault.value, step=note.step.value, tries=note.tries,
    )  # fmt: skip


def log_takeover(expired: ExpiredLease) -> None:
    """Log that a meeting is worked on by another process because its lease expired."""
    log.warning(
        "expired lease taken over", account_id=str(expired.account_id), meeting_id=str(expired.meeting_id)
    )
