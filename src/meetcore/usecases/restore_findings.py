"""What a survey after a restore finds, and what is to be done about it. Decides; changes nothing."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.memos import MeetingMemo
from meetcore.ports.restores import OpenMeeting
from meetcore.ports.video_provider import FoundMeeting, ListedMeeting
from meetcore.usecases.meeting_memos import UnopenedMemo

FEW_CANCELLED: Final = 5
CANCELLED_PERCENT: Final = 20
"""More than a few cancellations that are more than this part of the open meetings have to be confirmed."""


class Action(StrEnum):
    """What is to become of a finding, or became of it."""

    ADOPT = "adopt"
    REMOVE = "remove"
    CANCEL = "cancel"
    LEAVE = "leave"


@frozen
class LostMeeting:
    """A meeting at the provider with our reference that the store does not know.

    `known` is the store's meeting under that reference, where there is one: of another state, or with another
    meeting at the provider.
    """

    listed: ListedMeeting
    host: Host
    found: FoundMeeting
    meeting_id: UUID
    memo: MeetingMemo | UnopenedMemo | None
    known: Meeting | None = None

    @property
    def sold(self) -> MeetingMemo | None:
        """What was sold as it, where its memo opens."""
        return self.memo if isinstance(self.memo, MeetingMemo) else None

    @property
    def is_recorded(self) -> bool:
        """Whether it was recorded after the list was read."""
        return self.known is not None and self.known.provider_meeting_id == self.listed.provider_meeting_id


@frozen
class Finding:
    """A meeting on which store and provider do not agree, and what is to be done.

    `needs_operator` says whether something is to be done before the release of what is left.
    """

    subject: LostMeeting | OpenMeeting
    action: Action
    reason: str
    needs_operator: bool = False

    def left(self, reason: str) -> "Finding":
        """Return the finding as one that could not be resolved, for a reason that the operator can remove."""
        return evolve(self, action=Action.LEAVE, reason=reason, needs_operator=True)


@frozen
class Survey:
    """What was found; `lists` is False where the provider cannot list what it has.

    `open_meetings` is how many of the store can still take place at the provider.
    """

    findings: Sequence[Finding]
    lists: bool = True
    open_meetings: int = 0

    @property
    def cancelled(self) -> int:
        """How many meetings would be cancelled and refunded."""
        return sum(each.action is Action.CANCEL for each in self.findings)

    @property
    def cancels_many(self) -> bool:
        """Whether that is more than customers cancel: it may be the wrong account of the provider."""
        return (
            self.cancelled > FEW_CANCELLED and self.cancelled * 100 > self.open_meetings * CANCELLED_PERCENT
        )


def decide_lost(lost: LostMeeting, *, adopts: bool) -> Finding:
    """Decide on a meeting that the store does not know."""
    if lost.known is not None:
        if lost.known.status is MeetingStatus.PROVISIONING:
            return Finding(lost, Action.LEAVE, "its making was under way: workers end it after the release")
        return Finding(lost, Action.REMOVE, "the meeting with this reference is another one at the provider")
    if lost.memo is None:
        return Finding(lost, Action.REMOVE, "it has no memo: whose it is cannot be known")
    if isinstance(lost.memo, UnopenedMemo):
        return _decide_unopened(lost, lost.memo, adopts=adopts)
    if not adopts:
        return Finding(lost, Action.REMOVE, "asked for")
    return Finding(lost, Action.ADOPT, "sold in the lost time")


def _decide_unopened(lost: LostMeeting, memo: UnopenedMemo, *, adopts: bool) -> Finding:
    """Leave what was sold, to whomever: another key would open its memo."""
    if memo.key_id is not None:
        reason = f"its memo is under key {memo.key_id}: add it to MEETCORE_SECRETS_KEY"
        return Finding(lost, Action.LEAVE, reason, needs_operator=True)
    if not adopts:
        return Finding(lost, Action.REMOVE, "asked for")
    reason = (
        "its memo was changed and does not open: remove the meeting at the provider, or all with --remove"
    )
    return Finding(lost, Action.LEAVE, reason, needs_operator=True)


def decide_gone(gone: OpenMeeting, since: datetime, *, is_there: bool) -> Finding:
    """Decide on a meeting that is in no list of the provider.

    Args:
        gone: what the store has.
        since: a meeting that began later can have been cancelled after it, and refunded.
        is_there: whether the provider has it all the same.
    """
    if gone.meeting.status is MeetingStatus.CANCELLING:
        return Finding(gone, Action.LEAVE, "its cancellation was under way: workers end it after the release")
    if is_there:
        return Finding(gone, Action.LEAVE, "it is at the provider, on another host")
    if gone.meeting.status is not MeetingStatus.SCHEDULED or gone.meeting.start_at <= since:
        return Finding(
            gone,
            Action.LEAVE,
            "gone at the provider, but it had begun before: it ends, and nothing is refunded",
        )
    return Finding(gone, Action.CANCEL, "gone at the provider: cancelled in the lost time")
