"""One step of a meeting's life that no money hangs on: it started, it ended.

For whoever learns of it first: the provider's event, the customer who ends it, the clock. Owns the event of
a meeting that ended; refuses to ask the provider.
"""

from datetime import datetime

from attrs import evolve

from meetcore.domain.events import Event, EventKind
from meetcore.domain.meetings import (
    TRANSITIONS,
    Meeting,
    MeetingEvent,
    MeetingStatus,
    can_have_shown_host_key,
)
from meetcore.domain.records import meeting_event_record
from meetcore.ports.store import Transaction
from meetcore.usecases.world import World

__all__ = ["advance", "ended_event"]


def ended_event(world: World, meeting: Meeting, at: datetime) -> Event:
    """`meeting.ended` with the meeting as events carry it."""
    record = meeting_event_record(meeting, at)
    return Event(world.new_id(at), meeting.account_id, EventKind.MEETING_ENDED, at, record)


async def advance(
    tx: Transaction, world: World, meeting: Meeting, happened: MeetingEvent, at: datetime
) -> tuple[Meeting, int] | None:
    """Write what happened to a meeting that was read under its account's lock.

    A meeting that is being cancelled stays as it is: whoever cancels asks the provider.

    Returns:
        The meeting after it, and how many deliveries are due now; none when the table has no such step.
    """
    status = TRANSITIONS.get((meeting.status, happened))
    if meeting.status is MeetingStatus.CANCELLING or status is None:
        return None
    moved = evolve(meeting, status=status)
    events = [ended_event(world, moved, at)] if status is MeetingStatus.ENDED else []
    # Not by `at`: while the provider was asked, the key may have become the meeting's to show.
    spoils_host_key = can_have_shown_host_key(moved, world.now())
    due = await tx.meetings.save_lifecycle(moved, events, spoils_host_key=spoils_host_key)
    return moved, due
