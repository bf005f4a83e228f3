"""Apply a provider's lifecycle events: started, ended. Duplicates and disorder are harmless."""

from datetime import datetime

from attrs import frozen

from meetcore.domain.meetings.meetings import MeetingEvent, MeetingStatus
from meetcore.domain.meetings.provider_events import EventOutcome
from meetcore.ports.store import Store
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.lifecycle_events import apply_lifecycle_event
from meetcore.usecases.runtime import Runtime


@frozen
class TrackMeeting:
    """Advances a meeting's status as its provider reports."""

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime

    async def __call__(
        self, provider: str, provider_meeting_id: str, happened: MeetingEvent, now: datetime
    ) -> EventOutcome:
        """Apply an event.

        Returns:
            APPLIED when the meeting moved, IGNORED when the event came too late, TOO_EARLY when the meeting
            does not exist yet or is being cancelled: the cancellation asks the provider for the meeting's
            state, but if the provider does not answer, the meeting is put back and the event is needed again.

        Raises:
            StoreUnavailable: the database does not answer; repeat the call.
        """
        async with self.store.begin() as tx:
            meeting = await tx.meetings.load_by_provider_id(provider, provider_meeting_id)
            if meeting is None or meeting.status is MeetingStatus.CANCELLING:
                return EventOutcome.TOO_EARLY
            moved = await apply_lifecycle_event(tx, self.runtime, meeting, happened, now)
        if moved is None:
            return EventOutcome.IGNORED
        if moved[1]:
            self.notifier.notify()
        return EventOutcome.APPLIED
