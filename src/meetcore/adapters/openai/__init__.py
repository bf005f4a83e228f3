"""Any endpoint that speaks OpenAI's API: speech to text, and the writing of notes.

`transcriber` and `writer` fill the ports `Transcriber` and `NoteWriter` over `line` (one exchange) and
`outcomes` (what an answer means for the note). Nothing that was said is ever logged, and no key.
"""

from meetcore.adapters.openai.access import AiAccess
from meetcore.adapters.openai.transcriber import OpenAiTranscriber
from meetcore.adapters.openai.writer import OpenAiNoteWriter

__all__ = ["AiAccess", "OpenAiNoteWriter", "OpenAiTranscriber"]
