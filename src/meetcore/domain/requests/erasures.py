"""Erasure of an account: when it may begin, and what stands in place of what is erased.

What is erased is who it was and what was said. The ledger stays, with the ids that it names, so that it can
be proved after an erasure as before.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import Unprocessable

__all__ = ["ERASED", "Erasure", "check_erasable", "erased_email", "retry_delay"]

ERASED: Final = "Erased"
"""Stands in place of a name or a title."""
MIN_RETRY_DELAY: Final = timedelta(minutes=5)
MAX_RETRY_DELAY: Final = timedelta(hours=2)


@frozen
class Erasure:
    """An account under its lock, for its erasure.

    `open_meetings` are those that are to take place or do; `holds` are credits reserved for meetings that are
    being made and notes that are being written.
    """

    account_id: UUID
    open_meetings: int
    holds: int
    requested_at: datetime | None = None
    finished_at: datetime | None = None


def check_erasable(erasure: Erasure) -> None:
    """Check that nothing of the account is under way.

    Raises:
        Unprocessable: meetings are still to take place, or notes are being written.
    """
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


def retry_delay(waited: timedelta) -> timedelta:
    """How long until an erasure requested so long ago is tried again: a quarter of that, within limits."""
    return min(max(waited / 4, MIN_RETRY_DELAY), MAX_RETRY_DELAY)


def erased_email(id: UUID) -> str:
    """An address that stands in place of an account's or a user's, and that no mail reaches (RFC 2606)."""
    return f"erased-{id}@erased.invalid"
