"""The endpoint machine: every pair of state and event, the counter, PATCH (spec 3 and 4.4)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InvalidRequest, Unprocessable
from meetcore.domain.webhooks.endpoints import (
    DISABLE_AFTER_FAILURES,
    MAX_OVERLAP_HOURS,
    TRANSITIONS,
    UNSET,
    Endpoint,
    EndpointChanges,
    EndpointEvent,
    EndpointState,
    Unset,
    WebhookTested,
    check_room,
    disable_with_host,
    pause,
    previous_secret,
    record_failure,
    record_success,
    register,
    request_test,
    require_active,
    resume,
    rotate_secret,
    update,
)
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.testing.strategies.webhooks import (
    descriptions,
    endpoint_event_lists,
    endpoint_secrets,
    endpoints,
    event_kinds,
)

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
            # It never comes by itself: it is the failures that are missing to the 20th in a row.
            for _ in range(DISABLE_AFTER_FAILURES - endpoint.consecutive_failures):
                endpoint = record_failure(endpoint, NOW)
            return endpoint
        case EndpointEvent.PAUSE:
            return pause(endpoint)
        case EndpointEvent.RESUME:
            return resume(endpoint)


@pytest.mark.parametrize("event", EndpointEvent)
@pytest.mark.parametrize("state", EndpointState)
def test_every_state_and_event_pair_follows_the_table(state: EndpointState, event: EndpointEvent) -> None:
    assert happen(standing(state), event).state is TRANSITIONS.get((state, event), state)


@given(endpoints(), st.sampled_from(EndpointEvent))
def test_an_illegal_event_changes_nothing_and_a_legal_one_only_state_counter_and_moment(
    before: Endpoint, event: EndpointEvent
) -> None:
    after = happen(before, event)
    if (before.state, event) not in TRANSITIONS:
        assert after == before
    assert before == evolve(
        after,
        state=before.state,
        consecutive_failures=before.consecutive_failures,
        disabled_at=before.disabled_at,
    )


@pytest.mark.spec("3/disable-at-20", "6/5")
@given(endpoint_event_lists())
@example([EndpointEvent.FAILED] * 19)
@example([EndpointEvent.FAILED] * 20)
@example([EndpointEvent.FAILED] * 19 + [EndpointEvent.SUCCEEDED] + [EndpointEvent.FAILED] * 19)
@example([EndpointEvent.FAILED] * 19 + [EndpointEvent.PAUSE, EndpointEvent.FAILED, EndpointEvent.PAUSE])
@example(
    [EndpointEvent.FAILED] * 10 + [EndpointEvent.PAUSE, EndpointEvent.RESUME] + [EndpointEvent.FAILED] * 10
)
@example([EndpointEvent.FAILED] * 20 + [EndpointEvent.SUCCEEDED, EndpointEvent.FAILED])
@example([EndpointEvent.DISABLE, EndpointEvent.RESUME] + [EndpointEvent.FAILED] * 19)
def test_any_event_sequence_disables_exactly_at_the_20th_consecutive_failure(
    word: Sequence[EndpointEvent],
) -> None:
    """Beside the machine runs the sentence of the spec: failures in a row, until a success or a reset."""
    endpoint, row = made(), 0
    for event in word:
        if event is EndpointEvent.DISABLE:
            row = 20
        elif event is EndpointEvent.FAILED:
            row = min(row + 1, 20)
        elif event is (EndpointEvent.RESUME if row == 20 else EndpointEvent.SUCCEEDED):
            row = 0
        endpoint = happen(endpoint, event)
        assert endpoint.consecutive_failures == row
        assert (endpoint.state is DISABLED) is (endpoint.disabled_at is not None) is (row == 20)


@pytest.mark.spec("3/pause", "3/re-enable")
@given(endpoint_event_lists(), st.booleans())
def test_after_any_event_sequence_the_customers_last_change_wins(
    word: Sequence[EndpointEvent], is_active: bool
) -> None:
    endpoint = made()
    for event in word:
        endpoint = happen(endpoint, event)
    assert update(endpoint, EndpointChanges(is_active=is_active)).is_active is is_active


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
def test_a_success_resets_the_failure_count() -> None:
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


def test_a_new_endpoint_is_what_was_registered_active_and_hides_its_secret() -> None:
    url = parse_webhook_url("https://Hooks.example")
    kinds = (EventKind.CREDIT_LOW, EventKind.NOTE_FAILED)
    account_id = UUID(int=7)
    made_of = register(
        id=ID, account_id=account_id, url=url, description="Produksi\nbaris dua", event_types=kinds,
        created_by="key-1", created_at=NOW, secret="whsec_hidden",
    )  # fmt: skip
    assert made_of == Endpoint(
        id=ID, account_id=account_id, url="https://Hooks.example", url_key="https://hooks.example/",
        description="Produksi\nbaris dua", event_types=kinds, state=ACTIVE, consecutive_failures=0,
        disabled_at=None, created_by="key-1", created_at=NOW, secret="whsec_hidden",
    )  # fmt: skip
    assert made_of.is_active
    assert "whsec" not in repr(made_of)


@given(endpoints(), endpoint_secrets())
def test_rotating_changes_the_secret_and_nothing_else(endpoint: Endpoint, secret: str) -> None:
    assume(secret != endpoint.secret)
    rotated = rotate_secret(endpoint, secret, NOW)
    assert rotated.secret == secret
    assert previous_secret(rotated, NOW) == endpoint.secret
    assert evolve(
        rotated, secret=endpoint.secret, previous_secret=endpoint.previous_secret,
        previous_secret_until=endpoint.previous_secret_until,
    ) == endpoint  # fmt: skip
    assert "whsec" not in repr(rotated)


@given(endpoints(), endpoint_secrets(), st.integers(0, MAX_OVERLAP_HOURS), st.integers(0, 100_000))
def test_the_secret_before_signs_for_the_overlap_and_no_longer(
    endpoint: Endpoint, secret: str, hours: int, later_s: int
) -> None:
    assume(secret != endpoint.secret)
    rotated = rotate_secret(endpoint, secret, NOW, timedelta(hours=hours))
    signs = later_s < hours * 3600
    assert previous_secret(rotated, NOW + timedelta(seconds=later_s)) == (endpoint.secret if signs else None)
    assert (rotated.previous_secret is None) == (rotated.previous_secret_until is None) == (hours == 0)


def test_the_secret_before_signs_to_the_last_instant_of_its_overlap() -> None:
    until = NOW + timedelta(hours=2)
    rotated = rotate_secret(made(), "whsec_new", NOW, timedelta(hours=2))
    assert previous_secret(rotated, until - timedelta(microseconds=1)) == made().secret
    assert previous_secret(rotated, until) is None


def test_a_secret_that_does_not_open_leaves_none_to_overlap() -> None:
    rotated = rotate_secret(evolve(made(), secret=None), "whsec_new", NOW)
    assert (rotated.previous_secret, rotated.previous_secret_until) == (None, None)


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(hours=24, microseconds=1)])
def test_an_overlap_is_at_most_a_day(overlap: timedelta) -> None:
    with pytest.raises(ValueError, match=r"^secrets overlap for 0 to 24 hours$"):
        rotate_secret(made(), "whsec_new", NOW, overlap)


@given(endpoints())
def test_rotating_to_the_secret_in_use_raises(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError, match=r"^a rotation needs a new secret$"):
        rotate_secret(endpoint, endpoint.secret or "", NOW)


@pytest.mark.parametrize("state", EndpointState)
def test_immediate_deliveries_are_refused_unless_the_endpoint_is_active(state: EndpointState) -> None:
    endpoint = standing(state)
    if state is ACTIVE:
        require_active(endpoint)
        assert request_test(endpoint) == WebhookTested(endpoint)
        return
    for ask in (require_active, request_test):
        with pytest.raises(Conflict) as refused:
            ask(endpoint)
        assert refused.value.message == (
            f"This webhook is {state.value}: nothing is sent to it. "
            "Set is_active to true first, then ask again with a new Idempotency-Key."
        )
        assert refused.value.details == {"id": str(endpoint.id)}


@pytest.mark.spec("4.4/fields", "4.4/1")
def test_a_change_touches_what_it_names_and_nothing_else() -> None:
    before = evolve(made("old"), consecutive_failures=2)
    assert update(before, EndpointChanges()) == before
    assert update(before, EndpointChanges(description=None)) == evolve(before, description=None)
    kinds = (EventKind.CREDIT_LOW, EventKind.NOTE_FAILED)
    assert update(before, EndpointChanges(event_types=kinds)) == evolve(before, event_types=kinds)
    assert update(before, EndpointChanges(is_active=True)) == before
    assert UNSET is Unset.UNSET


@pytest.mark.spec("4.4/fields")
@given(endpoints(), event_kinds(), descriptions())
def test_a_valid_change_is_applied_as_a_whole(
    before: Endpoint, kinds: tuple[EventKind, ...], description: str | None
) -> None:
    after = update(before, EndpointChanges(event_types=kinds, description=description))
    assert after == evolve(before, event_types=kinds, description=description)


NO_KIND = ["must name at least one event kind"]
TWICE = ["must not name an event kind twice"]
TOO_LONG = "must be at most 200 characters long"
CONTROLS = "must not contain control characters or lone surrogates"


@pytest.mark.spec("4.3/event_types", "4.3/description")
@pytest.mark.parametrize(("kinds", "description", "fields"), [
    ((), None, {"event_types": NO_KIND}),
    ((EventKind.CREDIT_LOW, EventKind.CREDIT_LOW), None, {"event_types": TWICE}),
    ((EventKind.CREDIT_LOW,), "x" * 201, {"description": [TOO_LONG]}),
    ((EventKind.CREDIT_LOW,), "a\0b", {"description": [CONTROLS]}),
    ((EventKind.CREDIT_LOW,), "a\x7fb", {"description": [CONTROLS]}),
    ((EventKind.CREDIT_LOW,), "\ud800", {"description": [CONTROLS]}),
    ((), "\x85" * 201, {"event_types": NO_KIND, "description": [TOO_LONG, CONTROLS]}),
])  # fmt: skip
def test_event_types_and_description_keep_their_rules(
    kinds: tuple[EventKind, ...], description: str | None, fields: dict[str, list[str]]
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        made(description, kinds)
    assert refusal.value.details == {"fields": fields}
    with pytest.raises(InvalidRequest) as refusal:
        update(made(), EndpointChanges(event_types=kinds, description=description))
    assert refusal.value.details == {"fields": fields}


@pytest.mark.spec("4.3/description")
def test_description_at_its_limit_in_code_points() -> None:
    assert made("é" * 200).description == "é" * 200


@given(endpoints())
def test_a_failing_host_disables_what_fails_there_and_nothing_else(before: Endpoint) -> None:
    after = disable_with_host(before, NOW)
    if before.state is ACTIVE and before.consecutive_failures:
        assert after == evolve(before, state=DISABLED, consecutive_failures=20, disabled_at=NOW)
    else:
        assert after is before


@pytest.mark.parametrize(("endpoints_there", "limit"), [(0, 1), (49, 50)])
def test_there_is_room_below_the_limit(endpoints_there: int, limit: int) -> None:
    check_room(endpoints_there, limit)


@pytest.mark.parametrize(("endpoints_there", "limit"), [(50, 50), (150_000, 50)])
def test_at_the_limit_the_refusal_describes_the_remedy(endpoints_there: int, limit: int) -> None:
    with pytest.raises(Unprocessable) as refused:
        check_room(endpoints_there, limit)
    assert refused.value.message == (
        f"This account has {endpoints_there} webhooks, and may have {limit}. Delete one that you no longer "
        "need, or send several kinds of events to one URL."
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Hooks.Example:443", "hooks.example"),
        ("https://hooks.example/a/b?c=//d", "hooks.example"),
        ("https://[2606:4700::1]/x", "[2606:4700::1]"),
        ("https://93.184.216.34/", "93.184.216.34"),
    ],
)
def test_the_destination_host_is_that_of_the_normal_form(url: str, host: str) -> None:
    parsed = parse_webhook_url(url)
    assert evolve(made(), url=parsed.text, url_key=parsed.normalized).host == host
