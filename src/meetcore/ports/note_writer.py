"""Write notes from a transcript."""

from typing import Protocol

from meetcore.domain.notes.notes import Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript

__all__ = ["NoteWriter"]


class NoteWriter(Protocol):
    """Makes a summary, decisions, action items and topics of a transcript."""

    async def write(self, transcript: Transcript, language: Language) -> NoteDraft:
        """Write notes in a language, whatever language was spoken.

        A quote stands in the transcript word for word, and its second is that of the utterance it is in.

        Args:
            transcript: what was said, something at least.

        Raises:
            AiUnavailable: not now.
            AiRefused: never.
        """
