"""Erasing notes with their events, and the transcripts of a recording."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.notes.rows import NOTE_COLUMNS, note
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.notes.notes import Note

# Every note on a recording. The account is locked by now.
_LOAD_OF_RECORDING = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.status <> 'erased' ORDER BY n.id
"""

# Deletes the transcript chunks of a recording.
_DELETE_CHUNKS = """
DELETE FROM transcript_chunks WHERE account_id = %(account_id)s AND recording_id = %(recording_id)s
"""

# Locks the endpoints that were notified of a note: claiming, recording and resending take the same locks, so that
# nothing is written of what is erased by the next statement. The kinds are spelled as in the index.
_LOCK_NOTIFIED = """
SELECT id FROM webhook_endpoints WHERE account_id = %(account_id)s AND id IN (
    SELECT d.endpoint_id FROM events e JOIN deliveries d ON d.account_id = e.account_id AND d.event_id = e.id
    WHERE e.account_id = %(account_id)s AND e.subject_id = %(note_id)s
        AND d.event_kind IN ('note.completed', 'note.failed'))
ORDER BY id FOR NO KEY UPDATE
"""

# Keeps the ids of a note and its money; its events are deleted, sent or not.
_ERASE = """
WITH erased AS (
    DELETE FROM events WHERE account_id = %(account_id)s AND subject_id = %(note_id)s RETURNING id
), dropped AS (
    DELETE FROM deliveries d USING erased
    WHERE d.account_id = %(account_id)s AND d.event_id = erased.id
        AND d.event_kind IN ('note.completed', 'note.failed')
    RETURNING d.id
), attempts AS (
    DELETE FROM delivery_attempts USING dropped
    WHERE delivery_attempts.account_id = %(account_id)s AND delivery_attempts.delivery_id = dropped.id
), note AS (
    UPDATE notes SET status = %(status)s, content = NULL, error = NULL
    WHERE account_id = %(account_id)s AND id = %(note_id)s
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""


class NoteErasure(Repository):
    """What is left of a note is its ids and its money."""

    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        parameters = {"account_id": account_id, "recording_id": recording_id}
        return [note(row, self._cipher) for row in await self._all(_LOAD_OF_RECORDING, parameters)]

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None:
        parameters = {"account_id": account_id, "recording_id": recording_id}
        await self._connection.execute(_DELETE_CHUNKS, parameters)

    async def save_erased(self, note: Note) -> None:
        parameters = {"account_id": note.account_id, "note_id": note.id, "status": note.status.value}
        await self._connection.execute(_LOCK_NOTIFIED, parameters)
        await self._connection.execute(_ERASE, parameters)
