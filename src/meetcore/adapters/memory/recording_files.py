"""Files of recordings in memory, set by the test.

Owns the bytes that it was given. For tests only.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, OpenFile, RangeUnsatisfiable

_CHUNK_BYTES = 64 * 1024


class MemoryRecordingFiles:
    """The files that a test provides.

    Args:
        provider: whose files these are.

    Attributes:
        is_away: whether every call raises `FilesUnavailable`.
        breaks_after: how many bytes of a file are read before it breaks off; `None` for all.
        opened: the ids of the files that were opened, in order.
    """

    def __init__(self, provider: str = "memory") -> None:
        self._provider = provider
        self._files: dict[str, dict[str, RecordingFile]] = {}
        self._contents: dict[str, bytes] = {}
        self.is_unavailable = False
        self.breaks_after: int | None = None
        self.opened: list[str] = []

    @property
    def provider(self) -> str:
        return self._provider

    def put(self, provider_meeting_id: str, file: RecordingFile, content: bytes) -> None:
        """Let a meeting have this file."""
        self._files.setdefault(provider_meeting_id, {})[file.provider_file_id] = file
        self._contents[file.provider_file_id] = content

    async def find(self, provider_meeting_id: str) -> tuple[RecordingFile, ...]:
        self._check()
        return tuple(self._files.get(provider_meeting_id, {}).values())

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        self._check()
        content = self._contents.get(file.provider_file_id)
        if content is None:
            raise FileGone("no such file")
        first = 0 if wanted is None else wanted.first
        if wanted is not None and first >= len(content):
            raise RangeUnsatisfiable(len(content))
        last = (
            len(content) - 1 if wanted is None or wanted.last is None else min(wanted.last, len(content) - 1)
        )
        self.opened.append(file.provider_file_id)
        yield OpenFile(len(content), first, last, self._chunks(content[first : last + 1]))

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        self._check()
        if self._files.get(provider_meeting_id, {}).pop(file.provider_file_id, None) is not None:
            del self._contents[file.provider_file_id]

    def _check(self) -> None:
        if self.is_unavailable:
            raise FilesUnavailable("the test says so")

    async def _chunks(self, content: bytes) -> AsyncIterator[bytes]:
        end = len(content) if self.breaks_after is None else min(self.breaks_after, len(content))
        for at in range(0, end, _CHUNK_BYTES):
            yield content[at : min(at + _CHUNK_BYTES, end)]
        if end < len(content):
            raise FilesUnavailable("the test says so")
