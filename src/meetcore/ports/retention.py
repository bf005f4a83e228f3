"""Remove meetings and notes that are past their retention, a portion at a time.

Removal goes through all records in the order of their ids, round after round. How far it is stands in the
store, and one process at a time takes the next portion: it may end at any instant, and another goes on. No
account's lock is taken, as no decision changes any more what is removed; what is locked is passed over.
"""

from datetime import datetime, timedelta
from typing import Final, Protocol

from attrs import frozen

__all__ = ["PORTION", "ROUND_EVERY", "Removal", "RetentionStore"]

PORTION: Final = 200
"""Records that one portion looks at."""

ROUND_EVERY: Final = timedelta(hours=1)
"""From the end of a round to the begin of the next one."""


@frozen
class Removal:
    """What came of a portion: how many records were removed, and whether the round is over."""

    removed: int
    is_over: bool


class RetentionStore(Protocol):
    """Removes what is past its retention, and keeps the ids of what a customer could see."""

    async def remove_notes(self, made_before: datetime, portion: int = PORTION) -> Removal | None:
        """Remove notes made before an instant, of the next so many; those in progress stay.

        Returns:
            None where another process has its turn, or no round is due.
        """

    async def remove_meetings(self, ended_before: datetime, portion: int = PORTION) -> Removal | None:
        """Remove meetings that ended before an instant, of the next so many, each with its recording.

        A meeting stays while anything of it is unfinished: a lease, a check for orphans or for its recording,
        a hold, a host, a recording that is not expired or whose files the provider still has, a note.

        Returns:
            None where another process has its turn, or no round is due.
        """
