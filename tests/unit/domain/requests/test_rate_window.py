"""The fixed minute: admission, the reported values, and jumping clocks."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.requests.rate_window import (
    WINDOW_SECONDS,
    OperationClass,
    Quotas,
    RateVerdict,
    decide,
    full_verdict,
    window_start,
)
from meetcore.testing.strategies.moments import instants, time_zones
from meetcore.testing.strategies.requests import arrivals

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NOON_S = 1_796_126_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

limits = st.integers(1, 8)


def play(limit: int, moments: Sequence[datetime]) -> list[RateVerdict]:
    """What a store and the rule tell a row of requests, in the order of their arrival."""
    hits: Counter[int] = Counter()
    verdicts = []
    for now in moments:
        hits[window_start(now)] += 1
        verdicts.append(decide(limit, hits[window_start(now)], now))
    return verdicts


def minute_of(now: datetime) -> datetime:
    """The wall-clock minute, computed without the rule."""
    return now.astimezone(UTC).replace(second=0, microsecond=0)


@pytest.mark.spec("8/2", "8/5")
@given(limits, arrivals())
def test_for_any_instants_in_any_order_at_most_limit_are_allowed_per_wall_clock_minute(
    limit: int, moments: Sequence[datetime]
) -> None:
    """A clock that is set back, over the edge too, gives no minute its quota twice; none gets less either."""
    requests_by_minute = Counter(map(minute_of, moments))
    admitted: Counter[datetime] = Counter()
    for now, verdict in zip(moments, play(limit, moments), strict=True):
        admitted[minute_of(now)] += verdict.is_allowed
    assert admitted == {minute: min(limit, count) for minute, count in requests_by_minute.items()}


@pytest.mark.spec("8/5")
@given(limits, st.integers(1, 1_000), instants())
@example(8, 8, NOON)
@example(8, 9, NOON)
def test_refusals_begin_past_the_limit_and_not_before(limit: int, hits: int, now: datetime) -> None:
    verdict = decide(limit, hits, now)
    assert verdict.is_allowed == (hits <= limit)
    assert verdict.remaining == max(0, limit - hits)
    assert verdict.limit == limit


@pytest.mark.spec("8/2", "8/3")
@given(instants())
def test_reset_lies_on_second_00_and_the_window_holds_its_instant(now: datetime) -> None:
    verdict = decide(1, 1, now)
    assert verdict.window_start == window_start(now)
    assert verdict.reset == verdict.window_start + WINDOW_SECONDS
    starts, resets = (EPOCH + timedelta(seconds=at) for at in (verdict.window_start, verdict.reset))
    assert (starts.second, starts.microsecond, resets.second, resets.microsecond) == (0, 0, 0, 0)
    assert starts <= now < resets


@pytest.mark.spec("8/4")
@given(instants(), st.integers(2, 1_000))
def test_retry_after_is_a_whole_number_of_at_least_one_that_lands_in_the_next_window(
    now: datetime, hits: int
) -> None:
    refused = decide(1, hits, now)
    assert type(refused.retry_after_s) is int
    assert refused.retry_after_s >= 1
    later = now + timedelta(seconds=refused.retry_after_s)
    assert window_start(later) == refused.reset
    assert timedelta(0) <= later - (EPOCH + timedelta(seconds=refused.reset)) < timedelta(seconds=1)


@pytest.mark.spec("8/4")
@pytest.mark.parametrize(
    ("second", "microsecond", "wait"), [(0, 0, 60), (0, 1, 60), (1, 0, 59), (59, 0, 1), (59, 999_999, 1)]
)
def test_the_wait_in_whole_seconds(second, microsecond, wait):
    now = NOON.replace(second=second, microsecond=microsecond)
    refused = decide(20, 21, now)
    assert refused == RateVerdict(20, 0, NOON_S + 60, False, wait, NOON_S)


def test_an_admitted_request_has_nothing_to_wait_for():
    assert decide(20, 20, NOON) == RateVerdict(20, 0, NOON_S + 60, True, 0, NOON_S)


@pytest.mark.spec("8/2")
def test_the_last_microsecond_of_a_far_year_stays_in_its_minute():
    """A float would round it up into the next."""
    now = datetime(9998, 12, 31, 23, 58, 59, 999_999, tzinfo=UTC)
    assert window_start(now) == int(now.replace(second=0, microsecond=0).timestamp())


@pytest.mark.spec("8/2")
@given(instants(), time_zones())
def test_an_instant_has_one_window_whatever_the_zone_it_is_written_in(now, zone):
    assert window_start(now) == window_start(now.astimezone(zone))


@pytest.mark.spec("8/3")
@given(instants(), limits)
def test_a_request_that_was_not_counted_shows_the_whole_quota(now, limit):
    verdict = full_verdict(limit, now)
    assert verdict == RateVerdict(limit, limit, window_start(now) + 60, True, 0, window_start(now))


@pytest.mark.spec("8/6")
def test_quotas_differ_by_class_reads_loosest_credits_strictest():
    quotas = Quotas()
    by_class = {operation: quotas.of(operation) for operation in OperationClass}
    assert by_class == {"read": 300, "write": 60, "credit": 20, "tool": 60}
    assert max(by_class, key=by_class.__getitem__) is OperationClass.READ
    assert min(by_class, key=by_class.__getitem__) is OperationClass.CREDIT


@pytest.mark.spec("8/6")
def test_quotas_are_configuration():
    quotas = Quotas(read=1, write=2, credit=3, tool=4)
    assert [quotas.of(operation) for operation in OperationClass] == [1, 2, 3, 4]


@pytest.mark.parametrize("value", [0, -1, True, 1.0, float("nan"), "20", None])
def test_a_quota_is_a_whole_number_of_at_least_one(value):
    with pytest.raises(ValueError, match="credit"):
        Quotas(credit=value)


@pytest.mark.parametrize("value", [0, -1, 2.5, 1.0, True, "1", None, float("nan")])
def test_a_limit_and_its_hits_are_whole_numbers_of_at_least_one(value):
    for judge in (lambda: decide(value, 1, NOON), lambda: full_verdict(value, NOON)):
        with pytest.raises(ValueError, match=r"^The limit is a whole number of at least 1, not "):
            judge()
    uncounted = r"^Count the request before judging it: there is at least one hit\.$"
    with pytest.raises(ValueError, match=uncounted):
        decide(1, value, NOON)


def test_a_time_without_a_zone_is_refused():
    naive = NOON.replace(tzinfo=None)
    for ask in (lambda: window_start(naive), lambda: decide(1, 1, naive), lambda: full_verdict(1, naive)):
        with pytest.raises(TypeError):
            ask()
