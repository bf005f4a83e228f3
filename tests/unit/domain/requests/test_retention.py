"""How long meetings and notes are kept."""

from datetime import UTC, datetime, timedelta

import pytest

from meetcore.domain.meetings.meetings import TRANSITIONS, MeetingStatus
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.requests.retention import REMOVABLE_MEETINGS, REMOVABLE_NOTES, Retention

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def test_nothing_is_removed_unless_it_is_set() -> None:
    retention = Retention()
    assert not retention.is_limited
    assert retention.meetings_ended_before(NOW) is None
    assert retention.notes_made_before(NOW) is None


@pytest.mark.parametrize(
    ("retention", "meetings", "notes"),
    [
        (Retention(30), 30, 30),
        (Retention(30, 7), 30, 7),
        (Retention(0, 7), None, 7),
        (Retention(7, 30), 7, 30),
    ],
)
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
