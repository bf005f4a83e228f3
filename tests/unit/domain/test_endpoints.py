"""The endpoint machine: every pair of state and event, the counter, PATCH (spec parts 3 and 4.4)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.endpoints import (
    DISABLE_AFTER_FAILURES,
    TRANSITIONS,
    UNSET,
    Endpoint,
    EndpointChanges,
    EndpointEvent,
    EndpointState,
    Unset,
    pause,
    record_failure,
    record_success,
    register,
    resume,
    update,
)
from meetcore.domain.errors import InvalidRequest
from meetcore.domain.events import Event, EventKind, encode_event
from meetcore.domain.webhook_urls import parse_webhook_url

NOW = datetime(2026, 12, 1, 2, 0, 0, 123456, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")
ACTIVE, PAUSED, DISABLED = EndpointState


def made(
    description: str | None = None, kinds: tuple[EventKind, ...] = (EventKind.MEETING_CREATED,)
) -> Endpoint:
    return register(
        id=ID,
        account_id=ID,
        url=parse_webhook_url("https://Hooks.example"),
        description=description,
        event_types=kinds,
        created_by="key-1",
        created_at=NOW,
        secret="whsec_hidden",
    )


def standing(state: EndpointState, failures: int = 3) -> Endpoint:
    if state is DISABLED:
        return evolve(made(), state=state, consecutive_failures=20, disabled_at=NOW)
    return evolve(made(), state=state, consecutive_failures=failures)


def happen(endpoint: Endpoint, event: EndpointEvent) -> Endpoint:
    match event:
        case EndpointEvent.SUCCEEDED:
            return record_success(endpoint)
        case EndpointEvent.FAILED:
            return record_failure(endpoint, NOW)
        case EndpointEvent.DISABLE:
            return record_failure(evolve(endpoint, consecutive_failures=19), NOW)
        case EndpointEvent.PAUSE:
            return pause(endpoint)
        case EndpointEvent.RESUME:
            return resume(endpoint)


@pytest.mark.parametrize("event", EndpointEvent)
@pytest.mark.parametrize("state", EndpointState)
def test_every_pair_follows_the_table_and_an_illegal_one_changes_nothing(
    state: EndpointState, event: EndpointEvent
) -> None:
    before = standing(state)
    if event is EndpointEvent.DISABLE and state is DISABLED:
        assert (state, event) not in TRANSITIONS
        return
    after = happen(before, event)
    expected = TRANSITIONS.get((state, event))
    assert after.state is (expected or state)
    if expected is None:
        assert after == before


@pytest.mark.spec("3/disable-at-20", "6/5")
def test_the_twentieth_failure_in_a_row_disables() -> None:
    endpoint = made()
    for count in range(1, DISABLE_AFTER_FAILURES + 1):
        assert endpoint.is_active
        endpoint = record_failure(endpoint, NOW + timedelta(seconds=count))
        assert endpoint.consecutive_failures == count
    assert endpoint.state is DISABLED
    assert not endpoint.is_active
    assert endpoint.disabled_at == NOW + timedelta(seconds=20)


@pytest.mark.spec("3/disable-at-20")
def test_a_post_in_flight_when_disabled_leaves_the_counter_at_20() -> None:
    endpoint = standing(DISABLED)
    assert record_failure(endpoint, NOW + timedelta(hours=1)) == endpoint
    assert record_success(endpoint) == endpoint


@pytest.mark.spec("6/5")
def test_a_success_breaks_the_row() -> None:
    endpoint = record_success(standing(ACTIVE, failures=19))
    assert endpoint.consecutive_failures == 0
    assert record_failure(endpoint, NOW).is_active


@pytest.mark.spec("3/re-enable", "4.4/2")
def test_resuming_after_automatic_disabling_starts_the_count_again() -> None:
    endpoint = update(standing(DISABLED), EndpointChanges(is_active=True))
    assert (endpoint.state, endpoint.consecutive_failures, endpoint.disabled_at) == (ACTIVE, 0, None)
    for _ in range(19):
        endpoint = record_failure(endpoint, NOW)
    assert endpoint.is_active
    assert record_failure(endpoint, NOW).state is DISABLED


@pytest.mark.spec("3/pause")
def test_pausing_by_hand_keeps_the_count_and_sets_no_disabled_at() -> None:
    paused = update(standing(ACTIVE), EndpointChanges(is_active=False))
    assert (paused.state, paused.consecutive_failures, paused.disabled_at) == (PAUSED, 3, None)
    again = update(paused, EndpointChanges(is_active=True))
    assert (again.state, again.consecutive_failures) == (ACTIVE, 3)


def test_posts_in_flight_while_paused_count_and_can_disable() -> None:
    paused = record_failure(standing(PAUSED, failures=18), NOW)
    assert (paused.state, paused.consecutive_failures) == (PAUSED, 19)
    assert record_success(paused).consecutive_failures == 0
    disabled = record_failure(paused, NOW)
    assert (disabled.state, disabled.consecutive_failures, disabled.disabled_at) == (DISABLED, 20, NOW)


def test_pausing_a_disabled_endpoint_does_not_lose_its_reset() -> None:
    endpoint = pause(standing(DISABLED))
    assert endpoint == standing(DISABLED)
    assert resume(endpoint).consecutive_failures == 0


@given(st.lists(st.sampled_from([EndpointEvent.FAILED] * 6 + list(EndpointEvent)), max_size=120))
def test_disabled_means_twenty_failures_and_a_moment(history: list[EndpointEvent]) -> None:
    endpoint = made()
    for event in history:
        if event is EndpointEvent.DISABLE:
            continue  # never comes by itself: it is the 20th FAILED
        endpoint = happen(endpoint, event)
        is_disabled = endpoint.state is DISABLED
        assert 0 <= endpoint.consecutive_failures <= DISABLE_AFTER_FAILURES
        assert is_disabled is (endpoint.consecutive_failures == DISABLE_AFTER_FAILURES)
        assert is_disabled is (endpoint.disabled_at is not None)


def test_a_new_endpoint_is_active_and_hides_its_secret() -> None:
    endpoint = made("Produksi\nbaris dua")
    assert endpoint.is_active
    assert (endpoint.url, endpoint.url_key) == ("https://Hooks.example", "https://hooks.example/")
    assert (endpoint.consecutive_failures, endpoint.disabled_at) == (0, None)
    assert "whsec" not in repr(endpoint)


@pytest.mark.spec("4.4/fields", "4.4/1")
def test_a_change_touches_what_it_names_and_nothing_else() -> None:
    before = evolve(made("old"), consecutive_failures=2)
    assert update(before, EndpointChanges()) == before
    assert update(before, EndpointChanges(description=None)) == evolve(before, description=None)
    kinds = (EventKind.CREDIT_LOW, EventKind.NOTE_FAILED)
    assert update(before, EndpointChanges(event_types=kinds)) == evolve(before, event_types=kinds)
    assert update(before, EndpointChanges(is_active=True)) == before
    assert UNSET is Unset.UNSET


@pytest.mark.spec("4.3/event_types", "4.3/description")
@pytest.mark.parametrize(("kinds", "description", "fields"), [
    ((), None, {"event_types"}),
    ((EventKind.CREDIT_LOW, EventKind.CREDIT_LOW), None, {"event_types"}),
    ((EventKind.CREDIT_LOW,), "x" * 201, {"description"}),
    ((EventKind.CREDIT_LOW,), "a\0b", {"description"}),
    ((EventKind.CREDIT_LOW,), "\ud800", {"description"}),
    ((), "x" * 201, {"event_types", "description"}),
])  # fmt: skip
def test_event_types_and_description_keep_their_rules(
    kinds: tuple[EventKind, ...], description: str | None, fields: set[str]
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        made(description, kinds)
    assert set(refusal.value.details["fields"]) == fields  # type: ignore[call-overload]
    with pytest.raises(InvalidRequest):
        update(made(), EndpointChanges(event_types=kinds, description=description))


@pytest.mark.spec("4.3/description")
def test_description_at_its_limit_in_code_points() -> None:
    assert made("é" * 200).description == "é" * 200


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


def test_a_payload_can_always_be_sent_or_is_a_mistake() -> None:
    assert b'"t":"?"' in encode_event(Event(ID, ID, EventKind.NOTE_COMPLETED, NOW, {"t": "\ud800"}))
    with pytest.raises(ValueError, match="JSON"):
        encode_event(Event(ID, ID, EventKind.NOTE_COMPLETED, NOW, {"t": float("nan")}))
