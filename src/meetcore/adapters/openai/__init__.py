"""Speech to text and note writing at an endpoint with OpenAI's API.

`transcriber` and `writer` implement `Transcriber` and `NoteWriter` over `endpoint`. Transcripts and keys are
never logged.
"""

from meetcore.adapters.openai.endpoint import AiAccess
from meetcore.adapters.openai.transcriber import OpenAiTranscriber
from meetcore.adapters.openai.writer import OpenAiNoteWriter

__all__ = ["AiAccess", "OpenAiNoteWriter", "OpenAiTranscriber"]
