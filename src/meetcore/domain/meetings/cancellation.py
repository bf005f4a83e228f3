"""Cancelling a meeting: whether it can be, and the effect of the provider's answer on it and on its money.

::

    REMOVED, GONE      -> CANCELLED, the charge refunded once    (rule 3/cancel-before)
    IN_PROGRESS, OVER  -> ENDED, nothing refunded                (rule 3/cancel-running)

A session that was over before the start is no meeting: OVER is refunded then, too. Where the provider answers
so late that a session was held in the meeting's time, nothing is refunded whatever it answers.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.machine import step
from meetcore.domain.meetings import meetings
from meetcore.domain.money import hash_chain, holds, transfers
from meetcore.domain.money.ledger import Entry, Funds


class ProviderMeetingState(StrEnum):
    """The provider's answer to a removal. OVER: it was held and is closed. GONE: there is none."""

    REMOVED = "removed"
    IN_PROGRESS = "in_progress"
    OVER = "over"
    GONE = "gone"


REFUNDED: Final = frozenset({ProviderMeetingState.REMOVED, ProviderMeetingState.GONE})
"""The provider's answers after which the charge is refunded: the meeting did not take place."""


@frozen
class Conclusion:
    """The end of a cancellation: the meeting, its refund if any, and the facts."""

    meeting: meetings.Meeting
    refund: tuple[Funds, holds.CapUsage, Entry] | None = None
    facts: tuple[meetings.MeetingEnded, ...] = ()


def is_refundable(meeting: meetings.Meeting, now: datetime) -> bool:
    """Return whether cancelling returns the credits (rule 3/cancel-before): before the start of the meeting.

    A running meeting is ended without a refund (rule 3/cancel-running); one that was cancelled stays as it
    is.

    Raises:
        NotFound: the meeting is not visible.
        Conflict: it has ended.
    """
    if meeting.status not in meetings.VISIBLE:
        raise NotFound("No meeting with this id.")
    status = meetings.shown_status(meeting, now)
    if status is meetings.MeetingStatus.ENDED:
        raise Conflict("The meeting has ended and cannot be cancelled.", meeting.id)
    return status is meetings.MeetingStatus.SCHEDULED


def conclude(
    meeting: meetings.Meeting, state: ProviderMeetingState, charge: transfers.Transfer | None, funds: Funds,
    usage: holds.CapUsage, transfer_id: UUID, at: datetime, key: hash_chain.ChainKey | None = None, *,
    was_held: bool = False,
) -> Conclusion:  # fmt: skip
    """End a cancellation by the provider's answer; `usage` is of the charge's key and day (`holds.refund`).

    `was_held`: a session was held in the meeting's time (`sessions.was_held`).

    Raises:
        IllegalStep: the meeting is not being cancelled.
        ValueError: it is to be refunded and has no charge.
    """
    is_over_early = state is ProviderMeetingState.OVER and at < meeting.start_at
    if was_held or not (is_over_early or state in REFUNDED):
        ended = evolve(
            meeting,
            status=step(meetings.TRANSITIONS, meeting.status, meetings.MeetingEvent.END),
            credits_refunded=0,
        )
        return Conclusion(ended, facts=(meetings.MeetingEnded(ended),))
    status = step(meetings.TRANSITIONS, meeting.status, meetings.MeetingEvent.CANCELLED)
    if charge is None:
        raise ValueError("a meeting without a charge is not refunded")
    given_back = holds.refund(funds, usage, charge, transfer_id, at, key=key)
    posting = given_back.posting
    assert posting.entry is not None  # no refund is in the ledger yet: the meeting was being cancelled
    refunded = evolve(meeting, status=status, credits_refunded=charge.amount)
    return Conclusion(refunded, (posting.funds, given_back.usage, posting.entry))


def give_back_recording(
    meeting: meetings.Meeting, charge: transfers.Transfer, funds: Funds, usage: holds.CapUsage,
    transfer_id: UUID, at: datetime, key: hash_chain.ChainKey | None = None,
) -> Conclusion:  # fmt: skip
    """Give back what a meeting paid for a recording that never came, once; the meeting stays ENDED.

    Nothing is given back where the recording cost nothing, or credits were given back before.
    """
    if not meeting.recording_credits or meeting.credits_refunded:
        return Conclusion(meeting)
    given_back = holds.refund(
        funds, usage, charge, transfer_id, at, key=key, amount=meeting.recording_credits
    )
    posting = given_back.posting
    assert posting.entry is not None  # no refund of an ended meeting is in the ledger
    refunded = evolve(meeting, credits_refunded=meeting.recording_credits)
    return Conclusion(refunded, (posting.funds, given_back.usage, posting.entry))
