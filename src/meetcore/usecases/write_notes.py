"""Making notes: the steps of a note in progress, each kept before the next one begins.

::

    fetch       the provider's transcript, if it wrote one
    transcribe  else our own transcript, piece by piece
    write       summary, decisions, action items, topics
    settle      the charge in place of the hold; `note.completed`

Every step is written under the lease of the note and by its holder only. A worker that dies leaves a lease
that runs out; the next worker resumes at the unfinished step. What may pass is tried again, later
and later, as the schedule says; what will not pass ends the note.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from attrs import evolve, frozen

from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import NoteFault, NoteStep
from meetcore.domain.notes.recordings import is_gone, needs_work
from meetcore.domain.notes.transcripts import Transcript, speech_of
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, next_attempt
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.audio_editor import EditingFailed, MediaUnreadable
from meetcore.ports.lease import Lease
from meetcore.ports.note_writer import NoteWriter
from meetcore.ports.notes import NoteTask
from meetcore.ports.recording_files import FileGone, FilesUnavailable
from meetcore.ports.store import Store, StoreUnavailable
from meetcore.usecases.finalize_note import FinalizeNote
from meetcore.usecases.lease import LeaseLost, with_heartbeat
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sync_recording_files import SyncRecordingFiles
from meetcore.usecases.transcribe_recording import NoTranscriber, TranscribeRecording

MAX_RETRY_AFTER_S = 3600
"""A provider that requests a longer delay is called again after an hour: credits are held meanwhile."""

MAX_LEASE_EXPIRATIONS = 20
"""How many workers may die over one note before it is given up: it may be what they die of."""

_FINAL: dict[type[Exception], NoteFault] = {
    AiRefused: NoteFault.AI_REFUSED,
    FileGone: NoteFault.RECORDING_GONE,
    MediaUnreadable: NoteFault.MEDIA_UNREADABLE,
    NoTranscriber: NoteFault.NO_TRANSCRIBER,
}
_PASSING: dict[type[Exception], NoteFault] = {
    AiUnavailable: NoteFault.AI_UNAVAILABLE,
    FilesUnavailable: NoteFault.FILES_UNAVAILABLE,
    EditingFailed: NoteFault.FAULT_HERE,
}


@frozen
class _Later:
    """The note can go on only after so many seconds; nothing went wrong."""

    seconds: float


@frozen
class WriteNotes:
    """Works on notes that are due.

    `in_flight` bounds the notes in progress over all workers, and by it the calls to the AI provider: each
    note has one at a time. `lease_s` is how long a dead worker's note waits; it is renewed three times in it.
    `transcript_wait_s` is how long after a recording a note waits for a transcript of the provider's.
    `on_expired_lease` is called with a note that is claimed because its lease expired.
    """

    store: Store
    look: SyncRecordingFiles
    transcribe: TranscribeRecording
    writer: NoteWriter
    end: FinalizeNote
    runtime: Runtime
    schedule: RetrySchedule
    in_flight: int = 4
    lease_s: float = 30.0
    transcript_wait_s: float = 0.0
    on_expired_lease: Callable[[NoteTask], object] = lambda task: None

    async def claim(self, limit: int) -> Sequence[NoteTask]:
        """Take up to `limit` notes that are due and have room."""
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.begin() as tx:
            tasks = await tx.notes.claim(limit, self.in_flight, lease)
        for task in tasks:
            if task.had_expired_lease:
                self.on_expired_lease(task)
        return tasks

    async def work(self, task: NoteTask) -> None:
        """Bring a note to its end, or as far as it comes now. A cancelled one is due again at once.

        Raises:
            StoreUnavailable: the database does not answer; the note is due again when its lease runs out.
            Exception: a fault of ours; the note is tried again, and ends when the schedule does.
        """

        async def renew() -> bool:
            async with self.store.at_once() as tx:
                return await tx.notes.renew(task, self.lease_s)

        note = task.note
        with self.runtime.tracing.caused("note", task.cause, account_id=note.account_id, note_id=note.id):
            try:
                await with_heartbeat(self._go_on(task), renew, self.lease_s / 3)
            except LeaseLost:
                return
            except asyncio.CancelledError:
                with suppress(StoreUnavailable):  # then it is due when its lease runs out
                    await asyncio.shield(self._give_back(task))
                raise

    async def _give_back(self, task: NoteTask) -> None:
        async with self.store.begin() as tx:
            settlement = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
            if settlement is not None:
                await tx.notes.postpone(task, settlement.note, 0.0)

    async def _go_on(self, task: NoteTask) -> None:
        if task.lease_expirations >= MAX_LEASE_EXPIRATIONS:
            await self.end.fail(task, NoteFault.FAULT_HERE)
            return
        kept: list[int] = []
        while True:
            try:
                with self.runtime.tracing.span(f"note {task.note.step.value}"):
                    if task.note.step is NoteStep.SETTLE:
                        await self.end.complete(task)
                        return
                    next_ = await self._step(task, kept.append)
                if isinstance(next_, _Later):
                    await self._postpone(task, next_.seconds)
                    return
                task = next_
            except (LeaseLost, StoreUnavailable):
                raise
            except Exception as fault:
                await self._handle_fault(task, fault, has_come_on=bool(kept))
                if not isinstance(fault, (*_FINAL, *_PASSING)):
                    raise
                return

    async def _step(self, task: NoteTask, kept: Callable[[int], object]) -> NoteTask | _Later:
        """Do what is next; the task as it is afterwards."""
        if task.note.step is NoteStep.FETCH:
            return await self._fetch(task)
        if task.note.step is NoteStep.TRANSCRIBE:
            return await self._transcribe(task, kept)
        draft = await self.writer.write(task.note.transcript, task.note.language)
        return await self._keep(task, evolve(notes.advance(task.note, NoteStep.SETTLE), draft=draft))

    async def _fetch(self, task: NoteTask) -> NoteTask | _Later:
        recording = await self.look(task.recording)
        if is_gone(recording, self.runtime.now()):
            raise FileGone("the recording has expired")
        if needs_work(recording):
            raise FilesUnavailable("more of the recording has come and is not measured yet")
        if recording.duration_s < 1:
            raise MediaUnreadable("there is no media in it any more")
        note = evolve(task.note, duration_s=recording.duration_s)
        task = evolve(task, note=note, recording=recording)
        transcript = await self.transcribe.read(recording)
        if transcript is not None and speech_of(transcript):
            return await self._keep_transcript(task, transcript)
        waits_until = recording.created_at + timedelta(seconds=self.transcript_wait_s)
        if transcript is None and (left_s := (waits_until - self.runtime.now()).total_seconds()) > 0:
            return _Later(min(left_s, 60.0))
        return await self._keep(task, notes.advance(note, NoteStep.TRANSCRIBE))

    async def _transcribe(self, task: NoteTask, kept: Callable[[int], object]) -> NoteTask:
        # The recording as it was when this note was claimed is transcribed and paid for.
        if needs_work(task.recording):
            raise FilesUnavailable("more of the recording has come and is not measured yet")
        task = evolve(task, note=evolve(task.note, duration_s=task.recording.duration_s))
        return await self._keep_transcript(task, await self.transcribe.transcribe(task, kept))

    async def _keep_transcript(self, task: NoteTask, transcript: Transcript) -> NoteTask:
        if not speech_of(transcript):
            await self.end.fail(task, NoteFault.NO_SPEECH)
            raise LeaseLost
        note = evolve(notes.advance(task.note, NoteStep.WRITE), transcript=transcript)
        return await self._keep(task, note)

    async def _keep(self, task: NoteTask, note: notes.Note) -> NoteTask:
        async with self.store.at_once() as tx:
            if not await tx.notes.save_step(task, note):
                raise LeaseLost
        return evolve(task, note=note)

    async def _handle_fault(self, task: NoteTask, fault: Exception, *, has_come_on: bool) -> None:
        """A step failed: end the note, or try it again later, anew where it had come on before it did."""
        final = next((code for kind, code in _FINAL.items() if isinstance(fault, kind)), None)
        if final is not None:
            await self.end.fail(task, final)
            return
        tries, now = 1 if has_come_on else task.note.tries + 1, self.runtime.now()
        requested_s = fault.retry_after_s if isinstance(fault, AiUnavailable) else None
        retry_after_s = None if requested_s is None else min(-int(-requested_s // 1), MAX_RETRY_AFTER_S)
        due = next_attempt(self.schedule, tries, now, self.runtime.jitter(), retry_after_s)
        if due is None:
            code = next((code for kind, code in _PASSING.items() if isinstance(fault, kind)), None)
            await self.end.fail(task, code or NoteFault.FAULT_HERE)
            return
        task = evolve(task, note=evolve(task.note, tries=tries))
        await self._postpone(task, (due - now).total_seconds())

    async def _postpone(self, task: NoteTask, seconds: float) -> None:
        async with self.store.at_once() as tx:
            await tx.notes.postpone(task, task.note, seconds)
