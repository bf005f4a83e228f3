"""Examples for the documentation: one meeting, one webhook, and the events about them."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from meetcore.domain.records import accounts, meetings, notes, webhooks
from meetcore.domain.webhooks.events import API_VERSION, EventKind

Json = dict[str, Any]

_RECORDS: Json = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""Records as the API answers them."""

MEETING: Json = _RECORDS["meeting"]
WEBHOOK: Json = _RECORDS["webhook"]
DELIVERY: Json = _RECORDS["delivery"]
TIER: Json = _RECORDS["tier"]
PACKAGE: Json = _RECORDS["package"]
TOPUP: Json = _RECORDS["topup"]
ACCOUNT: Json = _RECORDS["account"]
RECORDING: Json = _RECORDS["recording"]
NOTE: Json = _RECORDS["note"]
MADE_AT = "2026-11-21T11:33:03Z"
EVENT_ID = "01a1fde1-9c79-7a1c-8c59-52ed529d6442"

IDS: Mapping[str, Mapping[str, str]] = {
    "meetings": {"id": MEETING["id"]},
    "recordings": {"id": RECORDING["id"]},
    "notes": {"id": NOTE["id"]},
    "webhooks": {"id": WEBHOOK["id"], "delivery_id": DELIVERY["id"]},
    "events": {"id": EVENT_ID},
    "credits": {"id": TOPUP["id"]},
}
"""Ids for the parameters of a path, by its first segment."""

WEBHOOK_WITH_SECRET = WEBHOOK | {"secret": "whsec_i+rUSKZOSOfmecntc/vREBdZJPCtYOkjpKQFfFOb8+s="}
EVENT: Json = {
    "id": EVENT_ID,
    "type": "meeting.created",
    "created_at": MADE_AT,
    "api_version": "v1",
    "data": MEETING | {"password": None},
}
PENDING_DELIVERY = (
    DELIVERY
    | {"event_type": "webhook.test", "status": "pending", "attempts": []}
    | {"next_attempt_at": MADE_AT}
)


def transaction(kind: str, amount: int, balance_after: int, about: Mapping[str, str]) -> Json:
    """Build a transaction."""
    return {
        "id": "01a1fde1-9c81-7d20-b1f4-0f6a3c9d5e77",
        "kind": kind,
        "amount": amount,
        "balance_after": balance_after,
        "reference": dict(about),
        "reverses": None,
        "api_key_id": WEBHOOK["created_by"] if amount < 0 else None,
        "created_at": MADE_AT,
    }


CHARGE = transaction("meeting_charge", -15, 985, {"type": "meeting", "id": MEETING["id"]})

FAILED_NOTE = NOTE | {
    "status": "failed", "summary": None, "decisions": [], "action_items": [], "topics": [], "transcript": [],
    "written_by": None, "duration": None, "credits_charged": 0, "completed_at": None,
    "error": "The account had too few credits for these notes. Top up and ask for them with POST /notes.",
}  # fmt: skip
QUEUED_NOTE = NOTE | {
    "status": "queued", "summary": None, "decisions": [], "action_items": [], "topics": [], "transcript": [],
    "written_by": None, "duration": None, "credits_charged": None, "completed_at": None,
}  # fmt: skip


def page_of(record: Json) -> Json:
    """Build the last page of a list, with one record."""
    return {"data": [record], "next_cursor": None}


@frozen
class DocumentedEvent:
    """An event as it is documented: a sentence or two, the class of its `data`, and an example of that."""

    about: str
    record: type
    example: Json


def _balance_after(transaction: Json) -> Json:
    available = transaction["balance_after"]
    return {"balance": available, "held": 0, "available": available, "transaction": transaction}


_PUBLIC_MEETING = MEETING | {"password": None}

EVENTS: Mapping[EventKind, DocumentedEvent] = {
    EventKind.MEETING_CREATED: DocumentedEvent(
        "A meeting was made. `data` is the meeting; its `password` and `host_key` are null.",
        meetings.Meeting,
        _PUBLIC_MEETING,
    ),
    EventKind.MEETING_ENDED: DocumentedEvent(
        "A meeting is over: at its `end_at`, by `DELETE /meetings/{id}`, or because all have left. `data` is "
        "the meeting; its `password` and `host_key` are null.",
        meetings.Meeting,
        _PUBLIC_MEETING | {"status": "ended"},
    ),
    EventKind.RECORDING_READY: DocumentedEvent(
        "A recording can be had. `data` is the recording.", notes.Recording, RECORDING
    ),
    EventKind.NOTE_COMPLETED: DocumentedEvent(
        "Notes are written and paid for. `data` is the note.", notes.Note, NOTE
    ),
    EventKind.NOTE_FAILED: DocumentedEvent(
        "Notes could not be written; they cost nothing. `data` is the note.", notes.Note, FAILED_NOTE
    ),
    EventKind.CREDIT_LOW: DocumentedEvent(
        "The available balance fell below the account's threshold. `data` is the balance and the "
        "transaction that did it. Sent once, and again only after the balance was at the threshold.",
        accounts.BalanceChange,
        _balance_after(transaction("meeting_charge", -15, 95, {"type": "meeting", "id": MEETING["id"]})),
    ),
    EventKind.CREDIT_TOPUP_SUCCEEDED: DocumentedEvent(
        "Credits were added. `data` is the balance and the transaction.",
        accounts.BalanceChange,
        _balance_after(transaction("topup", 500, 595, {"type": "topup", "id": "INV-7"})),
    ),
    EventKind.WEBHOOK_TEST: DocumentedEvent(
        "You asked for it with `POST /webhooks/{id}/test`. `data` is the webhook, without its secret.",
        webhooks.Webhook,
        WEBHOOK,
    ),
}


def payload(kind: EventKind) -> Json:
    """Build an example payload, as `domain.webhooks.events.encode_event` writes it."""
    return {
        "id": EVENT_ID,
        "type": kind.value,
        "created_at": MADE_AT,
        "api_version": API_VERSION,
        "data": EVENTS[kind].example,
    }


_LONGEST_LINE = 60


def curl_command(method: str, url: str, body: str = "", *, with_idempotency_key: bool = False) -> str:
    """Write a request for `curl`; the API key stays in the variable `MEETCORE_API_KEY`.

    `body` is JSON, or empty for none. With an idempotency key, each run is a new intent.
    """
    lines = [f"curl -sS{'' if method == 'GET' else f' -X {method}'} {shlex.quote(url)}"]
    lines.append('-H "Authorization: Bearer $MEETCORE_API_KEY"')
    if with_idempotency_key:
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if body:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    return " \\\n  ".join(lines)


def json_text(value: Any) -> str:
    """Write a JSON value for people: on one line if it is short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_LINE else json.dumps(value, ensure_ascii=False, indent=2)
