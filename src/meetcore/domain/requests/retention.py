"""How long meetings and notes are kept, and which of them may be removed when that is over.

Off unless an operator sets it. The ledger is kept for good, whatever is removed: its entries still name the
id. What a customer is answered for an id that was removed is `Gone`.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from attrs import frozen

from meetcore.domain.meetings.meetings import OPEN, MeetingStatus
from meetcore.domain.notes.notes import TRANSITIONS, NoteEvent, NoteStatus

__all__ = ["REMOVABLE_MEETINGS", "REMOVABLE_NOTES", "RemovedKind", "Retention"]


class RemovedKind(StrEnum):
    """What is removed, one round for each."""

    NOTES = "notes"
    MEETINGS = "meetings"


REMOVABLE_MEETINGS: Final = frozenset(MeetingStatus) - OPEN - {MeetingStatus.PROVISIONING}
"""The states in which nothing happens to a meeting any more."""

REMOVABLE_NOTES: Final = frozenset(
    status for status in NoteStatus if (status, NoteEvent.FAIL) not in TRANSITIONS
)
"""The states in which no work on a note is left."""


@frozen
class Retention:
    """How many days records are kept; 0 is for good.

    A meeting is kept for so many days after its end, a note for so many after it was ordered, or, without a
    number of its own, for as many as a meeting. A meeting stays until its recording and its notes are gone.
    """

    meeting_days: int = 0
    note_days: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether anything is removed."""
        return self.meeting_days > 0 or self.note_days > 0

    def meetings_ended_before(self, now: datetime) -> datetime | None:
        """The instant before which a meeting must have ended to be removed; `None` where none is."""
        return now - timedelta(days=self.meeting_days) if self.meeting_days else None

    def notes_made_before(self, now: datetime) -> datetime | None:
        """The instant before which a note must have been ordered to be removed; `None` where none is."""
        days = self.note_days or self.meeting_days
        return now - timedelta(days=days) if days else None
