"""What the provider tells of a meeting: it started, it ended. Doubles and disorder are harmless."""

from datetime import datetime

from attrs import frozen

from meetcore.domain.meetings import MeetingEvent
from meetcore.ports.doorbell import Doorbell
from meetcore.ports.store import Store
from meetcore.usecases.advance import advance
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
            moved = None if meeting is None else await advance(tx, self.world, meeting, happened, now)
        if moved is None:
            return False
        if moved[1]:
            self.doorbell.ring()
        return True
