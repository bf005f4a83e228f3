"""Lifecycle steps of a meeting without money: it started, it ended.

Triggered by the provider's event, the customer or the clock; the provider is not called.
"""

from datetime import datetime

from meetcore.domain.meetings.meetings import Meeting, MeetingEvent, can_have_shown_host_key, move
from meetcore.ports.store import Transaction
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime


async def apply_lifecycle_event(
    tx: Transaction, runtime: Runtime, meeting: Meeting, happened: MeetingEvent, at: datetime
) -> tuple[Meeting, int] | None:
    """Write what happened to a meeting that was read under its account's lock.

    A meeting that is being cancelled is unchanged: the cancellation queries the provider.

    Returns:
        The meeting after it, and how many deliveries are due now; `None` when the table has no such step.
    """
    decided = move(meeting, happened)
    if decided is None:
        return None
    moved, facts = decided
    # Not by `at`: during the provider call the key may have become due to be shown.
    invalidates_host_key = can_have_shown_host_key(moved, runtime.now())
    due = await tx.meetings.save_lifecycle(
        moved, events_of(runtime, at, *facts), invalidates_host_key=invalidates_host_key
    )
    return moved, due
