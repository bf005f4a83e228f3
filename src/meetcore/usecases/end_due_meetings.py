"""Time-driven work on meetings: end them at their `end_at`, then look for their recordings.

A host is free for others after that instant, so the provider ends the meeting first, and the customer
is notified then. A meeting's recording is looked for from its end on, because the provider's event may
be lost.
"""

from datetime import timedelta
from typing import Final

from attrs import frozen

from meetcore.domain.meetings.meetings import MeetingEvent, MeetingStatus
from meetcore.ports.meetings import DueMeeting
from meetcore.ports.recording_files import FilesUnavailable
from meetcore.ports.store import Store
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, VideoProvider
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.bounded_provider import require_own
from meetcore.usecases.cancellation import clear
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.lifecycle_events import apply_lifecycle_event
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sync_recording_files import SyncRecordingFiles

PROVIDER_GRACE: Final = timedelta(minutes=5)
"""How long after its end a meeting waits for a provider that does not answer."""


CHECKS_AFTER_S: Final = (5, 10, 30, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 24 * 3600)
"""Seconds from one look for a meeting's recording to the next; the first is at its end."""


@frozen
class EndDueMeetings:
    """Ends the meetings whose time is over, and looks for their recordings, `at_once` of them at a time.

    `again_s` must exceed the provider's time limit: the work of a crashed worker is taken up after it.
    """

    store: Store
    provider: VideoProvider
    sync_recording_files: SyncRecordingFiles
    notifier: WorkerNotifier
    runtime: Runtime
    again_s: float = 20.0
    at_once: int = 16

    async def sweep(self, limit: int = 1000) -> int:
        """Process every meeting that is due; returns how many.

        Raises:
            ExceptionGroup: the failures of single ones; the others were processed.
        """
        processed = 0
        for _ in range(0, limit, self.at_once):
            async with self.store.begin() as tx:
                found = await tx.meetings.claim_due(self.at_once, self.again_s)
            processed += len(await gather_all(self._see_to(due) for due in found))
            if len(found) < self.at_once:
                break
        return processed

    async def _see_to(self, due: DueMeeting) -> None:
        if due.meeting.status in (MeetingStatus.SCHEDULED, MeetingStatus.STARTED):
            await self._end(due)
        elif due.meeting.status is MeetingStatus.ENDED:
            await self._look_for_recording(due)
        else:
            await self._look_for_orphans(due)

    async def _end(self, due: DueMeeting) -> None:
        meeting = due.meeting
        try:
            require_own(self.provider, meeting)
            await clear(self.provider, meeting.provider_meeting_id or "")
        except (ProviderRefused, ProviderUnknown):
            if self.runtime.now() < meeting.end_at + PROVIDER_GRACE:
                return
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, None)
            if view is None:
                return
            moved = await apply_lifecycle_event(
                tx, self.runtime, view.meeting, MeetingEvent.END, self.runtime.now()
            )
        if moved is not None and moved[1]:
            self.notifier.notify()

    async def _look_for_recording(self, due: DueMeeting) -> None:
        meeting, again_s = due.meeting, None
        try:
            is_found = await self.sync_recording_files.of_meeting(
                meeting.provider, meeting.provider_meeting_id or ""
            )
        except FilesUnavailable:
            is_found = False
        if not is_found and due.recording_checks <= len(CHECKS_AFTER_S):
            again_s = CHECKS_AFTER_S[due.recording_checks - 1]
        async with self.store.begin() as tx:
            await tx.meetings.schedule_next_check(meeting, again_s)

    async def _look_for_orphans(self, due: DueMeeting) -> None:
        # A process of an earlier release gave it up, while this one was being rolled out.
        async with self.store.begin() as tx:
            await tx.orphan_checks.open(due.meeting.account_id, due.meeting.id)
            await tx.meetings.schedule_next_check(due.meeting)
