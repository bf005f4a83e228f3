"""Examples for the documentation: one meeting, one webhook, and the events about them."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from meetcore.domain.records import accounts, meetings, notes, webhooks
from meetcore.domain.webhooks.events import API_VERSION, EventKind

Json = dict[str, Any]

_MEETING_ID = "01a1fde1-9c79-7f87-a745-919389bf998d"
_WEBHOOK_ID = "01a1fde1-9878-70f1-98ba-027d0b1035cb"
_DELIVERY_ID = "01a1fde1-9c79-768f-b2bc-9f052675d39b"
_RECORDING_ID = "01a1ffd0-1c3e-7b02-8d7e-6a55c1f0e2d4"
_NOTE_ID = "01a1ffd4-77aa-7c15-9f02-3be2a7d8c901"
_PAYMENT_ID = "01a1fde1-4d10-7a51-9f0e-2f6c1f1c9a10"
_KEY_ID = "01a1fde1-002d-72b5-a13a-7bc5bfcf37cf"
MADE_AT = "2026-11-21T11:33:03Z"
EVENT_ID = "01a1fde1-9c79-7a1c-8c59-52ed529d6442"

IDS: Mapping[str, Mapping[str, str]] = {
    "meetings": {"id": _MEETING_ID},
    "recordings": {"id": _RECORDING_ID},
    "notes": {"id": _NOTE_ID},
    "webhooks": {"id": _WEBHOOK_ID, "delivery_id": _DELIVERY_ID},
    "events": {"id": EVENT_ID},
    "credits": {"id": _PAYMENT_ID},
}
"""Ids for the parameters of a path, by its first segment."""

MEETING: Json = {
    "id": _MEETING_ID,
    "title": "Rapat mingguan",
    "status": "scheduled",
    "start_at": "2026-12-01T02:00:00Z",
    "start_at_wib": "2026-12-01T09:00:00+07:00",
    "end_at": "2026-12-01T03:00:00Z",
    "duration": 60,
    "duration_unit": "minutes",
    "capacity": 100,
    "join_url": "https://video.example.com/j/98236547120",
    "password": "XYYh8qEyO4",
    "host_key": None,
    "provider_meeting_id": "98236547120",
    "auto_notulen": True,
    "created_at": MADE_AT,
    "with_recording": True,
    "credits_deducted": 15,
}
WEBHOOK: Json = {
    "id": _WEBHOOK_ID,
    "url": "https://hooks.example.com/meetcore",
    "description": "Bookings",
    "event_types": ["meeting.created", "meeting.ended"],
    "is_active": True,
    "consecutive_failures": 0,
    "disabled_at": None,
    "created_by": _KEY_ID,
    "created_at": "2026-11-21T11:33:02Z",
}
WEBHOOK_WITH_SECRET = WEBHOOK | {"secret": "whsec_i+rUSKZOSOfmecntc/vREBdZJPCtYOkjpKQFfFOb8+s="}
DELIVERY: Json = {
    "id": _DELIVERY_ID,
    "event_id": EVENT_ID,
    "event_type": "meeting.created",
    "status": "succeeded",
    "attempts": [
        {"at": MADE_AT, "duration_ms": 9, "status_code": 200, "error": None, "response_excerpt": "ok"}
    ],
    "next_attempt_at": None,
    "created_at": MADE_AT,
}
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
TIER: Json = {
    "id": "standard-100",
    "name": "Standard 100",
    "capacity": 100,
    "max_duration": 60,
    "duration_unit": "minutes",
    "credits": 10,
    "recording_credits": 5,
}
PACKAGE: Json = {
    "id": "starter",
    "credits": 500,
    "amount": 555000,
    "tax": 55000,
    "currency": "IDR",
    "valid_until": None,
}
TOPUP: Json = {
    "id": _PAYMENT_ID,
    "status": "pending",
    "credits": 500,
    "amount": 555000,
    "tax": 55000,
    "currency": "IDR",
    "package_id": "starter",
    "payment_url": "https://pay.example.com/p/8f2c",
    "created_at": MADE_AT,
    "expires_at": "2026-11-22T11:33:03Z",
    "ended_at": None,
}
ACCOUNT: Json = {
    "user": {
        "id": "01a1fde1-000f-7231-b5bb-4e01a363425c",
        "email": "ani@example.com",
        "full_name": "Ani Wijaya",
    },
    "credits": {"balance": 985},
    "api_key": {"id": _KEY_ID, "scopes": ["meetings:write", "webhooks:write"], "daily_credit_cap": 200},
}


def transaction(kind: str, amount: int, balance_after: int, about: Mapping[str, str]) -> Json:
    """Build a transaction."""
    return {
        "id": "01a1fde1-9c81-7d20-b1f4-0f6a3c9d5e77",
        "kind": kind,
        "amount": amount,
        "balance_after": balance_after,
        "reference": dict(about),
        "reverses": None,
        "api_key_id": _KEY_ID if amount < 0 else None,
        "created_at": MADE_AT,
    }


CHARGE = transaction("meeting_charge", -15, 985, {"type": "meeting", "id": _MEETING_ID})

RECORDING: Json = {
    "id": _RECORDING_ID,
    "meeting_id": _MEETING_ID,
    "status": "available",
    "duration": 52,
    "duration_unit": "minutes",
    "size_bytes": 184_549_376,
    "recorded_at": "2026-12-01T02:00:41Z",
    "expires_at": "2027-03-01T02:00:41Z",
}
NOTE: Json = {
    "id": _NOTE_ID,
    "recording_id": _RECORDING_ID,
    "meeting_id": _MEETING_ID,
    "status": "completed",
    "language": "id",
    "summary": "Anggaran disetujui.",
    "decisions": [{"text": "Anggaran disetujui", "quote": "Kita setujui anggarannya.", "at": 1260}],
    "action_items": [
        {
            "task": "Kirim jadwal",
            "owner": "Ani",
            "due": "Kamis",
            "due_on": "2026-12-03",
            "quote": "Saya kirim jadwalnya Kamis.",
            "at": 1402,
        }
    ],
    "topics": ["Anggaran", "Jadwal"],
    "transcript": [{"speaker": "Ani", "at": 0, "text": "Selamat pagi."}],
    "written_by": "gpt-4o-mini",
    "duration": 52,
    "credits_charged": 52,
    "error": None,
    "created_at": "2026-12-01T03:05:00Z",
    "completed_at": "2026-12-01T03:09:12Z",
    "edited_at": None,
}
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
