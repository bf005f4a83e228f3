"""Work on recordings at the provider: measure the media of new ones, remove that of old
ones.

A recording is shown, and its notes are queued, once all of its media is measured: a file at a time goes
through a nameless file on disk. A file that cannot be read counts as no media at all; one that the provider
does not hand over now, or the machine has no room for, is tried again, later and later, for as long as the
recording is kept. Doing any of it twice changes nothing, so the lease is there only to spare the work.
"""

from collections.abc import Callable, Mapping
from contextlib import closing

from attrs import frozen

from meetcore.domain.notes.recordings import (
    Recording,
    RecordingFile,
    RecordingStatus,
    became_ready,
    measure,
    removed,
    segments,
)
from meetcore.ports.audio_editor import AudioEditor, EditingFailed, MediaUnreadable
from meetcore.ports.lease import Lease
from meetcore.ports.recording_files import FileGone, FilesUnavailable, RecordingFiles
from meetcore.ports.recordings import RecordingTask
from meetcore.ports.store import Store, StoreUnavailable, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.create_note import NoteQueue
from meetcore.usecases.lease import LeaseLost, with_heartbeat
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sync_recording_files import require_own
from meetcore.usecases.transcribe_recording import copy_file

_FIRST_WAIT_S = 2.0
_LONGEST_WAIT_S = 3600.0
_TRIES_BEFORE_GONE = 5


@frozen
class WorkOnRecordings:
    """Works on recordings that are due, `at_once` of them at a time.

    `notifier` wakes those who send webhooks, `notes_notifier` those who write notes. `lease_s` is how long a
    dead worker's recording waits; it is renewed three times in it. `report` is called with failures,
    and `on_expired_lease` with a recording that is claimed because its lease expired.
    """

    store: Store
    files: RecordingFiles
    editor: AudioEditor
    queue: NoteQueue
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    runtime: Runtime
    at_once: int = 4
    lease_s: float = 30.0
    report: Callable[[RecordingTask, Exception], None] = lambda task, fault: None
    on_expired_lease: Callable[[RecordingTask], object] = lambda task: None

    async def __call__(self) -> bool:
        """Work on what is due; whether there may be more.

        Raises:
            ExceptionGroup: internal faults. What met one is due again later, as what the provider kept back.
        """
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.at_once() as tx:
            tasks = await tx.recordings.claim(self.at_once, lease)
        for task in tasks:
            if task.had_expired_lease:
                self.on_expired_lease(task)
        await gather_all(self._work(task) for task in tasks)
        return len(tasks) == self.at_once

    async def _work(self, task: RecordingTask) -> None:
        async def renew() -> bool:
            async with self.store.at_once() as tx:
                return await tx.recordings.renew(task, self.lease_s)

        is_over = task.recording.status is RecordingStatus.EXPIRED
        work = self._remove(task.recording) if is_over else self._measure(task)
        try:
            await with_heartbeat(work, renew, self.lease_s / 3)
        except LeaseLost:
            return
        except StoreUnavailable:
            raise
        except Exception as fault:
            wait_s = min(_FIRST_WAIT_S * 2 ** min(task.tries - 1, 16), _LONGEST_WAIT_S)
            await self._give_back(task, wait_s)
            self.report(task, fault)
            if not isinstance(fault, (FilesUnavailable, EditingFailed)):
                raise
            return
        # What came meanwhile is due at once; where nothing is left to do, the lease is gone.
        await self._give_back(task, 0.0)

    async def _give_back(self, task: RecordingTask, wait_s: float) -> None:
        async with self.store.at_once() as tx:
            await tx.recordings.postpone(task, wait_s)

    async def _remove(self, recording: Recording) -> None:
        require_own(self.files, recording.provider)
        # An event may have been lost: what the provider has counts, and what is known here and not listed.
        listed = await self.files.find(recording.provider_meeting_id)
        files = {file.provider_file_id: file for file in (*recording.files, *listed)}
        for file in files.values():
            await self.files.remove(recording.provider_meeting_id, file)
        async with self.store.begin() as tx:
            await tx.lock_account(recording.account_id)
            latest = await tx.recordings.load(recording.account_id, recording.meeting_id)
            if latest is not None:
                await tx.recordings.save(removed(latest, files))

    async def _measure(self, task: RecordingTask) -> None:
        recording = task.recording
        require_own(self.files, recording.provider)
        for file in [one.sound for one in segments(recording) if one.media_s is None]:
            length_s = await self._length(recording, file, task.tries)
            async with self.store.begin() as tx:
                lengths_s = {(file.provider_file_id, file.size_bytes): length_s}
                due, is_new = await self._keep(tx, recording, lengths_s)
            if due:
                self.notifier.notify()
            if is_new:
                self.notes_notifier.notify()

    async def _length(self, recording: Recording, file: RecordingFile, tries: int) -> float:
        listed: RecordingFile | None = file
        if tries > 1:  # an event's address may have aged
            found = await self.files.find(recording.provider_meeting_id)
            listed = next((one for one in found if one.provider_file_id == file.provider_file_id), None)
        if listed is None and tries >= _TRIES_BEFORE_GONE:
            return 0.0
        if listed is None:  # a provider may be moving it still
            raise FilesUnavailable("the provider lists a file no more")
        with closing(self.editor.scratch()) as media:
            try:
                await copy_file(self.files, listed, media)
                return await self.editor.measure(media)
            except MediaUnreadable:
                return 0.0
            except FileGone as error:
                raise FilesUnavailable("the provider says that a file is gone") from error

    async def _keep(
        self, tx: Transaction, recording: Recording, lengths_s: Mapping[tuple[str, int], float]
    ) -> tuple[int, bool]:
        """Write what was measured: how many deliveries are due, and whether the recording is shown now."""
        account_id, meeting_id, now = recording.account_id, recording.meeting_id, self.runtime.now()
        view = await tx.meetings.load_locked(account_id, meeting_id, None)
        latest = await tx.recordings.load(account_id, meeting_id)
        if view is None or latest is None:
            return 0, False
        measured = measure(latest, lengths_s)
        is_new = latest.status is not measured.status
        if not is_new:
            return await tx.recordings.save(measured), False
        facts = became_ready(latest, measured, now)
        due = await tx.recordings.save(measured, events_of(self.runtime, now, *facts))
        if view.meeting.options.auto_notulen:
            due += await self.queue.add_for_meeting(tx, view.meeting, measured, now)
        return due, True
