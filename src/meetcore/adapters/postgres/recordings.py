"""Recordings in PostgreSQL: one row for each, its files sealed in it as one document."""

from uuid import UUID

import msgspec

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.recordings import Recording
from meetcore.ports.cipher import Cipher

__all__ = ["PostgresRecordingRepository"]

# The recording of a meeting. The caller holds the account's lock, taken by a statement before this one: what is
# read here is true to the end of the transaction.
_LOAD = """
SELECT account_id, id, meeting_id, status, files, recorded_at, created_at, duration_s
FROM recordings WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s
"""

# Writes a recording whole. A second one of the same meeting is refused by its key.
_SAVE = """
WITH recording AS (
    INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, duration_s)
    VALUES (%(account_id)s, %(id)s, %(meeting_id)s, %(status)s, %(files)s, %(recorded_at)s, %(created_at)s,
        %(duration_s)s)
    ON CONFLICT (account_id, id) DO UPDATE SET (status, files, recorded_at, duration_s) =
        (EXCLUDED.status, EXCLUDED.files, EXCLUDED.recorded_at, EXCLUDED.duration_s)
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""

_encoder = msgspec.json.Encoder()


class PostgresRecordingRepository:
    """Recordings, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        """The recording of a meeting."""
        cursor = await self._connection.execute(_LOAD, {"account_id": account_id, "meeting_id": meeting_id})
        row = await cursor.fetchone()
        return None if row is None else rows.recording(row, self._cipher)

    async def save(self, recording: Recording) -> None:
        """Write a recording with all its files."""
        context = rows.recording_context(recording.account_id, recording.id)
        parameters = {
            "account_id": recording.account_id,
            "id": recording.id,
            "meeting_id": recording.meeting_id,
            "status": recording.status.value,
            "files": self._cipher.seal(_encoder.encode(recording.files), context),
            "recorded_at": recording.recorded_at,
            "created_at": recording.created_at,
            "duration_s": recording.duration_s,
        }
        await self._connection.execute(_SAVE, parameters)
