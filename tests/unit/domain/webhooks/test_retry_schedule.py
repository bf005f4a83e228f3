"""When a failed delivery is tried again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.webhooks.retry_schedule import (
    DEFAULT_DELAYS_S,
    WAITS_FROM_FAILURES,
    RetrySchedule,
    next_attempt,
    wait_after,
)
from meetcore.testing.strategies.webhooks import jitters, retry_schedules

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
DAY_S = 86400


def test_the_default_schedule() -> None:
    assert RetrySchedule().delays_s == (5, 30, 120, 600, 1800, 3600, 10800, 21600, 43200, 86400)


@pytest.mark.parametrize(("made", "delay_s"), list(enumerate((0, *DEFAULT_DELAYS_S))))
def test_each_failure_waits_its_delay(made: int, delay_s: int) -> None:
    assert next_attempt(RetrySchedule(), made, NOW, 0) == NOW + timedelta(seconds=delay_s)


def test_the_eleventh_failure_is_the_last() -> None:
    assert next_attempt(RetrySchedule(), 11, NOW, 0) is None
    assert next_attempt(RetrySchedule(), 11, NOW, 0, 60) is None
    assert next_attempt(RetrySchedule(()), 1, NOW, 0) is None


@given(retry_schedules(), st.integers(1, 15), jitters(), st.none() | st.integers(-10, 10**12))
def test_never_early_never_more_than_a_fifth_late_and_retry_after_up_to_a_day(
    schedule: RetrySchedule, made: int, jitter: float, retry_after_s: int | None
) -> None:
    due = next_attempt(schedule, made, NOW, jitter, retry_after_s)
    if made > len(schedule.delays_s):
        assert due is None
        return
    assert due is not None
    delay_s = schedule.delays_s[made - 1]
    requested_s = min(max(retry_after_s or 0, 0), DAY_S)
    waited_s = (due - NOW).total_seconds()
    assert max(delay_s, requested_s) <= waited_s
    assert waited_s <= max(delay_s * 1.2, requested_s) + 1e-6


@pytest.mark.parametrize("jitter", [-0.1, 1, 1.5, float("nan")])
def test_jitter_outside_its_range_raises(jitter: float) -> None:
    with pytest.raises(ValueError, match="jitter"):
        next_attempt(RetrySchedule(), 1, NOW, jitter)


def test_a_negative_count_or_delay_raises() -> None:
    with pytest.raises(ValueError, match="attempts"):
        next_attempt(RetrySchedule(), -1, NOW, 0)
    with pytest.raises(ValueError, match="negative"):
        RetrySchedule((5, -1))


@pytest.mark.parametrize("delay", [1.5, 1.0, True, "5", float("nan"), float("inf")])
def test_a_delay_is_a_whole_number_of_seconds(delay: Any) -> None:
    with pytest.raises(ValueError, match=r"^a delay before a retry is a whole number of seconds$"):
        RetrySchedule((5, delay))


def test_a_delay_is_a_year_at_most_beyond_which_dates_end() -> None:
    year_s = 365 * 86_400
    assert next_attempt(RetrySchedule((year_s,)), 1, NOW, 0) == NOW + timedelta(days=365)
    with pytest.raises(ValueError, match=r"^a delay before a retry is at most 31536000 seconds$"):
        RetrySchedule((5, year_s + 1))


@given(retry_schedules(), st.integers(0, 20), jitters())
def test_an_endpoint_waits_from_its_eighth_failure_on_for_an_hour_at_most(
    schedule: RetrySchedule, failures: int, jitter: float
) -> None:
    wait_s = wait_after(schedule, failures, jitter).total_seconds()
    if failures < WAITS_FROM_FAILURES or not schedule.delays_s:
        assert wait_s == 0
        return
    place = min(failures - WAITS_FROM_FAILURES, len(schedule.delays_s) - 1)
    delay_s = min(schedule.delays_s[place], 3600)
    assert delay_s <= wait_s <= delay_s * 1.2 + 1e-6


def test_twenty_failures_in_a_row_take_hours_by_default() -> None:
    waits = [wait_after(RetrySchedule(), failures, 0) for failures in range(1, 20)]
    assert sum(waits, timedelta()) == timedelta(hours=7, minutes=42, seconds=35)
