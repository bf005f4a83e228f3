"""Recordings: collect their files from the provider, measure them, expire them.

A recording is shown, and its notes are queued, once all of its media is measured, file by file through an
unlinked file on disk. An unreadable file counts as no media, and another of its stretch is measured instead;
so does, reported, one that no session of its meeting lists several times in a row. A file that the provider
does not return now, or that does not fit on the disk, is tried again for as long as the recording is kept.
Every step may be repeated: the lease only saves work.

One transaction expires a recording, by age or at its owner's request: its link is gone, notes in progress
fail and cost nothing, transcripts are deleted. Then its files are due for removal at the provider.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings import meetings, provider_events
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.notes import notes, recordings, views
from meetcore.domain.notes.notes import Note, NoteFault
from meetcore.ports import ai, queries
from meetcore.ports.recording_files import FileGone, FilesUnavailable, RecordingFiles
from meetcore.ports.runtime import Lease, WorkerNotifier
from meetcore.ports.store import Store, StoreUnavailable, Transaction
from meetcore.usecases.notes import downloads, note_charges
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.requests.missing_records import missing
from meetcore.usecases.runtime import LeaseLost, Runtime, collect_fault, gather_all, ignore, with_heartbeat
from meetcore.usecases.webhooks.events import events_of


@frozen
class CollectRecordingFiles:
    """Gathers a meeting's files in its one recording, kept for `retention`.

    Notified workers measure it. A transcript makes the notes due that wait for it.
    """

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime
    retention: timedelta = recordings.RETENTION

    async def __call__(
        self, provider: str, provider_meeting_id: str, files: Sequence[recordings.RecordingFile],
        now: datetime, *, is_query_result: bool = False,
    ) -> provider_events.EventOutcome:  # fmt: skip
        """Add files to the meeting's recording; where `is_query_result`, their addresses are current.

        APPLIED when the recording is new or has more files now, IGNORED when nothing is new or the meeting
        was not sold with a recording, TOO_EARLY when the meeting does not exist yet or is being cancelled.
        The recording of a cancelled meeting or an erased account is opened as expired: its files are removed.
        """
        async with self.store.begin() as tx:
            meeting = await tx.meetings.load_by_provider_id(provider, provider_meeting_id)
            if meeting is None or meeting.status is meetings.MeetingStatus.CANCELLING:
                return provider_events.EventOutcome.TOO_EARLY
            if not meeting.options.with_recording:
                return provider_events.EventOutcome.IGNORED
            known = await tx.recordings.load(meeting.account_id, meeting.id)
            if known is None:
                recording = await self._open(tx, meeting, files, now)
            else:
                # An event's address soon expires: it replaces none that the provider listed.
                current = files if is_query_result else known.files
                recording = recordings.readdress(recordings.gather_files(known, files), current)
            if recording is None or recording == known:
                return provider_events.EventOutcome.IGNORED
            await tx.recordings.save(recording)
            if known is not None and transcripts_of(recording) - transcripts_of(known):
                await tx.notes.wake(recording)
        self.notifier.notify()
        return provider_events.EventOutcome.APPLIED

    async def _open(
        self, tx: Transaction, meeting: Meeting, files: Sequence[recordings.RecordingFile], now: datetime
    ) -> recordings.Recording | None:
        id = self.runtime.new_id(now)
        recording = recordings.open_recording(id, meeting, files, now, self.retention)
        is_offered = recordings.can_be_recorded(meeting)
        if recording is None or (is_offered and not await tx.erasures.is_requested(meeting.account_id)):
            return recording
        return recordings.expire(recording)


def transcripts_of(recording: recordings.Recording) -> set[tuple[str, int]]:
    """Return ids and sizes of the provider's transcripts."""
    transcripts = [file for file in recording.files if file.kind is recordings.FileKind.TRANSCRIPT]
    return {(file.provider_file_id, file.size_bytes) for file in transcripts}


_MOST_SESSIONS = 50
"""Sessions that are asked for though no file of them is known: anyone with a link can hold any number."""


def require_own(files: RecordingFiles, provider: str) -> None:
    """Raise `FilesUnavailable` for a recording of another provider, whose ids are unknown at this one."""
    if provider != files.provider:
        raise FilesUnavailable(f"a recording of {provider}, and the provider is {files.provider}")


async def find_files(
    store: Store, files: RecordingFiles, of: Meeting | recordings.Recording, session_ids: Sequence[str] = ()
) -> Sequence[recordings.RecordingFile]:
    """Find the provider's files of every session: of those given, and the latest that events reported.

    A provider that has deleted a meeting may name none itself. Raises `FilesUnavailable`.
    """
    meeting_id = of.id if isinstance(of, Meeting) else of.meeting_id
    async with store.at_once() as tx:
        reported = await tx.meetings.load_sessions(of.account_id, meeting_id)
    known = (*session_ids, *(one.id for one in reported[-_MOST_SESSIONS:]))
    return await files.find(of.provider_meeting_id or "", dict.fromkeys(known))


@frozen
class SyncRecordingFiles:
    """Asks the provider for the files of a recording; `FilesUnavailable` without a usable answer."""

    store: Store
    files: RecordingFiles
    record: CollectRecordingFiles
    runtime: Runtime

    async def of_meeting(
        self, of: Meeting | recordings.Recording, session_ids: Sequence[str] = ()
    ) -> frozenset[str]:
        """Record the files that the provider has of a meeting; return the sessions with media among them."""
        require_own(self.files, of.provider)
        found = await find_files(self.store, self.files, of, session_ids)
        if found:
            name = of.provider_meeting_id or ""
            await self.record(of.provider, name, found, self.runtime.now(), is_query_result=True)
        return recordings.recorded_sessions(found)

    async def __call__(self, recording: recordings.Recording) -> recordings.Recording:
        """Return a recording with the provider's present files: a late transcript, fresh addresses."""
        await self.of_meeting(recording, recordings.session_ids(recording))
        async with self.store.at_once() as tx:
            return await tx.recordings.load_by_id(recording.account_id, recording.id) or recording


_FIRST_WAIT_S = 2.0
_LONGEST_WAIT_S = 3600.0
_MISSES_BEFORE_GONE = 3
_TRIES_BEFORE_GONE = 10  # a quarter of an hour: a provider may list what it moves late


class FileMissed(FilesUnavailable):
    """The provider answers, and lists the files without one that is known."""


@frozen
class WorkOnRecordings:
    """Works on recordings that are due, one at a time.

    `notifier` wakes the delivery workers, `notes_notifier` the note workers. `lease_s` is how long a
    dead worker's recording waits; it is renewed three times in it. `report` is called with failures,
    and `on_expired_lease` with a recording that is claimed because its lease expired.
    """

    store: Store
    files: RecordingFiles
    editor: ai.AudioEditor
    queue: note_charges.NoteQueue
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 30.0
    report: Callable[[views.RecordingTask, Exception], None] = ignore
    on_expired_lease: Callable[[views.RecordingTask], object] = ignore

    async def __call__(self) -> bool:
        """Work on a due recording; return whether there may be more. What met a fault is due again later."""
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.at_once() as tx:
            tasks = await tx.recordings.claim(1, lease)
        for task in tasks:
            if task.had_expired_lease:
                self.on_expired_lease(task)
        await gather_all(self._work(task) for task in tasks)
        return bool(tasks)

    async def _work(self, task: views.RecordingTask) -> None:
        async def renew() -> bool:
            async with self.store.at_once() as tx:
                return await tx.recordings.renew(task, self.lease_s)

        is_over = task.recording.status is recordings.RecordingStatus.EXPIRED
        work = self._remove(task.recording) if is_over else self._measure(task)
        try:
            await with_heartbeat(work, renew, self.lease_s / 3)
        except LeaseLost:
            return
        except StoreUnavailable:
            raise
        except Exception as fault:
            wait_s = min(_FIRST_WAIT_S * 2 ** min(task.tries - 1, 16), _LONGEST_WAIT_S)
            await self._give_back(task, wait_s, is_missed=isinstance(fault, FileMissed))
            self.report(task, fault)
            if not isinstance(fault, (FilesUnavailable, ai.EditingFailed)):
                raise
            return
        # What came meanwhile is due at once; where nothing is left to do, the lease is gone.
        await self._give_back(task, 0.0)

    async def _give_back(self, task: views.RecordingTask, wait_s: float, *, is_missed: bool = False) -> None:
        async with self.store.at_once() as tx:
            await tx.recordings.postpone(task, wait_s, is_missed=is_missed)

    async def _remove(self, recording: recordings.Recording) -> None:
        require_own(self.files, recording.provider)
        # An event may have been lost, so listed files are removed, and known ones that are not listed.
        listed = await self._listed(recording)
        files = {file.provider_file_id: file for file in (*recording.files, *listed)}
        removed, fault = set[str](), None
        for file in files.values():
            try:
                await self.files.remove(recording.provider_meeting_id, file)
                removed.add(file.provider_file_id)
            except FilesUnavailable as error:  # one that is refused keeps no other
                fault = error
        async with self.store.begin() as tx:
            await tx.lock_account(recording.account_id)
            latest = await tx.recordings.load(recording.account_id, recording.meeting_id)
            if latest is not None:
                await tx.recordings.save(recordings.removed(latest, removed))
        if fault is not None:
            raise fault

    async def _measure(self, task: views.RecordingTask) -> None:
        recording = task.recording
        require_own(self.files, recording.provider)
        while left := [one.sound for one in recordings.segments(recording) if one.media_s is None]:
            file = left[0]
            length_s = await self._length(task, file)
            async with self.store.begin() as tx:
                lengths_s = {(file.provider_file_id, file.size_bytes): length_s}
                due, is_measured = await self._keep(tx, recording, lengths_s)
            recording = recordings.measure(recording, lengths_s)
            if due:
                self.notifier.notify()
            if is_measured:
                self.notes_notifier.notify()

    async def _length(self, task: views.RecordingTask, file: recordings.RecordingFile) -> float:
        listed: recordings.RecordingFile | None = file
        if task.tries > 1:  # an event's address may have aged
            found = await self._listed(task.recording)
            listed = next((one for one in found if one.provider_file_id == file.provider_file_id), None)
        if listed is None and task.misses >= _MISSES_BEFORE_GONE and task.tries >= _TRIES_BEFORE_GONE:
            self.report(task, FileGone(f"no session lists the file {file.provider_file_id}: it is left out"))
            return 0.0
        if listed is None:
            raise FileMissed("the provider lists a file no more")
        with closing(self.editor.scratch()) as media:
            try:
                await downloads.copy_file(self.files, listed, media)
                return await self.editor.measure(media)
            except ai.MediaUnreadable:
                return 0.0
            except FileGone as error:
                raise FilesUnavailable("the provider says that a file is gone") from error

    async def _listed(self, recording: recordings.Recording) -> Sequence[recordings.RecordingFile]:
        return await find_files(self.store, self.files, recording, recordings.session_ids(recording))

    async def _keep(
        self, tx: Transaction, recording: recordings.Recording, lengths_s: Mapping[tuple[str, int], float]
    ) -> tuple[int, bool]:
        """Write lengths; return how many deliveries are due, and whether all is measured: notes can begin."""
        account_id, meeting_id, now = recording.account_id, recording.meeting_id, self.runtime.now()
        view = await tx.meetings.load_locked(account_id, meeting_id, None)
        latest = await tx.recordings.load(account_id, meeting_id)
        if view is None or latest is None:
            return 0, False
        measured = recordings.measure(latest, lengths_s)
        facts = recordings.became_ready(latest, measured, now)
        due = await tx.recordings.save(measured, events_of(self.runtime, now, *facts))
        due += await self.queue.add_for_meeting(tx, view.meeting, measured, now, is_last=not view.is_due)
        return due, not recordings.needs_work(measured)


async def end_recording(
    tx: Transaction, runtime: Runtime, recording: recordings.Recording, at: datetime, *, with_notes: bool
) -> tuple[int, list[Note]]:
    """End a recording whose account is locked; return how many deliveries are due, and the failed notes."""
    due, failed = 0, []
    for note in await tx.notes.load_of_recording(recording.account_id, recording.id):
        settlement = await tx.notes.load_settlement(note.account_id, note.id, None)
        if settlement is not None:
            note, more = await note_charges.fail_note(tx, runtime, settlement, NoteFault.RECORDING_GONE, at)
            due += more
            failed.append(settlement.note)
        if with_notes:
            await tx.notes.save_erased(notes.erase(note))
    await tx.notes.delete_transcript_chunks(recording.account_id, recording.id)
    await tx.recordings.save(recordings.expire(recording))
    return due, failed


@frozen
class ExpireRecordings:
    """Expires recordings past their retention; notes that were made of them stay.

    One that could not be measured in all that time never came, for its customer: `conclude` gives it up.
    `on_failed` is called with each note that failed for it, once that is kept.
    """

    store: Store
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    runtime: Runtime
    conclude: note_charges.ConcludeRecording
    on_failed: Callable[[Note, NoteFault], object] = ignore

    async def __call__(self, limit: int = 100) -> bool:
        """End up to `limit` recordings as a sweep does; whether there may be more.

        Where some cannot be ended, all others are: the next round would begin with the same ones.
        """
        faults: list[Exception] = []
        seen: set[tuple[UUID, UUID]] = set()
        while True:
            async with self.store.at_once() as tx:
                outlived = await tx.recordings.find_outlived(limit + len(faults))
            left = [name for name in outlived if name not in seen]
            for account_id, meeting_id in left:
                await collect_fault(faults, self._expire(account_id, meeting_id), f"meeting {meeting_id}")
            seen.update(left)
            if not faults:
                return len(left) == limit
            if len(left) < limit:
                raise ExceptionGroup("not every recording past its retention could be ended", faults)

    async def _expire(self, account_id: UUID, meeting_id: UUID) -> None:
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            recording, now = await tx.recordings.load(account_id, meeting_id), self.runtime.now()
            if recording is None:
                return
            due, failed = await end_recording(tx, self.runtime, recording, now, with_notes=False)
            if recording.status is recordings.RecordingStatus.MEASURING:
                due += await self.conclude.give_up(tx, account_id, meeting_id)
            elif (view := await tx.meetings.load_locked(account_id, meeting_id, None)) is not None:
                due += await self.conclude.queue.fail_for_meeting(tx, view, recording, now)
        for note in failed:
            self.on_failed(note, NoteFault.RECORDING_GONE)
        self.notes_notifier.notify()
        if due:
            self.notifier.notify()


@frozen
class DeleteRecording:
    """Ends a recording at once, and on request everything that was made of it but the ledger.

    `on_failed` is called with each note that failed for it, once that is kept.
    """

    store: Store
    queue: note_charges.NoteQueue
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    runtime: Runtime
    on_failed: Callable[[Note, NoteFault], object] = ignore

    async def __call__(
        self, caller: queries.Caller, recording_id: UUID, request: IdempotentRequest, now: datetime, *,
        with_notes: bool,
    ) -> Outcome:  # fmt: skip
        """Delete a recording, with its notes and their events on request; idempotent.

        Returns nothing, or a refusal: NotFound, Gone past its retention, Conflict before its meeting.
        """
        failed: list[Note] = []

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            recording = await tx.recordings.load_by_id(caller.account.id, recording_id)
            if recording is None or recording.status is recordings.RecordingStatus.MEASURING:
                raise await missing(tx, caller.account.id, recording_id, "recording")
            view = await tx.meetings.load_locked(recording.account_id, recording.meeting_id, None)
            if view is not None:
                recordings.check_begun(view.meeting, now)
            due, failed[:] = await end_recording(tx, self.runtime, recording, now, with_notes=with_notes)
            if view is not None and not with_notes:
                due += await self.queue.fail_for_meeting(tx, view, recording, now)
            return Outcome(due=due)

        outcome = await run_once(self.store, caller.account.id, request, work)
        for note in failed:
            self.on_failed(note, NoteFault.RECORDING_GONE)
        self.notes_notifier.notify()
        if outcome.due:
            self.notifier.notify()
        return outcome
