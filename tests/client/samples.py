"""Records as the API writes them; each builder takes fields that replace its own."""

from __future__ import annotations

from collections.abc import Callable

ID = "01a1fde1-9c79-7f87-a745-919389bf998d"
AT = "2026-11-21T10:00:00Z"
WANTED = {
    "title": "Rapat", "date": "2026-12-01", "start_time": "09:00", "pricing_tier_id": "standard-100",
}  # fmt: skip


def _builder(**record: object) -> Callable[..., dict[str, object]]:
    return lambda **fields: record | fields


meeting = _builder(
    id=ID, title="Rapat", status="scheduled", start_at="2026-12-01T02:00:00Z",
    start_at_wib="2026-12-01T09:00:00+07:00", end_at="2026-12-01T03:00:00Z", duration=60,
    duration_unit="minutes", capacity=100, join_url="https://meet.test/j/1", password="rahasia1",
    host_key=None, provider_meeting_id="1", auto_notulen=False, created_at=AT, with_recording=False,
    credits_deducted=10,
)  # fmt: skip
transaction = _builder(
    id=ID, kind="meeting_charge", amount=-10, balance_after=990, reference={"type": "meeting", "id": ID},
    reverses=None, api_key_id=ID, created_at=AT,
)  # fmt: skip
webhook = _builder(
    id=ID, url="https://hooks.example.com/meetcore", description=None, event_types=["meeting.created"],
    is_active=True, consecutive_failures=0, disabled_at=None, created_by=ID, created_at=AT,
)  # fmt: skip
delivery = _builder(
    id=ID, event_id=ID, event_type="meeting.created", status="succeeded", next_attempt_at=None,
    created_at=AT, attempts=[
        {"at": AT, "duration_ms": 9, "status_code": 200, "error": None, "response_excerpt": "received"}
    ],
)  # fmt: skip
event = _builder(id=ID, type="webhook.test", created_at=AT, api_version="v1", data=webhook())
balance = _builder(
    balance=990, held=10, available=980,
    daily_cap={"cap": 100, "spent": 10, "remaining": 90, "resets_at": "2026-11-21T17:00:00Z"},
)  # fmt: skip
estimate = _builder(
    type="meeting", credits=15, items=[{"name": "standard-100", "credits": 10}], with_recording=True,
    balance=990, sufficient=True,
)  # fmt: skip
recording = _builder(
    id=ID, meeting_id=ID, status="available", duration=52, duration_unit="minutes", size_bytes=1_000_000,
    recorded_at="2026-12-01T02:00:00Z", expires_at="2027-03-01T02:00:00Z",
)  # fmt: skip
note = _builder(
    id=ID, recording_id=ID, meeting_id=ID, status="completed", language="id", summary="Anggaran disetujui.",
    decisions=[{"text": "Anggaran disetujui", "quote": "Kita setujui anggarannya.", "at": 126}],
    action_items=[
        {
            "task": "Kirim jadwal", "owner": "Ani", "due": "Kamis", "due_on": "2026-12-03",
            "quote": "Saya kirim Kamis.", "at": 140,
        }
    ],
    topics=["Anggaran"], transcript=[{"speaker": None, "at": 0, "text": "Selamat pagi."}],
    written_by="gpt-4o-mini", duration=52,
    credits_charged=52, error=None, created_at="2026-12-01T03:05:00Z", completed_at="2026-12-01T03:09:12Z",
    edited_at=None,
)  # fmt: skip
