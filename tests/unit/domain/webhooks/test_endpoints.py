"""The endpoint machine, the counters at endpoint and host, PATCH (spec 3 and 4.4)."""

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
    HostFailures,
    Unset,
    WebhookTested,
    check_room,
    count_failure,
    count_success,
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
    wait,
)
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, wait_after
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.testing.strategies.webhooks import (
    descriptions,
    endpoint_event_lists,
    endpoint_secrets,
    endpoints,
    event_kinds,
    jitters,
    retry_schedules,
)

NOW = datetime(2026, 12, 1, 2, 0, 0, 123456, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")
ACTIVE, PAUSED, DISABLED = EndpointState
WITHOUT_DELAYS = RetrySchedule(())


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


@pytest.mark.spec("3/disable-at-20", "3/pause", "3/re-enable", "4.4/2", "6/5")
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
@example([EndpointEvent.DISABLE, EndpointEvent.PAUSE, EndpointEvent.RESUME])
@example([EndpointEvent.FAILED, EndpointEvent.PAUSE] + [EndpointEvent.FAILED] * 19)
@example([EndpointEvent.FAILED, EndpointEvent.PAUSE, EndpointEvent.SUCCEEDED, EndpointEvent.FAILED])
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
        assert (endpoint.state is DISABLED) is (row == 20)
        assert endpoint.disabled_at == (NOW if row == 20 else None)


@pytest.mark.spec("3/pause", "3/re-enable")
@given(endpoint_event_lists(), st.booleans())
def test_after_any_event_sequence_the_customers_last_change_wins(
    word: Sequence[EndpointEvent], is_active: bool
) -> None:
    endpoint = made()
    for event in word:
        endpoint = happen(endpoint, event)
    assert update(endpoint, EndpointChanges(is_active=is_active)).is_active is is_active


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
@example(made(), "whsec_new", 2, 7199)
@example(made(), "whsec_new", 2, 7200)
def test_the_secret_before_signs_for_the_overlap_and_no_longer(
    endpoint: Endpoint, secret: str, hours: int, later_s: int
) -> None:
    assume(secret != endpoint.secret)
    rotated = rotate_secret(endpoint, secret, NOW, timedelta(hours=hours))
    signs = later_s < hours * 3600
    assert previous_secret(rotated, NOW + timedelta(seconds=later_s)) == (endpoint.secret if signs else None)
    assert (rotated.previous_secret is None) == (rotated.previous_secret_until is None) == (hours == 0)


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


@pytest.mark.parametrize(("endpoints_there", "limit"), [(50, 50), (150_000, 50)])
def test_at_the_limit_the_refusal_describes_the_remedy(endpoints_there: int, limit: int) -> None:
    check_room(limit - 1, limit)
    with pytest.raises(Unprocessable) as refused:
        check_room(endpoints_there, limit)
    assert refused.value.message == (
        f"This account has {endpoints_there} webhooks, and may have {limit}. Delete one that you no longer "
        "need, or send several kinds of events to one URL."
    )


@pytest.mark.parametrize(("url", "host"), [
    ("https://Hooks.Example:443", "hooks.example"),
    ("https://hooks.example/a/b?c=//d", "hooks.example"),
    ("https://[2606:4700::1]/x", "[2606:4700::1]"),
    ("https://93.184.216.34/", "93.184.216.34"),
])  # fmt: skip
def test_the_destination_host_is_that_of_the_normal_form(url: str, host: str) -> None:
    parsed = parse_webhook_url(url)
    assert evolve(made(), url=parsed.text, url_key=parsed.normalized).host == host


class Host:
    """Some endpoints at one host, and what is counted there; without delays, 20 failures may come at once."""

    def __init__(self, endpoints: int, schedule: RetrySchedule = WITHOUT_DELAYS) -> None:
        self.schedule, self.now = schedule, NOW
        self.endpoints: list[Endpoint] = [made()] * endpoints
        self.failures = HostFailures(ID, made().host)
        self.times_failed = 0

    def fail(self, which: int) -> None:
        before = self.endpoints[which]
        after = self.endpoints[which] = record_failure(before, self.now)
        self.failures, is_failing = count_failure(self.failures, before, after, self.schedule, self.now)
        if is_failing:
            self.times_failed += 1
            self.endpoints = [disable_with_host(one, self.now) for one in self.endpoints]

    def succeed(self, which: int) -> None:
        self.endpoints[which] = record_success(self.endpoints[which])
        self.failures = count_success(self.failures)

    def states(self) -> list[EndpointState]:
        return [one.state for one in self.endpoints]


@pytest.mark.spec("3/disable-at-20")
def test_the_20th_failure_in_a_row_disables_those_that_fail() -> None:
    host = Host(4)
    host.succeed(3)
    for number in range(19):
        host.fail(number % 3)
    assert host.states() == [ACTIVE] * 4
    host.fail(0)
    assert host.states() == [DISABLED] * 3 + [ACTIVE]
    assert host.failures.consecutive_failures == 0


@pytest.mark.spec("3/disable-at-20")
def test_an_endpoint_alone_at_its_host_has_20_failures_each_time() -> None:
    host = Host(1)
    for _ in range(2):
        for _ in range(19):
            host.fail(0)
        assert host.states() == [ACTIVE]
        host.fail(0)
        assert host.states() == [DISABLED]
        host.endpoints[0] = resume(host.endpoints[0])


@pytest.mark.spec("3/disable-at-20")
@pytest.mark.parametrize(("delays_s", "longest"), [((5, 60), 60), ((5, 7200, 10), 3600)])
def test_a_host_disables_after_it_has_failed_for_the_longest_wait(
    delays_s: tuple[int, ...], longest: int
) -> None:
    host = Host(30, RetrySchedule(delays_s))
    for which in range(30):
        host.fail(which)
    host.now += timedelta(seconds=longest, microseconds=-1)
    host.fail(0)
    assert (host.states(), host.failures.failing_since) == ([ACTIVE] * 30, NOW)
    host.now += timedelta(microseconds=1)
    host.fail(1)
    assert (host.states(), host.failures.failing_since) == ([DISABLED] * 30, None)


def test_a_host_that_has_accepted_a_post_fails_from_then_on() -> None:
    host = Host(30, RetrySchedule((60,)))
    host.fail(0)
    host.succeed(1)
    host.now += timedelta(seconds=60)
    for which in range(30):
        host.fail(which)
    assert (host.states(), host.failures.failing_since) == ([ACTIVE] * 30, host.now)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=120))
@example([(0, False)] * 35 + [(1, False)])  # posts that were in flight at a disabled endpoint
@example([(0, False)] * 19 + [(1, True), (0, False)])  # its own failures disable it, not those of its host
def test_the_count_matches_a_direct_model_of_the_rule(word: Sequence[tuple[int, bool]]) -> None:
    """No more than 20 failures in a row are counted, and a success anywhere at the host starts again."""
    host, row = Host(5), 0
    for which, is_good in word:
        counts = host.endpoints[which].state is ACTIVE
        own = host.endpoints[which].consecutive_failures
        before = host.times_failed
        if is_good:
            host.succeed(which)
            row = 0
        else:
            host.fail(which)
            row += counts
        if row == 20:
            assert host.times_failed == before + 1
        elif counts and not is_good and own == 19:
            assert host.states()[which] is DISABLED
        else:
            assert host.times_failed == before
        if row == 20 or (counts and not is_good and own == 19):
            row = 0
        assert host.failures.consecutive_failures == row


@given(st.integers(1, 200))
def test_an_unreachable_host_gets_at_most_19_posts_beyond_its_endpoint_count(endpoints: int) -> None:
    """One event for each; what is not disabled by it is tried again, and again."""
    host, posts = Host(endpoints), 0
    while active := [number for number, state in enumerate(host.states()) if state is ACTIVE]:
        for which in active:
            if host.endpoints[which].state is ACTIVE:
                host.fail(which)
                posts += 1
    assert posts <= endpoints + 19


@given(st.integers(1, 8), retry_schedules(), jitters())
def test_the_twentieth_failure_in_a_row_is_as_far_from_the_first_as_the_schedule_makes_it(
    in_flight: int, schedule: RetrySchedule, jitter: float
) -> None:
    """However many deliveries are due: some are in flight together, then each follows the last."""
    endpoint, host, now = evolve(standing(ACTIVE), consecutive_failures=0), HostFailures(ID, "x"), NOW
    for made in range(DISABLE_AFTER_FAILURES):
        assert endpoint.is_active
        if made >= in_flight:
            now = endpoint.next_post_at or now
        before, endpoint = endpoint, record_failure(endpoint, now)
        host, _ = count_failure(host, before, endpoint, schedule, now)
        endpoint = wait(endpoint, host, schedule, jitter, now)
    assert (endpoint.state, endpoint.next_post_at) == (DISABLED, None)
    waits = (wait_after(schedule, failures, 0) for failures in range(8, DISABLE_AFTER_FAILURES))
    assert now - NOW >= sum(waits, timedelta())


@given(st.integers(0, 19), st.integers(0, 19), retry_schedules(), jitters())
def test_an_endpoint_waits_by_its_own_failures_or_those_of_its_host_and_not_after_a_success(
    own: int, at_host: int, schedule: RetrySchedule, jitter: float
) -> None:
    failing = evolve(standing(ACTIVE), consecutive_failures=own)
    waiting = wait(failing, HostFailures(ID, "x", at_host), schedule, jitter, NOW)
    delay = wait_after(schedule, max(own, at_host), jitter)
    assert waiting.next_post_at == (NOW + delay if delay else None)
    for after in (resume(waiting), disable_with_host(evolve(waiting, consecutive_failures=1), NOW)):
        assert after.next_post_at is None
    assert record_success(evolve(waiting, consecutive_failures=1)).next_post_at is None
