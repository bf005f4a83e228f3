"""Speech to text."""

from typing import Protocol

from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.audio_editor import Sound

__all__ = ["Transcriber"]


class Transcriber(Protocol):
    """Transcribes a piece of audio."""

    @property
    def max_piece_s(self) -> int:
        """How many seconds of sound one call takes at most."""

    @property
    def takes_copies(self) -> bool:
        """Whether it accepts sound as a third party encoded it: see `Sound`."""

    async def transcribe(self, sound: Sound) -> Transcript:
        """What is said, with times in seconds from the beginning of this piece; empty where nothing is.

        Args:
            sound: as `AudioEditor.cut` makes them. The caller closes it.

        Raises:
            AiUnavailable: not now.
            AiRefused: never.
        """
