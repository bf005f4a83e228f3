"""Recordings in memory."""

from uuid import UUID

from meetcore.adapters.memory.state import ConstraintBroken, Tables
from meetcore.domain.recordings import Recording

__all__ = ["MemoryRecordingRepository"]


class MemoryRecordingRepository:
    """Recordings, on one open transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        """The recording of a meeting."""
        return self._tables.recordings.get((account_id, meeting_id))

    async def save(self, recording: Recording) -> None:
        """Write a recording with all its files."""
        name = recording.account_id, recording.meeting_id
        known = self._tables.recordings.get(name)
        if known is not None and known.id != recording.id:
            raise ConstraintBroken(f"meeting {recording.meeting_id} has a recording already")
        self._tables.recordings[name] = recording
