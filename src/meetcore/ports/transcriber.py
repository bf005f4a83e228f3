"""Speech to text."""

from typing import BinaryIO, Protocol

from meetcore.domain.transcripts import Transcript

__all__ = ["Transcriber"]


class Transcriber(Protocol):
    """Hears what is said in a piece of sound."""

    @property
    def max_piece_s(self) -> int:
        """How many seconds of sound one call takes at most."""
        ...

    async def transcribe(self, sound: BinaryIO) -> Transcript:
        """What is said, with times in seconds from the beginning of this piece; empty where nothing is.

        Args:
            sound: an open file at its beginning, as `AudioEditor.cut` makes them: one channel, Opus in Ogg,
            below
                25 MB. The caller closes it.

        Raises:
            AiAway: not now.
            AiRefused: never.
        """
        ...
