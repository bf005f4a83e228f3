"""The files of recordings at the provider that made them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from attrs import frozen

from meetcore.domain.notes.recordings import RecordingFile


class FilesUnavailable(Exception):
    """No usable answer: the same call may work later. The text is for the log only."""


class FileGone(Exception):
    """The provider has no such file any more."""


class RangeUnsatisfiable(Exception):
    """The range begins behind the end of the file, which is `size_bytes` long."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"the file has {size_bytes} bytes")
        self.size_bytes = size_bytes


@frozen
class ByteRange:
    """The bytes `first` to `last`, both included, from 0; to the end where `last` is `None`."""

    first: int
    last: int | None = None


@frozen
class OpenFile:
    """A file that is being read: the bytes `first` to `last` of `size_bytes`, in chunks of 1 MiB at most."""

    size_bytes: int
    first: int
    last: int
    chunks: AsyncIterator[bytes]


class RecordingFiles(Protocol):
    """The files of one provider's recordings. No file is ever held in memory."""

    @property
    def provider(self) -> str:
        """The provider's name in `ProviderAbilities`."""

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        """Find the finished files of every session of a meeting. Raises `FilesUnavailable`.

        `session_ids` are the known ones: a provider may list no others than those that it still names itself.
        """

    def open(
        self, file: RecordingFile, wanted: ByteRange | None = None
    ) -> AbstractAsyncContextManager[OpenFile]:
        """Read a file, or a range of it; leaving the context ends the reading.

        The range in `OpenFile` may be wider than wanted, where the provider supports no ranges. Entry raises
        `FilesUnavailable`, as any chunk does, `FileGone` and `RangeUnsatisfiable`.
        """

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        """Delete a file of the session `file.session_id` for good, if it is there.

        After `FilesUnavailable` it may still be there.
        """


_NONE: tuple[OpenFile, ...] = ()


@frozen
class NoRecordingFiles:
    """The files of a provider that records nothing."""

    provider: str

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        return ()

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        for opened in _NONE:
            yield opened
        raise FileGone("this provider records nothing")

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None: ...
