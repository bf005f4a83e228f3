"""Examples for the documentation: one meeting, one webhook, and what happens to them.

Owns the values only. The tests decode each request with the class that decodes it in the service, and hold
each answer and each payload against the schema beside which it is shown.
"""

from collections.abc import Mapping
from typing import Any

from meetcore.domain.webhooks.events import EventKind

__all__ = ["ANSWERS", "DETAILS", "EVENT_DATA", "IDS", "MESSAGES", "PAYLOAD_ID", "REQUESTS", "payload"]

Json = dict[str, Any]

_MEETING_ID = "01a1fde1-9c79-7f87-a745-919389bf998d"
_WEBHOOK_ID = "01a1fde1-9878-70f1-98ba-027d0b1035cb"
_DELIVERY_ID = "01a1fde1-9c79-768f-b2bc-9f052675d39b"
_RECORDING_ID = "01a1ffd0-1c3e-7b02-8d7e-6a55c1f0e2d4"
_NOTE_ID = "01a1ffd4-77aa-7c15-9f02-3be2a7d8c901"
_KEY_ID = "01a1fde1-002d-72b5-a13a-7bc5bfcf37cf"
_MADE_AT = "2026-11-21T11:33:03Z"
PAYLOAD_ID = "01a1fde1-9c79-7a1c-8c59-52ed529d6442"

IDS: Mapping[str, Mapping[str, str]] = {
    "meetings": {"id": _MEETING_ID},
    "recordings": {"id": _RECORDING_ID},
    "notes": {"id": _NOTE_ID},
    "webhooks": {"id": _WEBHOOK_ID, "delivery_id": _DELIVERY_ID},
}
"""What stands for the parts of a path, by its first segment."""

_MEETING: Json = {
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
    "created_at": _MADE_AT,
    "with_recording": True,
    "credits_deducted": 15,
}
_WEBHOOK: Json = {
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
_SECRET = {"secret": "whsec_i+rUSKZOSOfmecntc/vREBdZJPCtYOkjpKQFfFOb8+s="}
_DELIVERY: Json = {
    "id": _DELIVERY_ID,
    "event_id": PAYLOAD_ID,
    "event_type": "meeting.created",
    "status": "succeeded",
    "attempts": [
        {"at": _MADE_AT, "duration_ms": 9, "status_code": 200, "error": None, "response_excerpt": "ok"}
    ],
    "next_attempt_at": None,
    "created_at": _MADE_AT,
}
_WAITING = (
    _DELIVERY
    | {"event_type": "webhook.test", "status": "pending", "attempts": []}
    | {"next_attempt_at": _MADE_AT}
)
_TIER: Json = {
    "id": "standard-100",
    "name": "Standard 100",
    "capacity": 100,
    "max_duration": 60,
    "duration_unit": "minutes",
    "credits": 10,
    "recording_credits": 5,
}
_ACCOUNT: Json = {
    "user": {
        "id": "01a1fde1-000f-7231-b5bb-4e01a363425c",
        "email": "ani@example.com",
        "full_name": "Ani Wijaya",
    },
    "credits": {"balance": 985},
    "api_key": {"id": _KEY_ID, "scopes": ["meetings:write", "webhooks:write"], "daily_credit_cap": 200},
}


def _transaction(kind: str, amount: int, balance_after: int, about: Mapping[str, str]) -> Json:
    return {
        "id": "01a1fde1-9c81-7d20-b1f4-0f6a3c9d5e77",
        "kind": kind,
        "amount": amount,
        "balance_after": balance_after,
        "reference": dict(about),
        "reverses": None,
        "api_key_id": _KEY_ID if amount < 0 else None,
        "created_at": _MADE_AT,
    }


def _funds(available: int, transaction: Json) -> Json:
    return {"balance": available, "held": 0, "available": available, "transaction": transaction}


_CHARGE = _transaction("meeting_charge", -15, 985, {"type": "meeting", "id": _MEETING_ID})

_RECORDING: Json = {
    "id": _RECORDING_ID,
    "meeting_id": _MEETING_ID,
    "status": "available",
    "duration": 52,
    "duration_unit": "minutes",
    "size_bytes": 184_549_376,
    "recorded_at": "2026-12-01T02:00:41Z",
    "expires_at": "2027-03-01T02:00:41Z",
}
_NOTE: Json = {
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
            "due": "2026-12-03",
            "quote": "Saya kirim Kamis.",
            "at": 1402,
        }
    ],
    "topics": ["Anggaran", "Jadwal"],
    "transcript": [{"speaker": "Ani", "at": 0, "text": "Selamat pagi."}],
    "duration": 52,
    "credits_charged": 52,
    "error": None,
    "created_at": "2026-12-01T03:05:00Z",
    "completed_at": "2026-12-01T03:09:12Z",
}
_FAILED_NOTE = _NOTE | {
    "status": "failed", "summary": None, "decisions": [], "action_items": [], "topics": [], "transcript": [],
    "duration": None, "credits_charged": 0, "completed_at": None,
    "error": "The account had too few credits for these notes. Top up and ask for them with POST /notes.",
}  # fmt: skip
_QUEUED_NOTE = _NOTE | {
    "status": "queued", "summary": None, "decisions": [], "action_items": [], "topics": [], "transcript": [],
    "duration": None, "credits_charged": None, "completed_at": None,
}  # fmt: skip


REQUESTS: Mapping[str, Mapping[str, Json]] = {
    "create_meeting": {
        "plain": {
            "title": "Rapat mingguan",
            "date": "2026-12-01",
            "start_time": "09:00",
            "pricing_tier_id": "standard-100",
        },
        "with_notes": {
            "title": "Rapat mingguan",
            "date": "2026-12-01",
            "start_time": "09:00",
            "pricing_tier_id": "standard-100",
            "description": "Agenda:\n1. Anggaran\n2. Jadwal",
            "auto_notulen": True,
            "mic_off": True,
        },
    },
    "estimate_credits": {
        "meeting": {"type": "meeting", "pricing_tier_id": "standard-100", "auto_notulen": True},
        "notulen": {"type": "notulen", "duration": 60},
    },
    "create_note": {
        "indonesian": {"recording_id": _RECORDING_ID},
        "english": {"recording_id": _RECORDING_ID, "language": "en"},
    },
    "register_webhook": {
        "meetings": {
            "url": _WEBHOOK["url"],
            "event_types": _WEBHOOK["event_types"],
            "description": _WEBHOOK["description"],
        }
    },
    "update_webhook": {
        "pause": {"is_active": False},
        "resume": {"is_active": True},
        "change": {"event_types": ["meeting.ended", "credit.low"], "description": None},
    },
}
"""Bodies by operation."""

ANSWERS: Mapping[str, Json] = {
    "get_credits": {
        "balance": 985,
        "held": 0,
        "available": 985,
        "daily_cap": {"cap": 200, "spent": 15, "remaining": 185, "resets_at": "2026-11-21T17:00:00Z"},
    },
    "list_transactions": {"data": [_CHARGE], "next_cursor": None},
    "estimate_credits": {
        "type": "meeting",
        "credits": 15,
        "items": [{"name": "meeting", "credits": 10}, {"name": "recording", "credits": 5}],
        "with_recording": True,
        "balance": 985,
        "sufficient": True,
    },
    "get_me": _ACCOUNT,
    "list_pricing_tiers": {"data": [_TIER], "next_cursor": None},
    "create_meeting": _MEETING,
    "list_meetings": {"data": [_MEETING], "next_cursor": None},
    "get_meeting": _MEETING,
    "cancel_meeting": {"id": _MEETING_ID, "status": "cancelled", "credits_refunded": 15},
    "list_recordings": {"data": [_RECORDING], "next_cursor": None},
    "get_recording": _RECORDING,
    "get_download_url": {
        "url": f"https://meet.example.com/downloads/recordings/{_RECORDING_ID}?account=01a1fde1-000f-7231-b5bb-4e01a363"
        "425d&part=1&expires=1796094600&signature=9f2c…",
        "expires_at": "2026-12-01T03:10:00Z",
    },
    "create_note": _QUEUED_NOTE,
    "list_notes": {"data": [_NOTE], "next_cursor": None},
    "get_note": _NOTE,
    "register_webhook": _WEBHOOK | _SECRET,
    "list_webhooks": {"data": [_WEBHOOK], "next_cursor": None},
    "get_webhook": _WEBHOOK | _SECRET,
    "update_webhook": _WEBHOOK | {"is_active": False},
    "rotate_webhook_secret": _WEBHOOK | _SECRET,
    "test_webhook": _WAITING,
    "list_deliveries": {"data": [_DELIVERY], "next_cursor": None},
    "get_delivery": _DELIVERY,
    "resend_delivery": _WAITING | {"event_type": "meeting.created"},
}
"""The answer of each operation that has one."""

EVENT_DATA: Mapping[EventKind, Json] = {
    EventKind.MEETING_CREATED: _MEETING | {"password": None},
    EventKind.MEETING_ENDED: _MEETING | {"password": None, "status": "ended"},
    EventKind.RECORDING_READY: _RECORDING,
    EventKind.NOTE_COMPLETED: _NOTE,
    EventKind.NOTE_FAILED: _FAILED_NOTE,
    EventKind.CREDIT_LOW: _funds(
        95, _transaction("meeting_charge", -15, 95, {"type": "meeting", "id": _MEETING_ID})
    ),
    EventKind.CREDIT_TOPUP_SUCCEEDED: _funds(
        595, _transaction("topup", 500, 595, {"type": "topup", "id": "INV-7"})
    ),
    EventKind.WEBHOOK_TEST: _WEBHOOK,
}
"""The `data` of each kind's payload."""


def payload(kind: EventKind) -> Json:
    """A whole payload, as `domain.events.encode_event` writes it."""
    return {
        "id": PAYLOAD_ID,
        "type": kind.value,
        "created_at": _MADE_AT,
        "api_version": "v1",
        "data": EVENT_DATA[kind],
    }


MESSAGES: Mapping[str, str] = {
    "invalid_request": "The request is not valid: see details.fields (start_time, titel).",
    "invalid_api_key": "The API key is not valid.",
    "insufficient_scope": "This key lacks the scope meetings:write. Scopes are fixed when a key is created: "
    "use another key.",
    "not_found": "No record with this id.",
    "conflict": "This URL is registered already.",
    "gone": "The event of this delivery is past its retention.",
    "unprocessable_entity": "The meeting would start in the past.",
    "idempotency_key_reused": "This Idempotency-Key was used for a different request. "
    "Use a new key for a new intent.",
    "insufficient_credits": "This needs 15 credits and 4 are available. Top up and try again.",
    "credit_cap_exceeded": "This key may spend 200 credits a day and has spent or reserved 190; 15 more do not "
    "fit. The day ends at 2026-11-21T17:00:00Z.",
    "rate_limited": "More than 20 requests in this minute. Wait 17 s and try again.",
    "internal_error": "Something went wrong at the service. Quote the request id to support.",
    "upstream_error": "The video provider refused the meeting. Nothing was charged.",
    "service_unavailable": "No meeting host is free in this time range. Try again later or choose another time.",
}
"""A message of each code."""

DETAILS: Mapping[str, Json] = {
    "invalid_request": {
        "fields": {"start_time": ["must be HH:mm"], "titel": ["is not a field of this operation"]}
    },
    "insufficient_scope": {"required": ["meetings:write"]},
    "conflict": {"id": _WEBHOOK_ID},
    "unprocessable_entity": {"start_at": "2026-11-20T02:00:00Z"},
    "insufficient_credits": {"required": 15, "available": 4},
    "credit_cap_exceeded": {"cap": 200, "spent": 190, "required": 15, "resets_at": "2026-11-21T17:00:00Z"},
    "rate_limited": {"limit": 20, "window_seconds": 60},
    "service_unavailable": {"next_available_at": "2026-12-01T03:00:00Z"},
}
"""Details of the codes that have some."""
