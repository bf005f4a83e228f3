"""Provider events: stored by one insert and acknowledged, then applied by a worker.

Receiving only guarantees that the event is stored. A worker that crashes while it applies one leaves it due
again; applying an event twice changes nothing. The adapter has verified the event.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from attrs import frozen

from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingEvent,
    MeetingStatus,
    can_have_shown_host_key,
    move,
)
from meetcore.domain.meetings.provider_events import (
    MAX_TRIES,
    EventOutcome,
    ProviderEvent,
    ProviderEventKind,
    retry_delay,
)
from meetcore.domain.meetings.views import ClaimedEvent
from meetcore.ports.runtime import Lease, WorkerNotifier
from meetcore.ports.store import Store, StoreUnavailable, Transaction
from meetcore.usecases.notes.recordings import CollectRecordingFiles
from meetcore.usecases.runtime import Runtime, gather_all
from meetcore.usecases.webhooks.events import events_of


async def apply_lifecycle_event(
    tx: Transaction, runtime: Runtime, meeting: Meeting, happened: MeetingEvent, at: datetime
) -> tuple[Meeting, int] | None:
    """Apply an event to a meeting that was read under its account's lock.

    Returns the meeting after it, and how many deliveries are due now; `None` when the table has no such step.
    A meeting that is being cancelled is unchanged: the cancellation queries the provider.
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


@frozen
class TrackMeeting:
    """Advances a meeting's status as its provider reports."""

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime

    async def __call__(
        self, provider: str, provider_meeting_id: str, happened: MeetingEvent, now: datetime
    ) -> EventOutcome:
        """Apply an event: APPLIED when the meeting moved, IGNORED when the event came too late.

        TOO_EARLY when the meeting does not exist yet or is being cancelled: the cancellation asks the
        provider for the meeting's state, but if that does not answer, the meeting is put back and the event
        needed again.
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


_LIFECYCLE: Final[Mapping[ProviderEventKind, MeetingEvent]] = {
    ProviderEventKind.MEETING_STARTED: MeetingEvent.START,
    ProviderEventKind.MEETING_ENDED: MeetingEvent.END,
}


@frozen
class ReceiveProviderEvent:
    """Puts a verified event into the inbox."""

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime

    async def __call__(self, event: ProviderEvent, digest: bytes) -> bool:
        """Take an event in, by the 32-byte digest of its raw body; false when it is a double."""
        async with self.store.at_once() as tx:
            is_new = await tx.inbox.add(self.runtime.new_id(self.runtime.now()), event, digest)
        if is_new:
            self.notifier.notify()
        return is_new


@frozen
class HandleProviderEvents:
    """Applies the events of the inbox, `in_flight` at a time.

    `lease_s` must exceed the time that a batch takes. An event that comes too early is tried again, as
    `retry_delay` says. `on_handled` is called with each event that was worked on and its outcome,
    `on_expired_lease` with one that is claimed because its lease expired.
    """

    store: Store
    track: TrackMeeting
    record: CollectRecordingFiles
    runtime: Runtime
    on_handled: Callable[[ClaimedEvent, EventOutcome], None] = lambda claimed, outcome: None
    on_expired_lease: Callable[[ClaimedEvent], object] = lambda claimed: None
    batch: int = 50
    in_flight: int = 4
    lease_s: float = 60.0

    async def __call__(self) -> bool:
        """Work on one batch; whether there may be more. Unapplied events are due again later.

        Raises `ExceptionGroup`: faults. What met one is due again when its lease runs out, and is dropped at
        its last try; the others of the batch are done.
        """
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.at_once() as tx:
            claimed = await tx.inbox.claim(self.batch, lease)
        for one in claimed:
            if one.had_expired_lease:
                self.on_expired_lease(one)
        room = asyncio.Semaphore(self.in_flight)

        async def handle(one: ClaimedEvent) -> None:
            async with room:
                await self._handle(one)

        await gather_all(handle(one) for one in claimed)
        return len(claimed) == self.batch

    async def _handle(self, claimed: ClaimedEvent) -> None:
        try:
            outcome = await self._apply(claimed.event)
        except StoreUnavailable:
            raise
        except Exception as fault:
            fault.add_note(
                f"event {claimed.id} of {claimed.event.provider}, try {claimed.tries} of {MAX_TRIES}, "
                f"meeting {claimed.event.provider_meeting_id}"
            )
            if claimed.tries >= MAX_TRIES:
                await self._end(claimed, EventOutcome.IGNORED)
            raise
        await self._end(claimed, outcome)
        self.on_handled(claimed, outcome)

    async def _apply(self, event: ProviderEvent) -> EventOutcome:
        name, now = (event.provider, event.provider_meeting_id), self.runtime.now()
        if event.kind is ProviderEventKind.RECORDING_READY:
            return await self.record(*name, event.files, now)
        return await self.track(*name, _LIFECYCLE[event.kind], now)

    async def _end(self, claimed: ClaimedEvent, outcome: EventOutcome) -> None:
        wait = retry_delay(claimed.tries) if outcome is EventOutcome.TOO_EARLY else None
        async with self.store.at_once() as tx:
            if wait is None:
                await tx.inbox.done(claimed.id, claimed.token)
            else:
                await tx.inbox.postpone(claimed.id, claimed.token, wait.total_seconds())
