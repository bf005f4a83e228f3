"""Remove notes and meetings that are past their retention, where one is set."""

from attrs import frozen

from meetcore.domain.requests.retention import Retention
from meetcore.ports.retention import RetentionStore
from meetcore.usecases.runtime import Runtime


@frozen
class RemovePastRetention:
    """Removes the next portion of notes, then of meetings, which stay until their notes are gone."""

    store: RetentionStore
    retention: Retention
    runtime: Runtime

    async def __call__(self) -> None:
        """Remove one portion of each at most.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        now = self.runtime.now()
        if (made_before := self.retention.notes_made_before(now)) is not None:
            await self.store.remove_notes(made_before)
        if (ended_before := self.retention.meetings_ended_before(now)) is not None:
            await self.store.remove_meetings(ended_before)
