"""Recordings in a store: at most one for each meeting, its files with it."""

from typing import Protocol
from uuid import UUID

from meetcore.domain.recordings import Recording

__all__ = ["RecordingRepository"]


class RecordingRepository(Protocol):
    """Recordings. The caller holds the account's lock."""

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        """The recording of a meeting."""
        ...

    async def save(self, recording: Recording) -> None:
        """Write a recording with all its files, a new one or one that was loaded under the same lock."""
        ...
