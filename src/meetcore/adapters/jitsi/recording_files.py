"""The recording files of a provider without recordings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, OpenFile

_NONE: tuple[OpenFile, ...] = ()


class JitsiRecordingFiles:
    """A store without files."""

    @property
    def provider(self) -> str:
        return "jitsi"

    async def find(self, provider_meeting_id: str) -> tuple[RecordingFile, ...]:
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
        """Do nothing."""
