"""Hosts' keys: how they are drawn, and near which meeting they are shown."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.meetings import (
    HOST_KEY_SHOWN_BEFORE,
    Meeting,
    MeetingOptions,
    MeetingStatus,
    can_have_shown_host_key,
    has_host_key_due,
    shown_host_key,
)
from meetcore.domain.meetings.passwords import PASSWORD_RANDOM_BYTES, generate_host_key
from meetcore.testing.strategies.moments import TICK

PROVISIONING, SCHEDULED, CANCELLING, STARTED, ENDED, CANCELLED, ABANDONED = MeetingStatus
START = datetime(2026, 12, 1, 2, tzinfo=UTC)
END = START + timedelta(hours=1)
NEAR = START - HOST_KEY_SHOWN_BEFORE
ID = UUID("01930000-0000-7000-8000-000000000001")
KEY = "012345"
MEETING = Meeting(
    id=ID, account_id=ID, api_key_id=ID, status=SCHEDULED, title="Rapat", description=None, start_at=START,
    end_at=END, duration=60, capacity=100, pricing_tier_id="standard-100", credits=10,
    options=MeetingOptions(), host_id=ID,
    provider="zoom", created_at=START - timedelta(days=1), host_key=KEY,
)  # fmt: skip

randoms = st.binary(min_size=PASSWORD_RANDOM_BYTES, max_size=64)


@given(st.integers(1, 10), randoms)
def test_a_key_has_the_requested_number_of_digits(digits: int, random: bytes) -> None:
    key = generate_host_key(digits, random)
    assert len(key) == digits
    assert set(key) <= set("0123456789")


def test_keys_are_drawn_from_the_whole_range() -> None:
    drawn = {generate_host_key(1, number.to_bytes(PASSWORD_RANDOM_BYTES)) for number in range(10)}
    assert drawn == set("0123456789")


@given(st.binary(max_size=PASSWORD_RANDOM_BYTES - 1))
def test_a_key_that_could_be_guessed_is_not_drawn(random: bytes) -> None:
    with pytest.raises(ValueError, match="random bytes"):
        generate_host_key(6, random)


@pytest.mark.spec("2.1/fields")
@pytest.mark.parametrize(
    ("status", "near", "during"),
    [
        (PROVISIONING, None, None),
        (SCHEDULED, KEY, KEY),
        (CANCELLING, KEY, KEY),
        (STARTED, KEY, KEY),
        (ENDED, None, None),
        (CANCELLED, None, None),
        (ABANDONED, None, None),
    ],
)
def test_a_key_is_shown_from_15_minutes_before_the_start_until_the_end(
    status: MeetingStatus, near: str | None, during: str | None
) -> None:
    meeting = evolve(MEETING, status=status)
    expected = {
        NEAR - TICK: None,
        NEAR: near,
        START - TICK: near,
        START: during,
        END - TICK: during,
        END: None,
    }
    assert {now: shown_host_key(meeting, now) for now in expected} == expected


def test_a_meeting_without_a_key_shows_none() -> None:
    assert shown_host_key(evolve(MEETING, host_key=None), START) is None


def test_a_key_is_due_from_15_minutes_before_the_start_for_ever() -> None:
    due = {NEAR - TICK: False, NEAR: True, START: True, END: True, END + timedelta(days=9): True}
    assert {now: has_host_key_due(MEETING, now) for now in due} == due


def test_a_clock_that_is_a_minute_ahead_may_have_shown_a_key() -> None:
    ahead = NEAR - timedelta(minutes=1)
    can = {ahead - TICK: False, ahead: True, NEAR: True, END + timedelta(days=9): True}
    assert {now: can_have_shown_host_key(MEETING, now) for now in can} == can
