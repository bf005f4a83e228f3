"""Which requests of a minute are kept: the first ones, some of the others, and errors whatever succeeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.requests.request_log import (
    ALL_OF_MINUTE,
    MOST_ERRORS_OF_MINUTE,
    MOST_OF_MINUTE,
    ONE_OF,
    LoggedRequest,
    MinuteSample,
    is_error,
    requests_kept_since,
    sample,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def kept(errors: list[bool]) -> list[bool]:
    """Whether each request of a minute is kept, by whether it is an error."""
    so_far, found = MinuteSample(), []
    for each in errors:
        so_far, is_kept = sample(so_far, is_error=each)
        found.append(is_kept)
    return found


def test_the_first_successes_of_a_minute_are_all_kept() -> None:
    assert kept([False] * ALL_OF_MINUTE) == [True] * ALL_OF_MINUTE


def test_beyond_them_one_of_some_is_kept_up_to_a_limit() -> None:
    found = kept([False] * (ALL_OF_MINUTE + 2 * ONE_OF))[ALL_OF_MINUTE:]
    assert sum(found) == 2
    assert found[0]
    many = kept([False] * (ALL_OF_MINUTE + ONE_OF * MOST_OF_MINUTE))
    assert sum(many) == MOST_OF_MINUTE
    assert not any(many[-ONE_OF * ALL_OF_MINUTE :])


@given(st.lists(st.booleans(), max_size=2 * MOST_OF_MINUTE))
def test_errors_are_kept_whatever_succeeds(errors: list[bool]) -> None:
    found = kept(errors)
    of_errors = [is_kept for failed, is_kept in zip(errors, found, strict=True) if failed]
    assert of_errors == [place < MOST_ERRORS_OF_MINUTE for place in range(len(of_errors))]
    of_successes = [is_kept for failed, is_kept in zip(errors, found, strict=True) if not failed]
    assert of_successes == kept([False] * len(of_successes))


def test_errors_have_a_limit_too() -> None:
    assert sum(kept([True] * (MOST_ERRORS_OF_MINUTE + 5))) == MOST_ERRORS_OF_MINUTE


@pytest.mark.parametrize(("status", "expected"), [(200, False), (399, False), (400, True), (503, True)])
def test_a_refusal_or_a_fault_is_an_error(status: int, expected: bool) -> None:
    request = LoggedRequest(UUID(int=1), UUID(int=2), UUID(int=3), NOW, "GET", "/me", status, 1)
    assert is_error(request.status) is expected
    assert (request.code, request.subject_id) == (None, None)


def test_requests_are_kept_for_seven_days() -> None:
    assert requests_kept_since(NOW) == NOW - timedelta(days=7)
