"""Any endpoint with OpenAI's API: speech to text, and the writing of notes.

`transcriber` and `writer` fill the ports `Transcriber` and `NoteWriter` over `http` (one request) and
`errors` (what an answer means for the note). No transcript and no key is ever logged.
"""

from meetcore.adapters.openai.access import AiAccess
from meetcore.adapters.openai.transcriber import OpenAiTranscriber
from meetcore.adapters.openai.writer import OpenAiNoteWriter

__all__ = ["AiAccess", "OpenAiNoteWriter", "OpenAiTranscriber"]
