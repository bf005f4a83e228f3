"""Provider events: stored by one insert and acknowledged, then applied by a worker.

Receiving only guarantees that the event is stored. A worker that crashes while it applies one leaves it due
again; applying an event twice changes nothing. The adapter has verified the event.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from meetcore.domain.meetings import sessions
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
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
from meetcore.usecases.meetings.cancellation import end_meeting
from meetcore.usecases.notes.recordings import CollectRecordingFiles
from meetcore.usecases.runtime import Runtime, gather_all, ignore


async def record_session(
    tx: Transaction, meeting: Meeting, reported: sessions.Session, empty_for: timedelta
) -> bool:
    """Record what is reported of a session of a meeting, under its account's lock; false for nothing new.

    The status of a meeting that is not over follows. A session that runs under one that is over is ended by
    `EndDueMeetings`; one of a meeting that is being cancelled is recorded only.
    """
    known = await tx.meetings.load_sessions(meeting.account_id, meeting.id)
    recorded = sessions.record(known, reported)
    if recorded == known:
        is_left_out = all(one.id != reported.id for one in known)  # as there are `MAX_SESSIONS`
        is_to_end = is_left_out and sessions.needs_clearing(meeting, [reported])
        if is_to_end:
            await tx.meetings.save_uncleared(meeting)
        return is_to_end
    await tx.meetings.save_session(meeting, next(one for one in recorded if one.id == reported.id))
    if meeting.status in _NOT_OVER:
        due_at = sessions.over_at(meeting, recorded, empty_for)
        await tx.meetings.save_progress(sessions.follow(meeting, recorded), due_at)
    elif sessions.needs_clearing(meeting, recorded):
        await tx.meetings.save_uncleared(meeting)
    return True


_NOT_OVER: Final = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.STARTED})


@frozen
class TrackMeeting:
    """Records the sessions of meetings as their provider reports them, and ends what it closed.

    `empty_for` is how long after its last session a meeting waits for another one.
    """

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime
    empty_for: timedelta = sessions.DEFAULT_EMPTY_FOR

    async def __call__(self, event: ProviderEvent, now: datetime) -> EventOutcome:
        """Apply an event: APPLIED when it reports something new, else IGNORED.

        TOO_EARLY when the meeting does not exist yet, or is closed while it is being cancelled: the
        cancellation asks the provider, and if that does not answer, the event is needed again.
        """
        async with self.store.begin() as tx:
            meeting = await tx.meetings.load_by_provider_id(event.provider, event.provider_meeting_id)
            if meeting is None:
                return EventOutcome.TOO_EARLY
            is_new, due = False, 0
            if event.session is not None:
                is_new = await record_session(tx, meeting, event.session, self.empty_for)
            if event.kind is ProviderEventKind.MEETING_CLOSED:
                if meeting.status is MeetingStatus.CANCELLING:
                    return EventOutcome.TOO_EARLY
                ended = await end_meeting(tx, self.runtime, meeting, now, is_cleared=True)
                is_new, due = is_new or ended is not None, 0 if ended is None else ended[1]
        if due:
            self.notifier.notify()
        return EventOutcome.APPLIED if is_new else EventOutcome.IGNORED


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
    on_handled: Callable[[ClaimedEvent, EventOutcome], None] = ignore
    on_expired_lease: Callable[[ClaimedEvent], object] = ignore
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
        now = self.runtime.now()
        if event.kind is ProviderEventKind.RECORDING_READY:
            return await self.record(event.provider, event.provider_meeting_id, event.files, now)
        return await self.track(event, now)

    async def _end(self, claimed: ClaimedEvent, outcome: EventOutcome) -> None:
        wait = retry_delay(claimed.tries) if outcome is EventOutcome.TOO_EARLY else None
        async with self.store.at_once() as tx:
            if wait is None:
                await tx.inbox.done(claimed.id, claimed.token)
            else:
                await tx.inbox.postpone(claimed.id, claimed.token, wait.total_seconds())
