"""Examples of events for the documentation: what is posted to customers, kind by kind."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from meetcore.adapters.api import example_records as examples
from meetcore.domain.records import credits, meetings, notes, webhooks
from meetcore.domain.webhooks.events import API_VERSION, EventKind

Json = dict[str, Any]


@frozen
class DocumentedEvent:
    """An event as it is documented: a sentence or two, the class of its `data`, and an example of that."""

    about: str
    record: type
    example: Json


def _balance_after(transaction: Json) -> Json:
    available = transaction["balance_after"]
    return {"balance": available, "held": 0, "available": available, "transaction": transaction}


_PUBLIC_MEETING = examples.MEETING | {"password": None}

EVENTS: Mapping[EventKind, DocumentedEvent] = {
    EventKind.MEETING_CREATED: DocumentedEvent(
        "A meeting was made. `data` is the meeting; its `password` and `host_key` are null.",
        meetings.Meeting,
        _PUBLIC_MEETING,
    ),
    EventKind.MEETING_ENDED: DocumentedEvent(
        "A meeting was ended, by the provider or by `DELETE /meetings/{id}`. `data` is the meeting; "
        "its `password` and `host_key` are null.",
        meetings.Meeting,
        _PUBLIC_MEETING | {"status": "ended"},
    ),
    EventKind.RECORDING_READY: DocumentedEvent(
        "A recording can be had. `data` is the recording.", notes.Recording, examples.RECORDING
    ),
    EventKind.NOTE_COMPLETED: DocumentedEvent(
        "Notes are written and paid for. `data` is the note.", notes.Note, examples.NOTE
    ),
    EventKind.NOTE_FAILED: DocumentedEvent(
        "Notes could not be written; they cost nothing. `data` is the note.",
        notes.Note,
        examples.FAILED_NOTE,
    ),
    EventKind.CREDIT_LOW: DocumentedEvent(
        "The available balance fell below the account's threshold. `data` is the balance and the "
        "transaction that did it. Sent once, and again only after the balance was at the threshold.",
        credits.BalanceChange,
        _balance_after(
            examples.transaction("meeting_charge", -15, 95, {"type": "meeting", "id": examples.MEETING["id"]})
        ),
    ),
    EventKind.CREDIT_TOPUP_SUCCEEDED: DocumentedEvent(
        "Credits were added. `data` is the balance and the transaction.",
        credits.BalanceChange,
        _balance_after(examples.transaction("topup", 500, 595, {"type": "topup", "id": "INV-7"})),
    ),
    EventKind.WEBHOOK_TEST: DocumentedEvent(
        "You asked for it with `POST /webhooks/{id}/test`. `data` is the webhook, without its secret.",
        webhooks.Webhook,
        examples.WEBHOOK,
    ),
}


def payload(kind: EventKind) -> Json:
    """Build an example payload, as `domain.webhooks.events.encode_event` writes it."""
    return {
        "id": examples.EVENT_ID,
        "type": kind.value,
        "created_at": examples.MADE_AT,
        "api_version": API_VERSION,
        "data": EVENTS[kind].example,
    }
