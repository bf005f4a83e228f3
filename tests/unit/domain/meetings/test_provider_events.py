"""For how long an event that comes too early is tried again."""

from datetime import timedelta

import pytest

from meetcore.domain.meetings.provider_events import MAX_TRIES, retry_delay


def waits() -> list[float]:
    found = (retry_delay(tries) for tries in range(1, MAX_TRIES))
    return [wait.total_seconds() for wait in found if wait is not None]


def test_the_waits_double_up_to_a_minute() -> None:
    assert waits() == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_the_waits_make_five_minutes() -> None:
    assert timedelta(minutes=5) <= timedelta(seconds=sum(waits())) < timedelta(minutes=6)


@pytest.mark.parametrize("tries", [MAX_TRIES, MAX_TRIES + 1, 10_000])
def test_then_it_is_dropped(tries: int) -> None:
    assert retry_delay(tries) is None
