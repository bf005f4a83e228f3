"""Lifecycle steps of a meeting without money: it started, it ended.

Triggered by the provider's event, the customer or the clock. Owns the event of
a meeting that ended; does not call the provider.
"""

from datetime import datetime

from attrs import evolve

from meetcore.domain.meetings.meetings import (
    TRANSITIONS,
    Meeting,
    MeetingEvent,
    MeetingStatus,
    can_have_shown_host_key,
)
from meetcore.domain.records.meetings import meeting_event_record
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.ports.store import Transaction
from meetcore.usecases.runtime import Runtime

__all__ = ["apply_lifecycle_event", "ended_event"]


def ended_event(runtime: Runtime, meeting: Meeting, at: datetime) -> Event:
    """`meeting.ended` with the meeting as events carry it."""
    record = meeting_event_record(meeting, at)
    return Event(runtime.new_id(at), meeting.account_id, EventKind.MEETING_ENDED, at, record)


async def apply_lifecycle_event(
    tx: Transaction, runtime: Runtime, meeting: Meeting, happened: MeetingEvent, at: datetime
) -> tuple[Meeting, int] | None:
    """Write what happened to a meeting that was read under its account's lock.

    A meeting that is being cancelled is unchanged: the cancellation queries the provider.

    Returns:
        The meeting after it, and how many deliveries are due now; `None` when the table has no such step.
    """
    status = TRANSITIONS.get((meeting.status, happened))
    if meeting.status is MeetingStatus.CANCELLING or status is None:
        return None
    moved = evolve(meeting, status=status)
    events = [ended_event(runtime, moved, at)] if status is MeetingStatus.ENDED else []
    # Not by `at`: during the provider call the key may have become due to be shown.
    invalidates_host_key = can_have_shown_host_key(moved, runtime.now())
    due = await tx.meetings.save_lifecycle(moved, events, invalidates_host_key=invalidates_host_key)
    return moved, due
