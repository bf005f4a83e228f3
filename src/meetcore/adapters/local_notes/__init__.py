"""Notes without network and key: sentences that a linear model over words chooses, in Indonesian and English.

Nothing is translated: every word of a note but a few set by `language` occurs in the transcript.
"""

from meetcore.adapters.local_notes.writer import LocalNoteWriter

__all__ = ["LocalNoteWriter"]
