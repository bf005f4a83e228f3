"""Cancelling a meeting: whether it can be, and what the provider's answer does to it and to its money.

::

    REMOVED, GONE      -> CANCELLED, the charge refunded once    (rule 3/cancel-before)
    IN_PROGRESS, OVER  -> ENDED, nothing refunded                (rule 3/cancel-running)
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.meetings import (
    VISIBLE,
    Meeting,
    MeetingEnded,
    MeetingEvent,
    MeetingStatus,
    shown_status,
    transition,
)
from meetcore.domain.money import ledger
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.holds import CapUsage, refund_usage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.money.transfers import Transfer

__all__ = ["REFUNDED", "Conclusion", "ProviderMeetingState", "can_cancel", "conclude"]


class ProviderMeetingState(StrEnum):
    """What the provider says of a meeting when it is to be removed.

    OVER: it took place and has ended. GONE: there is none, whatever there was.
    """

    REMOVED = "removed"
    IN_PROGRESS = "in_progress"
    OVER = "over"
    GONE = "gone"


REFUNDED: Final = frozenset({ProviderMeetingState.REMOVED, ProviderMeetingState.GONE})
"""The provider's answers after which the charge is refunded: the meeting did not take place."""


@frozen
class Conclusion:
    """The end of a cancellation: the meeting, its refund if there is one, and what happened."""

    meeting: Meeting
    refund: tuple[Funds, CapUsage, Entry] | None = None
    facts: tuple[MeetingEnded, ...] = ()


def can_cancel(meeting: Meeting, now: datetime) -> bool:
    """Whether cancelling would return the credits (rule 3/cancel-before).

    Returns:
        True for a meeting that has not started; False for one that runs (it is ended, and nothing
        returned, rule 3/cancel-running) and for one that is cancelled already.

    Raises:
        NotFound: the meeting is not visible.
        Conflict: it has ended.
    """
    if meeting.status not in VISIBLE:
        raise NotFound("No meeting with this id.")
    status = shown_status(meeting, now)
    if status is MeetingStatus.ENDED:
        raise Conflict("The meeting has ended and cannot be cancelled.", meeting.id)
    return status is MeetingStatus.SCHEDULED


def conclude(
    meeting: Meeting, state: ProviderMeetingState, charge: Transfer | None, funds: Funds, usage: CapUsage,
    transfer_id: UUID, at: datetime, key: ChainKey | None = None,
) -> Conclusion:  # fmt: skip
    """Decide how a cancellation ends, once the provider has answered. See `ledger.refund` for its money.

    Args:
        meeting: in CANCELLING.
        charge: what the meeting was paid with.
        usage: of the key and day that the charge counted for.

    Raises:
        ValueError: the meeting is not being cancelled, or is to be refunded and has no charge.
    """
    if state not in REFUNDED:
        ended = evolve(meeting, status=transition(meeting.status, MeetingEvent.END), credits_refunded=0)
        return Conclusion(ended, facts=(MeetingEnded(ended),))
    status = transition(meeting.status, MeetingEvent.CANCELLED)
    if charge is None:
        raise ValueError("a meeting without a charge is not refunded")
    posting = ledger.refund(funds, charge, transfer_id, at, key=key)
    assert posting.entry is not None  # no refund is in the ledger yet: the meeting was being cancelled
    refunded = evolve(meeting, status=status, credits_refunded=charge.amount)
    return Conclusion(refunded, (posting.funds, refund_usage(usage, charge.amount), posting.entry))
