"""Events for customers: the kinds and the bytes of a payload (spec 6)."""

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.ids import uuid7
from meetcore.domain.webhooks.events import (
    EVENTS_KEPT,
    Event,
    EventKind,
    encode_event,
    is_past_retention,
    kept_since,
)
from meetcore.testing.strategies.moments import time_zones
from meetcore.testing.strategies.webhooks import events

NOW = datetime(2026, 12, 1, 2, 0, 0, 123456, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")


@pytest.mark.spec("6/kinds")
def test_the_eight_kinds() -> None:
    assert set(EventKind) == {
        "note.completed", "note.failed", "meeting.created", "meeting.ended", "recording.ready",
        "credit.low", "credit.topup.succeeded", "webhook.test",
    }  # fmt: skip


@pytest.mark.usefixtures("far_from_utc")
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


LATER = datetime(2026, 12, 1, 3, tzinfo=UTC)


@pytest.mark.spec("7/410")
@given(st.timedeltas(timedelta(0), timedelta(days=400)), st.integers(1, 365))
def test_an_id_says_whether_it_is_past_its_retention(age: timedelta, days: int) -> None:
    """To the millisecond that it begins with."""
    kept = timedelta(days=days)
    made_at = LATER - timedelta(milliseconds=age // timedelta(milliseconds=1))
    id_ = uuid7(made_at, bytes(10))
    assert is_past_retention(id_, LATER, kept) == (made_at < kept_since(LATER, kept))


def test_retention_is_ninety_days_unless_it_is_chosen() -> None:
    assert kept_since(LATER) == LATER - timedelta(days=90) == LATER - EVENTS_KEPT
    for age, is_past in ((timedelta(0), False), (timedelta(milliseconds=1), True)):
        assert is_past_retention(uuid7(kept_since(LATER) - age, bytes(10)), LATER) is is_past


def test_an_id_without_a_time_is_never_past_its_retention() -> None:
    assert not is_past_retention(UUID(int=0), LATER)
    assert not is_past_retention(UUID("6fa459ea-ee8a-4ca4-894e-db77e160355e"), LATER)


def test_what_is_older_than_an_account_was_never_its_own() -> None:
    made_at = kept_since(LATER) - timedelta(days=9)
    id_ = uuid7(made_at, bytes(10))
    for opened_at, is_past in ((made_at, True), (made_at + timedelta(milliseconds=1), False)):
        account_id = uuid7(opened_at, bytes(10))
        assert is_past_retention(id_, LATER, account_id=account_id) is is_past
    assert is_past_retention(id_, LATER, account_id=UUID(int=5))


def test_an_event_may_be_of_a_kind_of_a_callers_own() -> None:
    class ShopEvent(StrEnum):
        ORDER_PAID = "order.paid"

    payload = encode_event(Event(ID, ID, ShopEvent.ORDER_PAID, NOW, {"order": "o-1"}))
    assert json.loads(payload)["type"] == "order.paid"
