"""Turn facts of the domain into the events that customers are sent.

The statement that saves a change also inserts its events, and a delivery for each endpoint that wants one, so
that no crash comes between them. These statements of `adapters/postgres` do:

    meetings/create.sql      save_scheduled
    meetings/lifecycle.sql   save_refunded, save_ended
    notes/recordings.sql     save_recording
    notes/create.sql         save_refused, save_completed, save_failed
    money/postings.sql       append_if_unchanged
    webhooks/endpoints.sql   add_event_for_endpoint: for one endpoint; `redeliver` inserts a delivery alone
"""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from meetcore.domain.meetings.meetings import MeetingCreated, MeetingEnded
from meetcore.domain.money.ledger import Posting
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import NoteCompleted, NoteFailed
from meetcore.domain.notes.recordings import RecordingReady
from meetcore.domain.records.accounts import balance_record
from meetcore.domain.records.meetings import meeting_event_record
from meetcore.domain.records.notes import note_record, recording_record
from meetcore.domain.records.webhooks import endpoint_record
from meetcore.domain.webhooks.endpoints import WebhookTested
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.ports.observability import cause_of
from meetcore.usecases.runtime import Runtime

Fact = MeetingCreated | MeetingEnded | RecordingReady | NoteCompleted | NoteFailed | WebhookTested | Posting


def events_of(runtime: Runtime, at: datetime, *facts: Fact) -> list[Event]:
    """Describe facts as events, in their order; a posting may have none, or two."""
    cause = cause_of(runtime.tracing)
    return [
        Event(runtime.new_id(at), account_id, kind, at, data, subject_id, cause)
        for fact in facts
        for kind, account_id, data, subject_id in _described(fact, at)
    ]


def _described(fact: Fact, at: datetime) -> Iterator[tuple[EventKind, UUID, object, UUID | None]]:
    match fact:
        case MeetingCreated(meeting):
            yield EventKind.MEETING_CREATED, meeting.account_id, meeting_event_record(meeting, at), meeting.id
        case MeetingEnded(meeting):
            yield EventKind.MEETING_ENDED, meeting.account_id, meeting_event_record(meeting, at), meeting.id
        case RecordingReady(recording):
            record, meeting_id = recording_record(recording, at), recording.meeting_id
            yield EventKind.RECORDING_READY, recording.account_id, record, meeting_id
        case NoteCompleted(note):
            yield EventKind.NOTE_COMPLETED, note.account_id, note_record(note), note.id
        case NoteFailed(note):
            yield EventKind.NOTE_FAILED, note.account_id, note_record(note), note.id
        case WebhookTested(endpoint):
            data = endpoint_record(endpoint, with_secret=False)
            yield EventKind.WEBHOOK_TEST, endpoint.account_id, data, None
        case Posting(funds, entry) if entry is not None:
            if entry.transfer.kind is TransferKind.TOPUP:
                yield EventKind.CREDIT_TOPUP_SUCCEEDED, funds.account_id, balance_record(funds, entry), None
            for _ in fact.facts:
                yield EventKind.CREDIT_LOW, funds.account_id, balance_record(funds, entry), None
