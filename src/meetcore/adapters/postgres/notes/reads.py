"""Reads of recordings and notes."""

from collections.abc import Sequence
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.notes import rows
from meetcore.adapters.postgres.repository import NEWEST, Reads, load_statements
from meetcore.domain.notes import notes, recordings, views

SQL = load_statements(__file__, NOTE=rows.NOTE, RECORDING=rows.RECORDING)


class RecordingReads(Reads):
    """Reads of recordings."""

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> recordings.Recording | None:
        row = await self._one(SQL["find_recording"], account_id=account_id, id=recording_id)
        return None if row is None else rows.readable_recording(row, self._cipher)

    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[recordings.Recording]:
        found = await self._all(
            SQL["list_recordings"] if meeting_id is None else SQL["list_of_meeting"],
            account_id=account_id,
            limit=limit,
            before=before or NEWEST,
            meeting_id=meeting_id,
        )
        return [rows.readable_recording(row, self._cipher) for row in found]


# A page of an account's notes: all, of a recording, of a meeting, of both.
_LISTS = {
    (False, False): SQL["list_notes"],
    (True, False): SQL["list_notes_of_recording"],
    (False, True): SQL["list_notes_of_meeting"],
    (True, True): SQL["list_notes_of_both"],
}


class NoteReads(Reads):
    """Reads of notes."""

    async def find_note(self, account_id: UUID, note_id: UUID) -> notes.Note | None:
        row = await self._one(SQL["find_note"], account_id=account_id, id=note_id)
        return None if row is None else rows.readable_note(row, self._cipher)

    async def list_notes(
        self, account_id: UUID, wanted: views.NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[notes.Note]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST} | asdict(wanted)
        return [
            rows.readable_note(row, self._cipher) for row in await self._all(notes_statement(wanted), page)
        ]


def notes_statement(wanted: views.NoteFilter) -> str:
    """Return the statement that reads a page of such notes."""
    return _LISTS[wanted.recording_id is not None, wanted.meeting_id is not None]
