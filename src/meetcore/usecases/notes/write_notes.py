"""Write notes: each step is stored before the next one begins.

::

    fetch       the provider's transcripts of all stretches, waited for
    transcribe  our own, chunk by chunk, of the stretches that have none
    write       summary, decisions, action items, topics
    settle      the charge in place of the hold; `note.completed`

Every step is written under the lease of the note and by its holder only. A worker that dies leaves a lease
that expires; the next worker resumes at the unfinished step. A temporary failure is tried again, as the
schedule says; a permanent one ends the note. Transcripts are stored chunk by chunk, and drafts part by part,
so that only what is missing is done after a crash or a fault; a file is copied to an unlinked file on disk.

A provider's transcript has names, and comes minutes after the media. A note waits for it, neither failed nor
counted as in progress; `CollectRecordingFiles` makes it due when one comes, and it looks less and less often.
Without a transcriber, stretches that still have none are left out, where another one has speech: the note
says so.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from io import BytesIO
from typing import BinaryIO

from attrs import define, evolve, frozen

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.notes import due_dates, notes, recordings, sources, transcripts, vtt
from meetcore.domain.notes.notes import NoteFault, NoteStep
from meetcore.domain.notes.views import NoteTask
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, next_attempt
from meetcore.ports import ai, observability
from meetcore.ports.recording_files import FileGone, FilesUnavailable, RecordingFiles
from meetcore.ports.runtime import HolidayCalendar, Lease
from meetcore.ports.store import Store, StoreUnavailable
from meetcore.usecases.notes import downloads, note_charges
from meetcore.usecases.notes.note_charges import KeptParts
from meetcore.usecases.notes.recordings import SyncRecordingFiles, transcripts_of
from meetcore.usecases.runtime import LeaseLost, Runtime, ignore, with_heartbeat

MAX_TRANSCRIPT_BYTES = 32 * 1024 * 1024
"""More than a day of speech; a longer file is no transcript."""


class NoTranscriber(Exception):
    """There is no provider transcript and no transcriber."""


@define
class _BoundTranscriber:
    """Transcribes a file piece by piece, as it was recorded; once that is refused, as it is encoded here."""

    editor: ai.AudioEditor
    transcriber: ai.Transcriber
    language: notes.Language
    takes_copies: bool

    async def transcribe(self, media: BinaryIO, piece: transcripts.Piece) -> transcripts.Transcript:
        if self.takes_copies:
            with await self.editor.cut(media, piece.from_s, piece.length_s, may_copy=True) as sound:
                try:
                    return await self.transcriber.transcribe(sound, self.language)
                except ai.AiRefused:
                    if not sound.is_copied:
                        raise
            self.takes_copies = False
        with await self.editor.cut(media, piece.from_s, piece.length_s) as sound:
            return await self.transcriber.transcribe(sound, self.language)


@frozen
class TranscribeRecording:
    """Obtains transcripts. Without a transcriber only the provider's."""

    store: Store
    files: RecordingFiles
    editor: ai.AudioEditor
    transcriber: ai.Transcriber | None

    async def read(self, recording: recordings.Recording) -> Mapping[int, transcripts.Transcript]:
        """Return the provider's transcripts by the place of their segments, as far as it has them."""
        found: dict[int, transcripts.Transcript] = {}
        for place, segment in enumerate(recordings.segments(recording)):
            if segment.transcript is not None:
                with suppress(FileGone):  # the sound may be there all the same
                    text = await self._text(segment.transcript)
                    found[place] = await asyncio.to_thread(vtt.read_vtt, text)  # seconds for a large one
        return found

    async def transcribe(self, task: NoteTask, kept: Callable[[int], object]) -> sources.Sources:
        """Read the provider's transcripts, and transcribe the segments of which none has speech.

        `kept` is called with the number of each piece whose transcript was saved.

        Raises:
            NoTranscriber: there is no transcriber, and no segment has a transcript with speech.
            LeaseLost: another worker has the note.
            FilesUnavailable, FileGone, MediaUnreadable, AiUnavailable, AiRefused: of the ports.
        """
        provided = await self.read(task.recording)
        if self.transcriber is None:
            transcript = sources.join_sources(task.recording, provided)
            if not transcripts.speech_of(transcript):
                raise NoTranscriber
            lacking = sources.find_lacking(task.recording, provided)
            return sources.Sources(transcript, sources.spans_of(task.recording, lacking))
        speechless = sources.find_speechless(task.recording, provided)
        pieces = transcripts.cut(task.recording, self.transcriber.max_piece_s)
        source = transcripts.source_of(pieces)
        async with self.store.at_once() as tx:
            chunks = dict(await tx.notes.load_transcript_chunks(task, source))
        faults: dict[recordings.RecordingFile, Exception] = {}
        for file in speechless:
            remaining = [piece for piece in pieces if piece.file == file and piece.number not in chunks]
            try:
                chunks |= await self._transcribe_file(self.transcriber, task, source, file, remaining, kept)
            except (ai.AiRefused, FileGone, ai.MediaUnreadable) as fault:
                faults[file] = fault
        transcribed = tuple(
            piece for piece in pieces if piece.file in speechless and piece.file not in faults
        )
        own = transcripts.merge(transcribed, chunks)
        transcript = sources.join_sources(task.recording, provided, own)
        if faults and not transcripts.speech_of(transcript):
            raise next(iter(faults.values()))
        return sources.Sources(transcript, sources.spans_of(task.recording, faults))

    async def _transcribe_file(
        self, transcriber: ai.Transcriber, task: NoteTask, source: str, file: recordings.RecordingFile,
        pieces: list[transcripts.Piece], kept: Callable[[int], object],
    ) -> Mapping[int, transcripts.Transcript]:  # fmt: skip
        chunks: dict[int, transcripts.Transcript] = {}
        if not pieces:
            return chunks
        language = task.note.language
        bound = _BoundTranscriber(self.editor, transcriber, language, transcriber.takes_copies)
        with closing(self.editor.scratch()) as media:
            await downloads.copy_file(self.files, file, media)
            for piece in pieces:
                chunks[piece.number] = await bound.transcribe(media, piece)
                async with self.store.at_once() as tx:
                    if not await tx.notes.save_transcript_chunk(
                        task, source, piece.number, chunks[piece.number]
                    ):
                        raise LeaseLost
                kept(piece.number)
        return chunks

    async def _text(self, file: recordings.RecordingFile) -> bytes:
        text = BytesIO()
        await downloads.copy_file(self.files, file, text, MAX_TRANSCRIPT_BYTES)
        return text.getvalue()


MAX_RETRY_AFTER_S = 3600
"""A provider that requests a longer delay is called again after an hour: credits are held meanwhile."""

MAX_LEASE_EXPIRATIONS = 20
"""How many workers may die over one step or part of a note before it is given up: it may be the cause."""

_FINAL: dict[type[Exception], NoteFault] = {
    ai.AiRefused: NoteFault.AI_REFUSED,
    FileGone: NoteFault.RECORDING_GONE,
    ai.MediaUnreadable: NoteFault.MEDIA_UNREADABLE,
    NoTranscriber: NoteFault.NO_TRANSCRIBER,
}
_PASSING: dict[type[Exception], NoteFault] = {
    ai.AiUnavailable: NoteFault.AI_UNAVAILABLE,
    FilesUnavailable: NoteFault.FILES_UNAVAILABLE,
    ai.EditingFailed: NoteFault.FAULT_HERE,
}


@frozen
class _Later:
    """The note can go on only after so many seconds, by its `recording` as it was; nothing went wrong."""

    recording: recordings.Recording
    seconds: float


@frozen
class WriteNotes:
    """Works on notes that are due.

    `in_flight` bounds the notes in progress over all workers, and by it the calls to the AI provider: each
    note has one at a time. `lease_s` is how long a dead worker's note waits; it is renewed three times in it.
    `transcript_wait_s` is how long a note waits for transcripts of the provider's, at least without a
    transcriber (`sources.transcript_wait`), and for the files of another session of the meeting.
    `on_expired_lease` is called with a note that is claimed because its lease expired.
    """

    store: Store
    look: SyncRecordingFiles
    transcribe: TranscribeRecording
    writer: ai.NoteWriter
    calendar: HolidayCalendar
    end: note_charges.FinalizeNote
    runtime: Runtime
    schedule: RetrySchedule
    in_flight: int = 4
    lease_s: float = 30.0
    transcript_wait_s: float = 0.0
    on_expired_lease: Callable[[NoteTask], object] = ignore

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

        Raises `Exception`: a fault of ours; the note is tried again, and ends when the schedule does.
        """

        async def renew() -> bool:
            async with self.store.at_once() as tx:
                return await tx.notes.renew(task, self.lease_s)

        note = task.note
        span = observability.span_of(task.cause)
        with (
            observability.logged_as_caused(task.cause),
            self.runtime.tracing.caused("note", span, account_id=note.account_id, note_id=note.id),
        ):
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
        parts = KeptParts(task, self._keep)
        kept: list[int] = []
        while True:
            try:
                with self.runtime.tracing.span(f"note {task.note.step.value}"):
                    if task.note.step is NoteStep.SETTLE:
                        await self.end.complete(task)
                        return
                    next_ = await self._step(task, kept.append, parts)
                if isinstance(next_, _Later):
                    await self._wait(task, next_)
                    return
                task = parts.task = next_
            except (LeaseLost, StoreUnavailable):
                raise
            except Exception as fault:
                await self._handle_fault(parts.task, fault, has_come_on=bool(kept) or parts.has_come_on)
                if not isinstance(fault, (*_FINAL, *_PASSING)):
                    raise
                return

    async def _step(
        self, task: NoteTask, kept: Callable[[int], object], parts: KeptParts
    ) -> NoteTask | _Later:
        """Do the next step; return the task after it."""
        if task.note.step is NoteStep.FETCH:
            return await self._fetch(task)
        if task.note.step is NoteStep.TRANSCRIBE:
            return await self._transcribe(task, kept)
        note = task.note
        draft = await self._dated(await self.writer.write(note.transcript, note.language, parts), task)
        summary = sources.mention_left_out(draft.summary, note.left_out, note.language)
        return await self._keep(
            task, notes.finish_draft(note, evolve(draft, summary=summary), self.writer.name)
        )

    async def _dated(self, draft: notes.NoteDraft, task: NoteTask) -> notes.NoteDraft:
        """Set the due dates, counted from the day of the recording in WIB."""
        day = cap_day(task.recording.recorded_at)
        dues = (item.due for item in draft.action_items if item.due is not None)
        needs_holidays = any(map(due_dates.names_holiday, dues))
        holidays = await self.calendar.holidays_from(day) if needs_holidays else {}
        return due_dates.with_due_dates(draft, day, holidays)

    async def _fetch(self, task: NoteTask) -> NoteTask | _Later:
        recording = await self.look(task.recording)
        if recordings.is_gone(recording, self.runtime.now()):
            raise FileGone("the recording has expired")
        if recordings.needs_work(recording):
            raise FilesUnavailable("more of the recording has come and is not measured yet")
        if recording.duration_s < 1:
            raise ai.MediaUnreadable("there is no media in it any more")
        task = evolve(task, recording=recording)
        wait, now = timedelta(seconds=self.transcript_wait_s), self.runtime.now()
        async with self.store.at_once() as tx:
            held = await tx.meetings.load_sessions(recording.account_id, recording.meeting_id)
        if (left_s := sources.waits_for_sessions_s(recording, held, wait, now)) > 0:
            return _Later(recording, sources.next_look_s(left_s, wait))
        provided = await self.transcribe.read(recording)
        lacking = sources.find_lacking(recording, provided)
        can_transcribe = self.transcribe.transcriber is not None
        wait = sources.transcript_wait(recording, wait, can_transcribe=can_transcribe)
        if lacking and (left_s := sources.waits_for_s(recording, lacking, wait, now)) > 0:
            return _Later(recording, sources.next_look_s(left_s, wait))
        if lacking or sources.find_speechless(recording, provided):
            return await self._keep(task, notes.advance(task.note, NoteStep.TRANSCRIBE))
        return await self._keep_transcript(task, sources.Sources(sources.join_sources(recording, provided)))

    async def _transcribe(self, task: NoteTask, kept: Callable[[int], object]) -> NoteTask:
        # The recording as it was when this note was claimed is transcribed and paid for.
        if recordings.needs_work(task.recording):
            raise FilesUnavailable("more of the recording has come and is not measured yet")
        return await self._keep_transcript(task, await self.transcribe.transcribe(task, kept))

    async def _keep_transcript(self, task: NoteTask, found: sources.Sources) -> NoteTask:
        if not transcripts.speech_of(found.transcript):
            await self.end.fail(task, NoteFault.NO_SPEECH)
            raise LeaseLost
        return await self._keep(
            task,
            evolve(
                notes.advance(task.note, NoteStep.WRITE),
                transcript=found.transcript,
                left_out=found.left_out,
                duration_s=sources.duration_s(task.recording, found.left_out),
            ),
        )

    async def _keep(self, task: NoteTask, note: notes.Note) -> NoteTask:
        async with self.store.at_once() as tx:
            if not await tx.notes.save_step(task, note):
                raise LeaseLost
        return evolve(task, note=note)

    async def _handle_fault(self, task: NoteTask, fault: Exception, *, has_come_on: bool) -> None:
        """Handle a failed step: end the note, or try it again; tries count anew where it had advanced."""
        final = next((code for kind, code in _FINAL.items() if isinstance(fault, kind)), None)
        if final is not None:
            await self.end.fail(task, final)
            return
        tries, now = 1 if has_come_on else task.note.tries + 1, self.runtime.now()
        requested_s = fault.retry_after_s if isinstance(fault, ai.AiUnavailable) else None
        retry_after_s = None if requested_s is None else min(-int(-requested_s // 1), MAX_RETRY_AFTER_S)
        due = next_attempt(self.schedule, tries, now, self.runtime.jitter(), retry_after_s)
        if due is None:
            code = next((code for kind, code in _PASSING.items() if isinstance(fault, kind)), None)
            await self.end.fail(task, code or NoteFault.FAULT_HERE)
            return
        task = evolve(task, note=evolve(task.note, tries=tries))
        await self._postpone(task, (due - now).total_seconds())

    async def _wait(self, task: NoteTask, later: _Later) -> None:
        await self._postpone(task, later.seconds)
        # A transcript that came in the meantime made due only the notes that no worker held.
        async with self.store.at_once() as tx:
            latest = await tx.recordings.load_by_id(later.recording.account_id, later.recording.id)
            if latest is not None and transcripts_of(latest) - transcripts_of(later.recording):
                await tx.notes.wake(latest)

    async def _postpone(self, task: NoteTask, seconds: float) -> None:
        async with self.store.at_once() as tx:
            await tx.notes.postpone(task, task.note, seconds)


OVERDUE_S = 60.0
"""Longer than a free worker leaves a note: another process may be able to make it."""


@frozen
class ReportOverdueNotes:
    """Call `report` while a note or a recording has been due for more than a minute."""

    store: Store
    report: Callable[[], object]

    async def __call__(self) -> None:
        """Look once."""
        async with self.store.at_once() as tx:
            is_overdue = await tx.notes.is_any_overdue(OVERDUE_S)
        if is_overdue:
            self.report()
