"""Media at hand: how long it is, and its sound in pieces that can be heard one by one.

Files are open and nameless: nothing that a meeting said lies on a disk after the process that had it is gone.
"""

from typing import BinaryIO, Protocol

__all__ = ["AudioEditor", "EditingFailed", "MediaUnreadable"]


class MediaUnreadable(Exception):
    """The file is no media with sound that can be decoded. The text is for the log only."""


class EditingFailed(Exception):
    """The machine was at its limits, whatever the file is. The text is for the log only."""


class AudioEditor(Protocol):
    """Measures and cuts. Media comes from strangers and may be long: memory is bounded, and so is time."""

    def scratch(self) -> BinaryIO:
        """An empty file on disk, without a name, for reading and writing; closing it removes it."""
        ...

    async def measure(self, media: BinaryIO) -> float:
        """The length of the sound in seconds, counted from what is in the file and not taken from its header.

        Raises:
            MediaUnreadable: nothing that can be measured.
            EditingFailed: not now.
        """
        ...

    async def cut(self, media: BinaryIO, from_s: float, length_s: float) -> BinaryIO:
        """A stretch of the sound as one channel of Opus in Ogg, in a scratch file at its beginning.

        Args:
            media: the whole; stays open and may be cut again.
            from_s: where the stretch begins.
            length_s: how long it is; less where the media ends before.

        Raises:
            MediaUnreadable: nothing that can be decoded.
            EditingFailed: not now.
        """
        ...
