"""Notes written by a model of the endpoint: `POST /chat/completions` with a JSON schema.

Owns the conversation: a part at a time, one request in flight, one repair of an answer that has the wrong
shape, and a last call that makes one summary of several. It makes at most `2 * (MOST_PARTS + 1)`
calls.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from attrs import field, frozen

from meetcore.adapters.openai.access import AiAccess, Log
from meetcore.adapters.openai.drafts import draft_of
from meetcore.adapters.openai.errors import require_done
from meetcore.adapters.openai.http import HttpClient
from meetcore.adapters.openai.prompts import Message, merging, parts_of, repairing, writing
from meetcore.adapters.openai.schemas import WrittenNotes, WrittenSummary, WrongShape, read, schema_of
from meetcore.domain.notes.notes import Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.tracing import NO_TRACING, Tracing

MOST_PARTS: Final = 64
"""How many parts a transcript may have: three hours in parts of 8 000 characters, and twice that."""

T = TypeVar("T", bound=WrittenSummary)
_LONGEST_REPEATED: Final = 20_000


@frozen
class _Message:
    content: str | None = field(default=None, repr=False)
    refusal: str | None = field(default=None, repr=False)


@frozen
class _Choice:
    message: _Message
    finish_reason: str | None = None


@frozen
class _Completion:
    choices: list[_Choice]


class OpenAiNoteWriter:
    """Writes with a model of the endpoint."""

    def __init__(
        self, access: AiAccess, log: Log, now: Callable[[], datetime], tracing: Tracing = NO_TRACING
    ) -> None:
        self._access = access
        self._http = HttpClient(access, tracing)
        self._log = log
        self._now = now

    async def write(self, transcript: Transcript, language: Language) -> NoteDraft:
        """Write notes: see `NoteWriter`. A transcript of more than `MOST_PARTS` parts is refused."""
        parts = parts_of(transcript, self._access.context_chars)
        if len(parts) > MOST_PARTS:
            raise AiRefused(f"ai: a transcript of {len(parts)} parts")
        if not parts:
            raise AiRefused("ai: a transcript without a word")
        written = [await self._ask(writing(part, language, len(parts) == 1), WrittenNotes) for part in parts]
        whole = await self._whole(written, language)
        # Searching the transcript for each quote takes time, and other tasks need this loop.
        return await asyncio.to_thread(draft_of, transcript, written, whole)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _whole(self, written: list[WrittenNotes], language: Language) -> WrittenSummary:
        if len(written) == 1:
            return written[0]
        summaries = [part.summary for part in written]
        return await self._ask(merging(summaries, language, self._access.context_chars), WrittenSummary)

    async def _ask(self, messages: list[Message], kind: type[T]) -> T:
        """One answer in its shape, in two requests at most."""
        content = await self._complete(messages, kind)
        try:
            return read(content, kind)
        except WrongShape as fault:
            self._log.warning("ai_answer_out_of_shape", fault=str(fault))
            again = repairing(messages, content[:_LONGEST_REPEATED], str(fault))
        content = await self._complete(again, kind)
        try:
            return read(content, kind)
        except WrongShape as fault:
            raise AiUnavailable(f"ai: an answer out of shape, twice: {fault}") from None

    async def _complete(self, messages: list[Message], kind: type[WrittenSummary]) -> str:
        shape = {"name": kind.__name__, "strict": True, "schema": schema_of(kind)}
        body = {
            "model": self._access.write_model,
            "messages": messages,
            "response_format": {"type": "json_schema", "json_schema": shape},
        }
        response = await self._http.post_json("/chat/completions", body)
        return self._content(require_done(response, self._log, self._now))

    def _content(self, body: bytes) -> str:
        try:
            choices = msgspec.json.decode(body, type=_Completion).choices
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise AiUnavailable("ai: a completion that cannot be read") from None
        if not choices:
            raise AiUnavailable("ai: a completion without a choice")
        choice = choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            self._log.warning("ai_refused", finish_reason=choice.finish_reason)
            raise AiRefused("ai: the model refused")
        return choice.message.content or ""
