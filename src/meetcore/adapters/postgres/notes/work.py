"""Work on notes under a lease: claims, steps, transcripts of chunks, and erasure.

Claims are taken one after another, under a lock that ends with the claim: so the bound on what is in progress
over all workers is exact, and no recording is transcribed twice at a time.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.notes.create import NoteCreation, NoteEnding
from meetcore.adapters.postgres.notes.rows import (
    NOTE,
    RECORDING,
    note,
    note_parameters,
    recording,
    sealed_transcript_chunk,
    transcript_chunk,
)
from meetcore.adapters.postgres.repository import NOTE_CLAIMS, Repository, load_statements
from meetcore.domain.machine import step
from meetcore.domain.notes.notes import TRANSITIONS, Note, NoteEvent, NoteStatus
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.notes.views import NoteTask
from meetcore.ports.runtime import CipherRefused, Lease

log = structlog.get_logger("meetcore.postgres")


_TAKEN = step(TRANSITIONS, NoteStatus.QUEUED, NoteEvent.TAKE).value

SQL = load_statements(__file__, NOTE=NOTE, NOTE_CLAIMS=NOTE_CLAIMS, RECORDING=RECORDING, TAKEN=_TAKEN)


class NoteWork(Repository):
    """Claims of notes and their steps, up to the one that settles the payment."""

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        """Take due notes, each under the lease; one that does not open is logged and put off for an hour."""
        await self._run(SQL["lock_claims"])
        parameters = {"limit": limit, "in_flight": in_flight, "token": lease.token, "lease_s": lease.seconds}
        tasks = []
        for row in await self._all(SQL["claim_due_notes"], parameters):
            try:
                task = NoteTask(
                    lease.token,
                    note(row, self._cipher),
                    recording(row, self._cipher),
                    row["lease_expirations"],
                    row["was_leased"],
                    row["cause"],
                )
            except (CipherRefused, msgspec.DecodeError):
                log.exception("note does not open", note_id=str(row["note_id"]))
                await self._run(SQL["postpone_unreadable"], row)
            else:
                tasks.append(task)
        return tasks

    async def is_any_overdue(self, seconds: float) -> bool:
        row = await self._one(SQL["is_any_overdue"], seconds=seconds)
        return row is not None and bool(row["is_overdue"])

    async def renew(self, task: NoteTask, seconds: float) -> bool:
        return await self._changed(SQL["renew_note"], _bearer(task), seconds=seconds)

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        return await self._changed(SQL["save_step"], note_parameters(note, self._cipher) | _bearer(task))

    async def postpone(self, task: NoteTask, note: Note, seconds: float) -> bool:
        parameters = note_parameters(note, self._cipher) | _bearer(task) | {"seconds": seconds}
        return await self._changed(SQL["postpone_note"], parameters)

    async def wake(self, recording: Recording) -> None:
        await self._run(SQL["wake_notes"], {"account_id": recording.account_id, "recording_id": recording.id})

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        parameters = _bearer(task) | {"recording_id": task.note.recording_id, "source": source}
        found = await self._all(SQL["load_chunks"], parameters)
        return {row["number"]: transcript_chunk(row, self._cipher) for row in found}

    async def save_transcript_chunk(
        self, task: NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool:
        account_id, recording_id = task.note.account_id, task.recording.id
        sealed = sealed_transcript_chunk(account_id, recording_id, source, piece, transcript, self._cipher)
        of = {"recording_id": recording_id, "source": source, "number": piece, "transcript": sealed}
        return await self._changed(SQL["save_chunk"], _bearer(task) | of)


def _bearer(task: NoteTask) -> Row:
    return {"account_id": task.note.account_id, "note_id": task.note.id, "token": task.token}


class NoteContents(Repository):
    """Correct the contents of notes, or remove them; ids and money stay."""

    async def load(self, account_id: UUID, note_id: UUID) -> Note | None:
        row = await self._one(SQL["load_note"], account_id=account_id, note_id=note_id)
        return None if row is None else note(row, self._cipher)

    async def save_edited(self, note: Note) -> None:
        await self._run(SQL["save_edited"], note_parameters(note, self._cipher))

    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        parameters = {"account_id": account_id, "recording_id": recording_id}
        return [note(row, self._cipher) for row in await self._all(SQL["load_of_recording"], parameters)]

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None:
        parameters = {"account_id": account_id, "recording_id": recording_id}
        await self._run(SQL["delete_chunks"], parameters)

    async def save_erased(self, note: Note) -> None:
        parameters = {"account_id": note.account_id, "note_id": note.id, "status": note.status.value}
        await self._run(SQL["lock_notified"], parameters)
        await self._run(SQL["erase_expired_notes"], parameters)


class PostgresNoteRepository(NoteCreation, NoteWork, NoteEnding, NoteContents):
    """Notes and their money."""
