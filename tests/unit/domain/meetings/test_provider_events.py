"""Events that come too early, and orphans at the provider."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.meetings import Meeting, Provisioned
from meetcore.domain.meetings.provider_events import (
    DEFAULT_WINDOW_S,
    MAX_TRIES,
    next_look_s,
    orphans_of,
    retry_delay,
    retry_delay_s,
)
from tests.support.transactions import Customer, MeetingSpec, draft, new_id


def waits() -> list[float]:
    found = (retry_delay(tries) for tries in range(1, MAX_TRIES))
    return [wait.total_seconds() for wait in found if wait is not None]


def test_the_waits_double_up_to_a_minute() -> None:
    assert waits() == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


@pytest.mark.parametrize("tries", [MAX_TRIES, MAX_TRIES + 1, 10_000])
def test_then_it_is_dropped(tries: int) -> None:
    assert retry_delay(tries) is None


MEETING: Meeting = draft(Customer(new_id(), new_id(), b"d"), MeetingSpec(), None)
names = st.sampled_from(["1", "2", "3"])
ages = st.floats(-60, 1000)
windows = st.floats(1, 600)


@given(st.none() | names, st.lists(names))
def test_every_meeting_but_the_recorded_one_is_an_orphan(kept: str | None, found: list[str]) -> None:
    meeting = evolve(MEETING, provider_meeting_id=kept)
    made = [Provisioned(name, f"https://meet.example/{name}") for name in found]
    orphans = orphans_of(meeting, made)
    assert [one.provider_meeting_id for one in orphans] == [name for name in found if name != kept]


@given(ages, windows)
def test_the_last_check_is_at_the_end_of_the_window(age_s: float, window_s: float) -> None:
    after_s = next_look_s(age_s, window_s)
    assert (after_s is None) == (age_s >= window_s)
    if after_s is not None:
        assert 0 < after_s <= window_s - age_s


def test_checks_are_at_a_fifth_at_half_and_at_the_end_of_the_window() -> None:
    checks, age_s = [], 0.0
    while (after_s := next_look_s(age_s, DEFAULT_WINDOW_S)) is not None:
        age_s += after_s
        checks.append(age_s)
    assert checks == [60.0, 150.0, 300.0]
    assert next_look_s(-20.0, DEFAULT_WINDOW_S) == 80.0


@pytest.mark.parametrize(
    ("failures", "delay_s"), [(1, 30), (2, 60), (3, 120), (7, 1920), (8, 3600), (5000, 3600)]
)
def test_failed_checks_are_retried_at_growing_intervals_of_at_most_an_hour(
    failures: int, delay_s: float
) -> None:
    assert retry_delay_s(failures) == delay_s
