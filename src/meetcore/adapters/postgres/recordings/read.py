"""Reads of recordings: one, or a page of an account's, by the primary key backwards."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.recordings.rows import RECORDING_COLUMNS, readable_recording
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.notes.recordings import Recording

# One of an account's recordings.
_FIND_RECORDING = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r WHERE r.account_id = %(account_id)s AND r.id = %(id)s
"""

# A page of an account's recordings; one that is being measured is not shown.
_LIST_RECORDINGS = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r
WHERE r.account_id = %(account_id)s AND r.id < %(before)s AND r.status <> 'measuring'
ORDER BY r.id DESC LIMIT %(limit)s
"""

# The recording of a meeting, where it is shown.
_LIST_OF_MEETING = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r
WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s AND r.id < %(before)s AND r.status <> 'measuring'
LIMIT %(limit)s
"""


class RecordingReads(Reads):
    """Reads of recordings."""

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        row = await self._one(_FIND_RECORDING, {"account_id": account_id, "id": recording_id})
        return None if row is None else readable_recording(row, self._cipher)

    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[Recording]:
        page = {
            "account_id": account_id,
            "limit": limit,
            "before": before or NEWEST,
            "meeting_id": meeting_id,
        }
        found = await self._all(_LIST_RECORDINGS if meeting_id is None else _LIST_OF_MEETING, page)
        return [readable_recording(row, self._cipher) for row in found]
