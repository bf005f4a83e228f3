"""Collect the files that a provider reports for a recording. Duplicates and disorder are harmless."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import frozen

from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.provider_events import EventOutcome
from meetcore.domain.notes.recordings import (
    RETENTION,
    RecordingFile,
    can_be_recorded,
    gather_files,
    open_recording,
    readdress,
)
from meetcore.ports.store import Store
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.runtime import Runtime


@frozen
class CollectRecordingFiles:
    """Gathers a meeting's files in its one recording, which is measured next. `notifier` wakes those workers.

    `retention` is how long a recording is kept.
    """

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime
    retention: timedelta = RETENTION

    async def __call__(
        self,
        provider: str,
        provider_meeting_id: str,
        files: Sequence[RecordingFile],
        now: datetime,
        *,
        is_query_result: bool = False,
    ) -> EventOutcome:
        """Add files to the meeting's recording.

        Args:
            is_query_result: whether the provider was asked for them: then their addresses are current.

        Returns:
            APPLIED when the recording is new or has more files now, IGNORED when nothing is new or the
            meeting was not sold with a recording or its account was erased, TOO_EARLY when the meeting does
            not exist yet or is being cancelled.

        Raises:
            StoreUnavailable: the database does not answer; repeat the call.
        """
        async with self.store.begin() as tx:
            meeting = await tx.meetings.load_by_provider_id(provider, provider_meeting_id)
            if meeting is None or meeting.status is MeetingStatus.CANCELLING:
                return EventOutcome.TOO_EARLY
            if not can_be_recorded(meeting) or await tx.erasures.is_requested(meeting.account_id):
                return EventOutcome.IGNORED
            known = await tx.recordings.load(meeting.account_id, meeting.id)
            if known is None:
                recording = open_recording(self.runtime.new_id(now), meeting, files, now, self.retention)
            else:
                recording = gather_files(known, files)
                recording = readdress(recording, files) if is_query_result else recording
            if recording is None or recording == known:
                return EventOutcome.IGNORED
            await tx.recordings.save(recording)
        self.notifier.notify()
        return EventOutcome.APPLIED
