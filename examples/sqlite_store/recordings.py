"""Recordings in SQLite: one row for each, its files in it as one document."""

from uuid import UUID

import msgspec

from meetcore.domain.recordings import Recording, RecordingFile

from . import rows
from .connection import Connection

__all__ = ["SqliteRecordingRepository"]

# The recording of a meeting.
_LOAD = "SELECT * FROM recordings WHERE account_id = :account_id AND meeting_id = :meeting_id"

# Writes a recording whole. A second one of the same meeting is refused by its key.
_SAVE = """
INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, duration_s)
VALUES (:account_id, :id, :meeting_id, :status, :document, :recorded_at, :created_at, :duration_s)
ON CONFLICT (account_id, id) DO UPDATE SET status = excluded.status, files = excluded.files,
    recorded_at = excluded.recorded_at, duration_s = excluded.duration_s
"""


class SqliteRecordingRepository:
    """Recordings, on one open transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        """The recording of a meeting."""
        named = {"account_id": account_id, "meeting_id": meeting_id}
        row = await self._connection.fetch_one(_LOAD, named)
        if row is None:
            return None
        files = msgspec.json.decode(row["files"], type=tuple[RecordingFile, ...])
        return rows.recording(row, files)

    async def save(self, recording: Recording) -> None:
        """Write a recording with all its files."""
        told = rows.fields_of(recording)
        del told["files"]
        document = msgspec.json.encode(recording.files)
        await self._connection.change(_SAVE, told | {"document": document})
