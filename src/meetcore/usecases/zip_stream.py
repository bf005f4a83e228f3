"""An archive written piece by piece: no more than a piece is in memory, however long its files are."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from attrs import frozen

_OWNER_ONLY: Final = 0o600 << 16


@frozen
class ArchivedFile:
    """A file of an archive and its content, in pieces."""

    name: str
    pieces: AsyncIterator[bytes]


class _Sink:
    """Takes what an archive writes until it is fetched. It cannot be read or wound back."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Keep what was written."""

    def take(self) -> bytes:
        """Fetch what was written since the last time."""
        taken, self._written = bytes(self._written), bytearray()
        return taken


async def zip_stream(files: Sequence[ArchivedFile], at: datetime) -> AsyncIterator[bytes]:
    """Write a ZIP archive (with ZIP64 where it is needed), compressed beside the event loop.

    Args:
        files: in the order of the archive.
        at: the instant that every file is dated.
    """
    sink = _Sink()
    archive = ZipFile(sink, "w", ZIP_DEFLATED)  # type: ignore[call-overload]  # needs write and flush only
    for file in files:
        info = ZipInfo(file.name, at.timetuple()[:6])
        info.compress_type, info.external_attr = ZIP_DEFLATED, _OWNER_ONLY
        with archive.open(info, "w", force_zip64=True) as member:
            async for piece in file.pieces:
                await asyncio.to_thread(member.write, piece)
                if made := sink.take():
                    yield made
    await asyncio.to_thread(archive.close)
    yield sink.take()
