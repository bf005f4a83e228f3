"""The delivery machine: every pair of status and event and what an attempt decides."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import Unprocessable
from meetcore.domain.webhooks.deliveries import (
    HELD_FOR,
    RELEASE_PACE,
    TRANSITIONS,
    Attempt,
    Delivery,
    DeliveryEvent,
    DeliveryStatus,
    ReleasePace,
    expire,
    give_up,
    hold,
    judge,
    open_delivery,
    record_attempt,
    recover,
    recovery_start,
    release,
)
from meetcore.domain.webhooks.endpoints import (
    Endpoint,
    EndpointState,
    pause,
    record_failure,
    record_success,
    register,
)
from meetcore.domain.webhooks.events import EVENTS_KEPT, EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.testing.strategies.moments import near
from meetcore.testing.strategies.webhooks import attempts, deliveries, endpoints, jitters, retry_schedules

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")
SCHEDULE = RetrySchedule((5, 30))
ENDPOINT = register(
    id=ID, account_id=ID, url=parse_webhook_url("https://hooks.example/"), description=None,
    event_types=(EventKind.MEETING_CREATED,), created_by="key", created_at=NOW, secret="whsec_",
)  # fmt: skip
OK = Attempt(NOW, 12, status_code=204)
REFUSED = Attempt(NOW, 12, status_code=500, error="status_500")
GONE = Attempt(NOW, 12, status_code=410, error="status_410")


def standing(status: DeliveryStatus, attempts_made: int = 0) -> Delivery:
    due = NOW if status is DeliveryStatus.PENDING else None
    held_at = NOW - HELD_FOR if status is DeliveryStatus.HELD else None
    failed_at = NOW if status in (DeliveryStatus.FAILED, DeliveryStatus.EXPIRED) else None
    kind = EventKind.MEETING_CREATED
    return Delivery(ID, ID, ID, ID, kind, status, attempts_made, due, NOW, held_at, failed_at)


def attempted(
    delivery: Delivery, attempt: Attempt, endpoint: Endpoint = ENDPOINT, jitter: float = 0.0
) -> tuple[Delivery, Endpoint]:
    return record_attempt(delivery, endpoint, attempt, SCHEDULE, jitter, NOW)


def happen(delivery: Delivery, event: DeliveryEvent) -> Delivery:
    match event:
        case DeliveryEvent.SUCCEED:
            return attempted(delivery, OK)[0]
        case DeliveryEvent.RETRY:
            return attempted(delivery, REFUSED)[0]
        case DeliveryEvent.FAIL:
            return attempted(delivery, GONE)[0]
        case DeliveryEvent.HOLD:
            return hold(delivery, NOW)
        case DeliveryEvent.RELEASE:
            return release(delivery, NOW)
        case DeliveryEvent.EXPIRE:
            return expire(delivery, NOW)
        case DeliveryEvent.RECOVER:
            return recover(delivery, NOW)


def is_possible(delivery: Delivery) -> bool:
    """Due exactly while pending, held and failed since a moment exactly while it is so."""
    is_due, is_held = delivery.next_attempt_at is not None, delivery.held_at is not None
    return (is_due, is_held, delivery.failed_at is not None) == (
        delivery.status is DeliveryStatus.PENDING,
        delivery.status is DeliveryStatus.HELD,
        delivery.status in (DeliveryStatus.FAILED, DeliveryStatus.EXPIRED),
    ) and delivery.attempts_before_recovery <= delivery.attempts_made


@given(endpoints(), st.sampled_from(EventKind), near(NOW))
def test_a_new_delivery_is_due_at_once_or_held_and_asks_for_no_subscription(
    endpoint: Endpoint, kind: EventKind, now: datetime
) -> None:
    event_id, created_at = UUID(int=7), NOW - timedelta(seconds=1)
    made = open_delivery(
        id=ID, endpoint=endpoint, event_id=event_id, event_kind=kind, created_at=created_at, now=now
    )
    assert is_possible(made)
    assert (made.id, made.account_id, made.endpoint_id) == (ID, endpoint.account_id, endpoint.id)
    assert (made.event_id, made.event_kind, made.created_at) == (event_id, kind, created_at)
    assert made.attempts_made == 0
    is_active = endpoint.state is EndpointState.ACTIVE
    assert made.status is (DeliveryStatus.PENDING if is_active else DeliveryStatus.HELD)
    assert (made.next_attempt_at, made.held_at) == ((now, None) if is_active else (None, now))


@pytest.mark.parametrize("event", DeliveryEvent)
@pytest.mark.parametrize("status", DeliveryStatus)
def test_every_state_and_event_pair_follows_the_table_and_an_illegal_one_changes_nothing(
    status: DeliveryStatus, event: DeliveryEvent
) -> None:
    before = standing(status)
    after = happen(before, event)
    expected = TRANSITIONS.get((status, event))
    assert after.status is (expected or status)
    assert is_possible(after)
    if expected is None:
        assert after == before


@given(deliveries(), near(NOW))
def test_hold_release_expire_and_recover_change_where_a_delivery_waits_and_nothing_else(
    before: Delivery, now: datetime
) -> None:
    for after in (hold(before, now), release(before, now), expire(before, now), recover(before, now)):
        assert is_possible(after)
        assert (after == before) is (after.status is before.status)
        undone = evolve(
            after, status=before.status, next_attempt_at=before.next_attempt_at, held_at=before.held_at,
            failed_at=before.failed_at, attempts_before_recovery=before.attempts_before_recovery,
        )  # fmt: skip
        assert undone == before


@pytest.mark.spec("6/5")
@given(deliveries(), endpoints(), attempts(), retry_schedules(), jitters(), near(NOW))
@example(
    standing(DeliveryStatus.PENDING, 1), evolve(ENDPOINT, consecutive_failures=7), OK, SCHEDULE, 0.0, NOW
)
@example(standing(DeliveryStatus.PENDING), ENDPOINT, GONE, SCHEDULE, 0.0, NOW)
@example(standing(DeliveryStatus.PENDING), pause(ENDPOINT), REFUSED, SCHEDULE, 0.0, NOW)
@example(standing(DeliveryStatus.PENDING), pause(ENDPOINT), OK, SCHEDULE, 0.0, NOW)
@example(standing(DeliveryStatus.HELD), pause(ENDPOINT), REFUSED, SCHEDULE, 0.0, NOW)
@example(standing(DeliveryStatus.SUCCEEDED), ENDPOINT, REFUSED, SCHEDULE, 0.0, NOW)
@example(standing(DeliveryStatus.FAILED), ENDPOINT, OK, SCHEDULE, 0.0, NOW)
@example(standing(DeliveryStatus.EXPIRED), ENDPOINT, GONE, SCHEDULE, 0.0, NOW)
def test_an_attempt_counts_once_and_leaves_possible_records(
    before: Delivery,
    endpoint: Endpoint,
    attempt: Attempt,
    schedule: RetrySchedule,
    jitter: float,
    now: datetime,
) -> None:
    after, counted = record_attempt(before, endpoint, attempt, schedule, jitter, now)
    assert is_possible(after)
    if before.status not in (DeliveryStatus.PENDING, DeliveryStatus.HELD):
        assert (after, counted) == (before, endpoint)
        return
    assert after.attempts_made == before.attempts_made + 1
    assert (after.status is DeliveryStatus.SUCCEEDED) is judge(attempt)
    assert counted == (record_success(endpoint) if judge(attempt) else record_failure(endpoint, now))
    # What goes on needs an endpoint that is sent to, or waits for one.
    assert after.status is not DeliveryStatus.PENDING or counted.is_active
    if after.next_attempt_at is not None:
        tried = before.attempts_made - before.attempts_before_recovery
        assert after.next_attempt_at - now >= timedelta(seconds=schedule.delays_s[tried])
    if before.status is DeliveryStatus.HELD and after.status is DeliveryStatus.HELD:
        assert after.held_at == before.held_at


@pytest.mark.spec("6/4")
@given(st.none() | st.integers(100, 999), st.none() | st.just("timeout"))
@example(199, None)
@example(200, None)
@example(299, None)
@example(300, None)
@example(200, "timeout")
@example(None, None)
def test_success_is_a_2xx_without_an_error(status_code: int | None, error: str | None) -> None:
    attempt = Attempt(NOW, 1, status_code=status_code, error=error)
    assert judge(attempt) is (error is None and status_code is not None and status_code // 100 == 2)


@pytest.mark.spec("6/5")
@pytest.mark.parametrize("attempt", [
    REFUSED, GONE, Attempt(NOW, 1, error="timeout"), Attempt(NOW, 1, 200, "timeout"), Attempt(NOW, 1, 302),
])  # fmt: skip
def test_every_unsuccessful_attempt_counts_against_the_endpoint(attempt: Attempt) -> None:
    assert attempted(standing(DeliveryStatus.PENDING), attempt)[1].consecutive_failures == 1


def test_failures_are_retried_by_the_schedule_until_it_is_exhausted() -> None:
    delivery, endpoint = attempted(standing(DeliveryStatus.PENDING), REFUSED)
    assert delivery.next_attempt_at == NOW + timedelta(seconds=5)
    delivery, endpoint = attempted(delivery, REFUSED, endpoint, jitter=0.5)
    assert delivery.next_attempt_at == NOW + timedelta(seconds=33)
    delivery, endpoint = attempted(delivery, REFUSED, endpoint)
    assert (delivery.status, delivery.attempts_made) == (DeliveryStatus.FAILED, 3)
    assert endpoint.consecutive_failures == 3


@pytest.mark.parametrize(("status_code", "delay_s"), [(429, 100), (503, 100), (500, 5), (302, 5)])
def test_only_429_and_503_may_ask_to_wait(status_code: int, delay_s: int) -> None:
    attempt = Attempt(NOW, 1, status_code, f"status_{status_code}", retry_after_s=100)
    delivery, _ = attempted(standing(DeliveryStatus.PENDING), attempt)
    assert delivery.next_attempt_at == NOW + timedelta(seconds=delay_s)


@pytest.mark.spec("3/disable-at-20", "6/5")
def test_the_failure_that_disables_the_endpoint_holds_the_delivery() -> None:
    endpoint = evolve(ENDPOINT, consecutive_failures=19)
    delivery, after = attempted(standing(DeliveryStatus.PENDING), REFUSED, endpoint)
    assert (after.state, after.disabled_at) == (EndpointState.DISABLED, NOW)
    assert (delivery.status, delivery.next_attempt_at, delivery.held_at) == (DeliveryStatus.HELD, None, NOW)
    assert delivery.attempts_made == 1


def test_held_deliveries_are_released_on_request_and_expire_after_72_hours() -> None:
    held = hold(standing(DeliveryStatus.PENDING), NOW)
    due = NOW + timedelta(seconds=3)
    assert release(held, due).next_attempt_at == due
    assert expire(held, NOW + timedelta(hours=72) - timedelta(seconds=1)) == held
    assert expire(held, NOW + timedelta(hours=72)).status is DeliveryStatus.EXPIRED


@given(deliveries(), near(NOW))
def test_what_waits_fails_when_its_event_is_gone(before: Delivery, now: datetime) -> None:
    after = give_up(before, now)
    assert is_possible(after)
    waits = before.status in (DeliveryStatus.PENDING, DeliveryStatus.HELD)
    assert after == (before if not waits else evolve(
        before, status=DeliveryStatus.FAILED, next_attempt_at=None, held_at=None, failed_at=now
    ))  # fmt: skip


def test_what_is_recovered_waits_for_its_turn_and_has_all_its_retries_again() -> None:
    delivery = recover(standing(DeliveryStatus.FAILED, 3), NOW)
    assert (delivery.status, delivery.held_at) == (DeliveryStatus.HELD, NOW)
    delivery = release(delivery, NOW)
    for delay_s in SCHEDULE.delays_s:
        delivery, _ = attempted(delivery, REFUSED)
        assert delivery.next_attempt_at == NOW + timedelta(seconds=delay_s)
    delivery, _ = attempted(delivery, REFUSED)
    assert (delivery.status, delivery.attempts_made, delivery.failed_at) == (DeliveryStatus.FAILED, 6, NOW)


def test_a_delivery_with_two_hundred_attempts_is_not_recovered() -> None:
    for status in (DeliveryStatus.FAILED, DeliveryStatus.EXPIRED):
        last = standing(status, 199)
        assert recover(last, NOW).status is DeliveryStatus.HELD
        assert recover(evolve(last, attempts_made=200), NOW) == evolve(last, attempts_made=200)


@given(st.timedeltas(timedelta(0), EVENTS_KEPT))
def test_a_recovery_reaches_back_as_far_as_events_are_kept(ago: timedelta) -> None:
    assert recovery_start(NOW - ago, NOW) == NOW - ago


def test_a_recovery_reaches_back_as_far_as_events_are_chosen_to_be_kept() -> None:
    kept = timedelta(days=30)
    assert recovery_start(NOW - kept, NOW, kept) == NOW - kept
    with pytest.raises(Unprocessable, match=r"^since is more than 30 days ago: "):
        recovery_start(NOW - kept - timedelta(microseconds=1), NOW, kept)


@pytest.mark.parametrize(("ago", "problem"), [
    (timedelta(microseconds=-1), r"^since is in the future: "),
    (EVENTS_KEPT + timedelta(microseconds=1), r"^since is more than 90 days ago: "),
])  # fmt: skip
def test_a_recovery_since_another_time_is_refused(ago: timedelta, problem: str) -> None:
    with pytest.raises(Unprocessable, match=problem):
        recovery_start(NOW - ago, NOW)


@given(
    st.lists(st.sampled_from(["ok", "refused", "gone", "hold", "release", "recover"]), max_size=12),
    st.integers(0, 20),
)
def test_no_history_makes_an_impossible_record(history: list[str], failures: int) -> None:
    delivery, endpoint = (
        standing(DeliveryStatus.PENDING),
        evolve(ENDPOINT, consecutive_failures=min(failures, 19)),
    )
    attempts = {"ok": OK, "refused": REFUSED, "gone": GONE}
    for word in history:
        if word in attempts:
            delivery, endpoint = attempted(delivery, attempts[word], endpoint)
        else:
            change = {"hold": hold, "release": release, "recover": recover}[word]
            delivery = change(delivery, NOW)
        assert is_possible(delivery)
        assert delivery.attempts_made - delivery.attempts_before_recovery <= 3


@given(portion=st.integers(1, 1_000), every_ms=st.integers(0, 10_000))
def test_a_portion_lasts_until_the_first_of_the_next_may_be_due(portion: int, every_ms: int) -> None:
    pace = ReleasePace(portion, timedelta(milliseconds=every_ms))
    assert pace.lasts == timedelta(milliseconds=portion * every_ms)


def test_held_deliveries_are_released_at_ten_a_second() -> None:
    assert RELEASE_PACE.every == timedelta(milliseconds=100)
    assert RELEASE_PACE.lasts == timedelta(seconds=2)
