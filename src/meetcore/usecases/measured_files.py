"""Recording files whose calls are counted and recorded as spans, as the calls about meetings are."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

from attrs import evolve, frozen

from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.ports.recording_files import (
    ByteRange,
    FileGone,
    FilesUnavailable,
    OpenFile,
    RangeUnsatisfiable,
    RecordingFiles,
)
from meetcore.ports.tracing import NO_TRACING, Tracing

T = TypeVar("T")

_RESULTS: Final[dict[type[Exception], str]] = {
    FilesUnavailable: "unavailable",
    FileGone: "gone",
    RangeUnsatisfiable: "out_of_range",
}


@frozen
class MeasuredFiles:
    """Calls other recording files. Fills `RecordingFiles`.

    `metrics` take each call and its result, and each file that broke off while it was read; `tracing` takes a
    span of each call. A file counts as opened once its first bytes can be read.
    """

    files: RecordingFiles
    metrics: Metrics = NO_METRICS
    tracing: Tracing = NO_TRACING

    @property
    def provider(self) -> str:
        """Whose files these are."""
        return self.files.provider

    async def find(self, provider_meeting_id: str) -> tuple[RecordingFile, ...]:
        """Return the files that are ready of a meeting's recording."""
        return await self._measured("files_find", self.files.find(provider_meeting_id))

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        """Read a file, or some of it."""
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self.files.open(file, wanted))
            opened = await self._measured("files_open", opening)
            chunks = self._read(opened.chunks)
            try:
                yield evolve(opened, chunks=chunks)
            finally:
                await chunks.aclose()

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        """Delete a file for good."""
        await self._measured("files_remove", self.files.remove(provider_meeting_id, file))

    async def _read(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            async for chunk in chunks:
                yield chunk
        except FilesUnavailable:
            self.metrics.provider_called("files_read", "unavailable", clock() - start)
            raise

    async def _measured(self, name: str, call: Awaitable[T]) -> T:
        clock = asyncio.get_running_loop().time
        start, result = clock(), "unknown"
        try:
            with self.tracing.span(f"provider {name}", provider=self.provider):
                found = await call
            result = "done"
        except tuple(_RESULTS) as error:
            result = next(name for kind, name in _RESULTS.items() if isinstance(error, kind))
            raise
        finally:
            self.metrics.provider_called(name, result, clock() - start)
        return found
