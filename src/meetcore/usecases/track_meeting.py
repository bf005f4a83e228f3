"""What the provider tells of a meeting: it started, it ended. Doubles and disorder are harmless."""

from datetime import datetime

from attrs import evolve, frozen

from meetcore.domain.events import Event
from meetcore.domain.meetings import TRANSITIONS, MeetingEvent, MeetingStatus
from meetcore.ports.doorbell import Doorbell
from meetcore.ports.store import Store
from meetcore.usecases.cancellation import ended_event
from meetcore.usecases.world import World

__all__ = ["TrackMeeting"]


@frozen
class TrackMeeting:
    """Moves a meeting along its life as its provider reports."""

    store: Store
    doorbell: Doorbell
    world: World

    async def __call__(
        self, provider: str, provider_meeting_id: str, happened: MeetingEvent, now: datetime
    ) -> bool:
        """Take note of an event; false when the meeting is unknown or the event comes too late.

        Raises:
            StoreAway: the database does not answer; the provider is to try again.
        """
        async with self.store.begin() as tx:
            meeting = await tx.meetings.load_by_provider_id(provider, provider_meeting_id)
            if meeting is None or meeting.status is MeetingStatus.CANCELLING:
                return False  # whoever cancels asks the provider and learns what became of it
            status = TRANSITIONS.get((meeting.status, happened))
            if status is None:
                return False
            moved = evolve(meeting, status=status)
            events: list[Event] = []
            if status is MeetingStatus.ENDED:
                events.append(ended_event(self.world, moved, now))
            due = await tx.meetings.save_lifecycle(moved, events)
        if due:
            self.doorbell.ring()
        return True
