"""Meetings that are over: ended at the provider, their hosts freed, their recordings looked for.

A meeting is due at its end, and earlier where a session was held in its time and no other one has begun for a
while (`sessions.over_at`). Then its customer is notified. Its host is free for others once the provider has
said that nothing runs under its number; until then the provider is asked again and again, and whatever runs
is ended. A session that is reported of a meeting that is over makes it due again.

From then on its recording is looked for, because the provider's event may be lost.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from attrs import frozen

from meetcore.domain.meetings import meetings, sessions, views
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.ports import recording_files, video_provider
from meetcore.ports.runtime import CipherRefused, WorkerNotifier
from meetcore.ports.store import Store
from meetcore.usecases.meetings import bounded_provider
from meetcore.usecases.meetings.cancellation import Cleared, clear, end_meeting, save_cleared
from meetcore.usecases.notes.note_charges import ConcludeRecording
from meetcore.usecases.notes.recordings import SyncRecordingFiles
from meetcore.usecases.runtime import Runtime, gather_all

PROVIDER_GRACE: Final = timedelta(minutes=5)
"""How long after its end a meeting that may run is not reported as over, where the provider is silent."""

CLEAR_FOR: Final = timedelta(days=2)
"""How long after its end a meeting is tried to be ended: no provider lets one run for over 30 hours."""

CHECKS_AFTER_S: Final[tuple[int, ...]] = (5, 10, 30, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 24 * 3600)
"""Seconds from one look for a meeting's recording to the next; the first is at its end."""

UNANSWERED_CHECKS: Final = 7
"""How many looks more, a day apart, a recording gets while the provider does not answer."""

_MAX_CLEAR_AFTER_S: Final = 900.0


@frozen
class EndDueMeetings:
    """Ends the meetings that are over, and looks for their recordings, `at_once` of them at a time.

    `again_s` must exceed the provider's time limit: the work of a crashed worker is taken up after it.
    `empty_for` is as in `TrackMeeting`.
    """

    store: Store
    provider: video_provider.VideoProvider
    sync_recording_files: SyncRecordingFiles
    conclude_recording: ConcludeRecording
    notifier: WorkerNotifier
    runtime: Runtime
    again_s: float = 20.0
    at_once: int = 16
    empty_for: timedelta = sessions.DEFAULT_EMPTY_FOR

    async def sweep(self, limit: int = 1000) -> int:
        """Process every meeting that is due; return how many."""
        processed = 0
        for _ in range(0, limit, self.at_once):
            with video_provider.under_lease(video_provider.lease_time(self.runtime.clock, self.again_s)):
                async with self.store.begin() as tx:
                    found = await tx.meetings.claim_due(self.at_once, self.again_s)
                processed += len(await gather_all(self._see_to(due) for due in found))
            if len(found) < self.at_once:
                break
        return processed

    async def _see_to(self, due: views.DueMeeting) -> None:
        with suppress(video_provider.LeaseOver):  # then another process has it
            await self._advance(due)

    async def _advance(self, due: views.DueMeeting) -> None:
        meeting = due.meeting
        if meeting.status in (meetings.MeetingStatus.SCHEDULED, meetings.MeetingStatus.STARTED):
            if self.runtime.now() < meeting.end_at:
                await self._end_if_empty(meeting)
            else:
                await self._end(meeting)
        elif meeting.status in (meetings.MeetingStatus.ENDED, meetings.MeetingStatus.CANCELLED):
            if due.is_cleared:
                await self._look_for_recording(due)
            else:
                await self._clear(meeting)
        # One that is being cancelled comes again: it may be put back.

    async def _end(self, meeting: meetings.Meeting) -> None:
        cleared = await self._cleared(meeting)
        if cleared is None and self.runtime.now() < meeting.end_at + PROVIDER_GRACE:
            return
        await self._write_end(meeting, is_cleared=cleared is not None and cleared.is_clear)

    async def _end_if_empty(self, meeting: meetings.Meeting) -> None:
        """End a meeting before its end, unless a session began meanwhile; the provider is asked."""
        async with self.store.at_once() as tx:
            known = await tx.meetings.load_sessions(meeting.account_id, meeting.id)
        if sessions.over_at(meeting, known, self.empty_for) > self.runtime.now():
            return
        try:
            bounded_provider.require_own(self.provider, meeting)
            state = await self.provider.remove(meeting.provider_meeting_id or "")
        except video_provider.LeaseOver:
            raise
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown):
            return
        if state is ProviderMeetingState.IN_PROGRESS:
            await self._check_later(meeting)
        else:
            await self._write_end(meeting, is_cleared=True)

    async def _check_later(self, meeting: meetings.Meeting) -> None:
        """Look again at a meeting in which a session runs: at its end, or as was reported meanwhile."""
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, None)
            if view is None or view.meeting.status not in meetings.OPEN:
                return  # ended meanwhile: when it is due next is decided
            known, now = await tx.meetings.load_sessions(meeting.account_id, meeting.id), self.runtime.now()
            over_at = sessions.over_at(meeting, known, self.empty_for)
            wait_s = ((over_at if over_at > now else meeting.end_at) - now).total_seconds()
            await tx.meetings.schedule_next_check(meeting, max(wait_s, self.again_s), is_cleared=False)

    async def _write_end(self, meeting: meetings.Meeting, *, is_cleared: bool) -> None:
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, None)
            if view is None:
                return
            now = self.runtime.now()
            ended = await end_meeting(tx, self.runtime, view.meeting, now, is_cleared=is_cleared)
            if not is_cleared:
                await tx.meetings.keep_host(meeting, 2 * self.again_s)
        if ended is not None and ended[1]:
            self.notifier.notify()

    async def _clear(self, meeting: meetings.Meeting) -> None:
        """End what runs under a meeting that is over, and free its host; else its host stays reserved."""
        cleared = await self._cleared(meeting)
        over_s = (self.runtime.now() - meeting.end_at).total_seconds()
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, None)
            if view is None:
                return
            if (cleared is not None and cleared.is_clear) or over_s > CLEAR_FOR.total_seconds():
                await save_cleared(tx, self.runtime, view.meeting)
                return
            wait_s = min(max(self.again_s, over_s / 4), _MAX_CLEAR_AFTER_S)
            await tx.meetings.schedule_next_check(meeting, wait_s, is_cleared=False)
            await tx.meetings.keep_host(meeting, wait_s + self.again_s)

    async def _cleared(self, meeting: meetings.Meeting) -> Cleared | None:
        """Clear a meeting at the provider; `None` without an answer."""
        try:
            bounded_provider.require_own(self.provider, meeting)
            return await clear(self.provider, meeting.provider_meeting_id or "")
        except video_provider.LeaseOver:
            raise
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown):
            return None

    async def _look_for_recording(self, due: views.DueMeeting) -> None:
        """Look for the files of every session; after the last look without any, give the surcharge back.

        A recording that does not open is raised once the next look is scheduled.
        """
        meeting, recorded, waits = due.meeting, frozenset[str](), CHECKS_AFTER_S
        fault: CipherRefused | None = None
        try:
            recorded = await self.sync_recording_files.of_meeting(meeting)
        except recording_files.FilesUnavailable:  # there may be one: this look is not the last
            waits += CHECKS_AFTER_S[-1:] * UNANSWERED_CHECKS
        except CipherRefused as error:
            fault = error
        is_last, deliveries = due.recording_checks > len(waits), 0
        async with self.store.begin() as tx:
            held = await tx.meetings.load_sessions(meeting.account_id, meeting.id)
            try:
                deliveries = await self.conclude_recording(tx, meeting, is_last=is_last)
            except CipherRefused as error:  # it reads before it writes
                fault = error
            is_complete = bool(recorded) and recorded.issuperset(session.id for session in held)
            is_done = is_last or (is_complete and fault is None)
            again_s = None if is_done else waits[due.recording_checks - 1]
            await tx.meetings.schedule_next_check(meeting, again_s, is_cleared=True)
        if deliveries:
            self.notifier.notify()
        if fault is not None:
            raise fault
