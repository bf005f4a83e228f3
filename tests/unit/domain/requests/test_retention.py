"""Retention, and erasure of accounts."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Unprocessable
from meetcore.domain.meetings.meetings import TRANSITIONS, MeetingStatus
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.retention import (
    REMOVABLE_MEETINGS,
    REMOVABLE_NOTES,
    Erasure,
    Retention,
    check_erasable,
    erased_email,
)

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def test_nothing_is_removed_unless_it_is_set() -> None:
    retention = Retention()
    assert not retention.is_limited
    assert retention.meetings_ended_before(NOW) is None
    assert retention.notes_made_before(NOW) is None


@pytest.mark.parametrize(("retention", "meetings", "notes"), [
    (Retention(30), 30, 30), (Retention(30, 7), 30, 7), (Retention(0, 7), None, 7), (Retention(7, 30), 7, 30),
])  # fmt: skip
def test_notes_without_a_number_of_their_own_are_kept_as_long_as_meetings(
    retention: Retention, meetings: int | None, notes: int
) -> None:
    assert retention.is_limited
    before = None if meetings is None else NOW - timedelta(days=meetings)
    assert retention.meetings_ended_before(NOW) == before
    assert retention.notes_made_before(NOW) == NOW - timedelta(days=notes)


def test_only_records_to_which_nothing_happens_any_more_are_removed() -> None:
    assert {status for status in MeetingStatus if not any(one is status for one, _ in TRANSITIONS)} == (
        REMOVABLE_MEETINGS
    )
    assert {NoteStatus.COMPLETED, NoteStatus.FAILED, NoteStatus.ERASED} == REMOVABLE_NOTES


ID = UUID("0190a1b2-0000-7000-8000-000000000000")
NOTHING_OPEN = Erasure(ID, 0, 0)


def test_an_account_with_nothing_under_way_can_be_erased() -> None:
    check_erasable(NOTHING_OPEN)


@pytest.mark.parametrize(("erasure", "text", "details"), [
    (
        evolve(NOTHING_OPEN, open_meetings=2, holds=3),
        "Meetings of this account are still to take place. Cancel them first: their credits come back.",
        {"open_meetings": 2},
    ),
    (
        evolve(NOTHING_OPEN, holds=3),
        "Meetings or notes of this account are being made. Try again in a few minutes.",
        {"holds": 3},
    ),
])  # fmt: skip
def test_what_is_under_way_is_finished_first(erasure: Erasure, text: str, details: dict[str, int]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        check_erasable(erasure)
    assert (refusal.value.message, refusal.value.details) == (text, details)


def test_an_erased_address_is_one_that_no_mail_reaches() -> None:
    assert check_email(erased_email(ID)) == f"erased-{ID}@erased.invalid"
