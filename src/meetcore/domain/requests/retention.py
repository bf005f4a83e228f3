"""Retention of meetings and notes, and erasure of accounts.

Retention is off unless an operator sets it. A customer's request for a removed id is answered with `Gone`. An
erasure removes names, addresses and spoken content. The ledger is kept in both cases, with the ids that its
entries name, so that it can be proved as before.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.machine import find_step
from meetcore.domain.meetings.meetings import OPEN, MeetingStatus
from meetcore.domain.notes.notes import TRANSITIONS, NoteEvent, NoteStatus


class RemovedKind(StrEnum):
    """The kinds of removed records, one round for each."""

    NOTES = "notes"
    MEETINGS = "meetings"


REMOVABLE_MEETINGS: Final = frozenset(MeetingStatus) - OPEN - {MeetingStatus.PROVISIONING}
"""The states in which nothing happens to a meeting any more."""

REMOVABLE_NOTES: Final = frozenset(
    status for status in NoteStatus if find_step(TRANSITIONS, status, NoteEvent.FAIL) is None
)
"""The states in which no work on a note is left."""


@frozen
class Retention:
    """The number of days for which records are kept; 0 is for ever.

    A meeting is kept from its end, a note from its request, or, without a number of its own, for as long as a
    meeting. A meeting stays until its recording and its notes are gone.
    """

    meeting_days: int = 0
    note_days: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether anything is removed."""
        return self.meeting_days > 0 or self.note_days > 0

    def meetings_ended_before(self, now: datetime) -> datetime | None:
        """Return the instant before which a meeting must have ended to be removed, if any is."""
        return now - timedelta(days=self.meeting_days) if self.meeting_days else None

    def notes_made_before(self, now: datetime) -> datetime | None:
        """Return the instant before which a note must have been requested to be removed, if any is."""
        days = self.note_days or self.meeting_days
        return now - timedelta(days=days) if days else None


ERASED: Final = "Erased"
"""Stands in place of a name or a title."""


@frozen
class Erasure:
    """An account under its lock, for its erasure: its meetings to come, and the credits held for its work."""

    account_id: UUID
    open_meetings: int
    holds: int
    requested_at: datetime | None = None
    finished_at: datetime | None = None


def check_erasable(erasure: Erasure) -> None:
    """Raise `Unprocessable` while meetings are still to take place, or notes are being written."""
    if erasure.open_meetings:
        raise Unprocessable(
            "Meetings of this account are still to take place. Cancel them first: their credits come back.",
            {"open_meetings": erasure.open_meetings},
        )
    if erasure.holds:
        raise Unprocessable(
            "Meetings or notes of this account are being made. Try again in a few minutes.",
            {"holds": erasure.holds},
        )


def erased_email(id: UUID) -> str:
    """Return the address that replaces an account's or a user's, and that no mail reaches (RFC 2606)."""
    return f"erased-{id}@erased.invalid"
