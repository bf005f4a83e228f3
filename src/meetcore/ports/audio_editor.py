"""Local media: how long it is, and its sound in chunks that can be transcribed one by one.

Files are open and nameless: nothing that a meeting said lies on a disk after the process that had it is gone.
"""

from types import TracebackType
from typing import BinaryIO, Protocol, Self

from attrs import field, frozen

__all__ = ["AudioEditor", "EditingFailed", "MediaUnreadable", "Sound"]


class MediaUnreadable(Exception):
    """The file is no media with sound that can be decoded. The text is for the log only."""


class EditingFailed(Exception):
    """The machine or the editor failed, whatever the file is. The text is for the log only."""


@frozen
class Sound:
    """A chunk of sound, for a transcriber; closing it removes it.

    Args:
        file: a scratch file at its beginning, below 25 MB: one channel of Opus in Ogg; or, where it
            `is_copied`, AAC in M4A as its recorder encoded it.
        length_s: how long it is.
        is_copied: whether it was not encoded here.
    """

    file: BinaryIO = field(repr=False)
    length_s: float
    is_copied: bool = False

    def close(self) -> None:
        """Remove the file."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AudioEditor(Protocol):
    """Measures and cuts. Media comes from strangers and may be long: memory is bounded, and so is time."""

    def scratch(self) -> BinaryIO:
        """An empty file on disk, without a name, for reading and writing; closing it removes it."""

    async def measure(self, media: BinaryIO) -> float:
        """The length of the sound in seconds, counted from what is in the file and not taken from its header.

        Raises:
            MediaUnreadable: nothing that can be measured.
            EditingFailed: not now.
        """

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        """A stretch of the sound.

        Args:
            media: the whole; stays open and may be cut again.
            from_s: where the stretch begins.
            length_s: how long it is; less where the media ends before.
            may_copy: whether it may stay as it was recorded, which costs next to nothing, where the editor
                can do that.

        Raises:
            MediaUnreadable: nothing that can be decoded.
            EditingFailed: not now.
        """
