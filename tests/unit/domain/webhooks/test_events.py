"""Events for customers: the kinds and the bytes of a payload (spec 6)."""

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given

from meetcore.domain.webhooks.events import Event, EventKind, encode_event
from meetcore.testing.strategies.moments import time_zones
from meetcore.testing.strategies.webhooks import events

NOW = datetime(2026, 12, 1, 2, 0, 0, 123456, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")
WIB = timezone(timedelta(hours=7))


@pytest.mark.spec("6/kinds")
def test_the_eight_kinds() -> None:
    assert set(EventKind) == {
        "note.completed", "note.failed", "meeting.created", "meeting.ended", "recording.ready",
        "credit.low", "credit.topup.succeeded", "webhook.test",
    }  # fmt: skip


def test_a_payload_is_compact_json_with_the_five_fields() -> None:
    data: dict[str, object] = {"title": "Rapat é", "n": 1, "x": None}
    event = Event(ID, ID, EventKind.MEETING_CREATED, NOW, data)
    assert encode_event(event).decode() == (
        f'{{"id":"{ID}","type":"meeting.created","created_at":"2026-12-01T02:00:00Z",'
        '"api_version":"v1","data":{"title":"Rapat é","n":1,"x":null}}'
    )


@given(events())
def test_a_payload_reads_back_as_the_event(event: Event) -> None:
    """Except for the account, which is nobody's business, and the parts of a second."""
    payload = json.loads(encode_event(event))
    assert list(payload) == ["id", "type", "created_at", "api_version", "data"]
    assert payload["data"] == event.data
    assert repr(payload["data"]) == repr(event.data)
    assert (UUID(payload["id"]), payload["type"], payload["api_version"]) == (event.id, event.kind, "v1")
    assert datetime.fromisoformat(payload["created_at"]) == event.created_at.replace(microsecond=0)


@given(events(), time_zones())
def test_a_payload_is_the_same_bytes_whatever_the_zone_its_moment_is_written_in(
    event: Event, zone: timezone
) -> None:
    in_zone = evolve(event, created_at=event.created_at.astimezone(zone))
    assert encode_event(in_zone) == encode_event(event)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system has no time zone to set")
def test_a_payload_does_not_depend_on_the_time_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Event(ID, ID, EventKind.WEBHOOK_TEST, NOW, {})
    original = encode_event(event)
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "WIB-7")
        time.tzset()
        assert datetime.now().astimezone().utcoffset() == WIB.utcoffset(None)
        assert encode_event(event) == original
    time.tzset()


@given(events())
def test_event_data_is_not_in_the_repr(event: Event) -> None:
    secret = evolve(event, data={"password": "rahasia-123"})
    assert "rahasia" not in repr(secret)


def test_a_payload_can_always_be_sent_or_raises() -> None:
    assert b'"t":"?"' in encode_event(Event(ID, ID, EventKind.NOTE_COMPLETED, NOW, {"t": "\ud800"}))
    with pytest.raises(ValueError, match="JSON"):
        encode_event(Event(ID, ID, EventKind.NOTE_COMPLETED, NOW, {"t": float("nan")}))
    with pytest.raises(TypeError, match="JSON"):
        encode_event(Event(ID, ID, EventKind.NOTE_COMPLETED, NOW, {"t": b"bytes"}))
