"""The recordings of a provider that makes none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meetcore.domain.recordings import RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, OpenFile

__all__ = ["JitsiRecordingFiles"]


_NONE: tuple[OpenFile, ...] = ()


class JitsiRecordingFiles:
    """Nothing is ever there, and nothing can be lost."""

    @property
    def provider(self) -> str:
        """Whose files."""
        return "jitsi"

    async def find(self, provider_meeting_id: str) -> tuple[RecordingFile, ...]:
        """None."""
        return ()

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        """Refuse.

        Raises:
            FileGone: always.
        """
        for opened in _NONE:
            yield opened
        raise FileGone("this provider records nothing")

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        """Nothing is to be done."""
