"""Provider events: stored by one insert and acknowledged, then handled by a worker.

Receiving only guarantees that the event is stored. Handling applies it: a worker crash in between
leaves an event that is due again, and applying it twice changes nothing. Owns the way of an event through
the inbox. Verifying is the adapter's business; applying is that of `TrackMeeting` and
`CollectRecordingFiles`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from meetcore.domain.meetings.meetings import MeetingEvent
from meetcore.domain.meetings.provider_events import (
    MAX_TRIES,
    EventOutcome,
    ProviderEvent,
    ProviderEventKind,
    retry_delay,
)
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ClaimedEvent
from meetcore.ports.store import Store, StoreUnavailable
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.collect_recording_files import CollectRecordingFiles
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.track_meeting import TrackMeeting

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
        """Take an event in; false when it is a double.

        Args:
            digest: a 32-byte digest of the raw body.

        Raises:
            StoreUnavailable: the database does not answer; the provider is to try again.
        """
        async with self.store.at_once() as tx:
            is_new = await tx.inbox.add(self.runtime.new_id(self.runtime.now()), event, digest)
        if is_new:
            self.notifier.notify()
        return is_new


@frozen
class HandleProviderEvents:
    """Works on what is in the inbox, `in_flight` events at a time.

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
        """Work on one batch; whether there may be more.

        Raises:
            StoreUnavailable: the database does not answer; what was not done is due again later.
            ExceptionGroup: faults. What met one is due again when its lease runs out, and is dropped at its
                last try; the others of the batch are done.
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
