"""Note writing: `POST /chat/completions`.

Parts are written one at a time, and a last call merges the summaries. A malformed reply is repaired once. A
part that is too long for the context of the server, or whose reply is cut, is halved, down to 2 000
characters: the server says so, or its `usage` shows that it cut the prompt without a word, as Ollama does. An
endpoint without JSON schemas is asked for a JSON object, then plainly. What a server surely cannot do is
remembered for the process, what was written is kept with the note.
"""

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from attrs import asdict, define, field, frozen

from meetcore.adapters.openai import drafts, endpoint, prompts
from meetcore.domain.notes.notes import Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.ai import NOTHING_KEPT, AiRefused, AiUnavailable, KeptParts
from meetcore.ports.observability import NO_TRACING, Log, Tracing

MOST_PARTS: Final = 64
"""Limit of parts: three hours in parts of 8 000 characters, twice."""

MOST_REQUESTS: Final = 8 * MOST_PARTS
"""Limit of requests for one try of a note: parts that are halved again and again."""

FORMATS: Final = ("json_schema", "json_object", "text")
"""Response formats, the strictest first."""

T = TypeVar("T", bound=drafts.WrittenSummary)
_LONGEST_REPEATED: Final = 20_000
# No tokenizer reads so many characters into a token of speech.
_MOST_CHARS_A_TOKEN: Final = 7
# A server that cuts a prompt cuts it to its context, which is a multiple of this.
_CONTEXT_TOKENS: Final = 1_024


@frozen
class _Message:
    content: Any = field(default=None, repr=False)
    refusal: str | None = field(default=None, repr=False)
    reasoning_content: Any = field(default=None, repr=False)


@frozen
class _Choice:
    message: _Message
    finish_reason: str | None = None


@frozen
class _Completion:
    choices: list[_Choice]
    usage: Any = None


class TooLong(Exception):
    """The prompt or the reply does not fit into the context of the model.

    `is_sure`: else it may be chance, or a model that repeats itself, and says nothing of other notes.
    """

    def __init__(self, text: str, *, is_sure: bool = False) -> None:
        super().__init__(text)
        self.is_sure = is_sure


@define
class _Work:
    """One try of a note: what is kept, how long a part may be, and how many requests it may still cost."""

    language: Language
    is_whole: bool
    kept: KeptParts
    most_chars: int
    requests: int = MOST_REQUESTS


class OpenAiNoteWriter:
    """Writes notes with a model; more than `MOST_PARTS` parts are refused."""

    def __init__(
        self, access: endpoint.AiAccess, log: Log, now: Callable[[], datetime], tracing: Tracing = NO_TRACING
    ) -> None:
        self.name: Final = access.write_model
        self._access = access
        self._endpoint = endpoint.AiEndpoint(access, log, now, tracing)
        self._log = log
        self._format = 0
        self._most_chars = access.context_chars

    async def write(
        self, transcript: Transcript, language: Language, kept: KeptParts = NOTHING_KEPT
    ) -> NoteDraft:
        parts = prompts.parts_of(transcript, self._access.context_chars - prompts.FENCE_CHARS)
        if len(parts) > MOST_PARTS:
            raise AiRefused(f"ai: transcript too long: {len(parts)} parts, at most {MOST_PARTS}")
        if not parts:
            raise AiRefused("ai: empty transcript")
        work = _Work(language, len(parts) == 1, kept, self._most_chars)
        written = [each for part in parts for each in await self._notes(part, work)]
        whole = await self._whole(written, work)
        # The search for quotes would block the event loop.
        return await asyncio.to_thread(drafts.draft_of, transcript, written, whole)

    async def check(self) -> None:
        """Write notes of one sentence, as the first note would be. Raises as `write`."""
        part = ('[0,null,"Kita mulai rapat."]',)
        await self._ask(
            prompts.writing(part, Language.INDONESIAN, is_whole=True),
            drafts.WrittenNotes,
            _Work(Language.INDONESIAN, True, NOTHING_KEPT, self._most_chars),
            may_halve=False,
        )

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _notes(self, part: prompts.Part, work: _Work) -> list[drafts.WrittenNotes]:
        """Return the notes on a part, or on its halves: those that are kept, and others from the model."""
        name = self._name(part, work)
        if (text := work.kept.get(name)) is not None:
            return [drafts.read(text, drafts.WrittenNotes)]
        halves = prompts.halves_of(part)
        if not halves or prompts.chars_of(part) <= work.most_chars:
            try:
                messages = prompts.writing(part, work.language, is_whole=work.is_whole)
                written = await self._ask(messages, drafts.WrittenNotes, work, may_halve=bool(halves))
            except TooLong as fault:
                self._shrink(part, halves, fault, work)
            else:
                if not work.is_whole:  # else the draft is there, and kept, at once
                    await work.kept.keep(name, json.dumps(asdict(written)))
                return [written]
        work.is_whole = False
        return [each for half in halves for each in await self._notes(half, work)]

    def _name(self, part: prompts.Part, work: _Work) -> str:
        text = "\n".join((self._access.write_model, work.language, *part))
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]

    def _shrink(
        self, part: prompts.Part, halves: Sequence[prompts.Part], fault: TooLong, work: _Work
    ) -> None:
        """Remember that so long a part does not fit. Raises `AiUnavailable` where it cannot be halved."""
        if not halves:
            self._log.error("ai_context_too_small", fault=str(fault), hint=_HINT)
            raise AiUnavailable(f"ai: {fault}, and the part is small") from None
        most_chars = max(prompts.SMALLEST_PART_CHARS, prompts.chars_of(part) // 2 + 1)
        work.most_chars = min(work.most_chars, most_chars)
        if fault.is_sure:
            self._most_chars = min(self._most_chars, most_chars)
        self._log.warning("ai_part_halved", fault=str(fault), chars=prompts.chars_of(part), hint=_HINT)

    async def _whole(self, written: list[drafts.WrittenNotes], work: _Work) -> drafts.WrittenSummary:
        """Merge the summaries; where even shortened ones do not fit, they follow one another."""
        if len(written) == 1:
            return written[0]
        most_chars = work.most_chars
        while most_chars >= prompts.SMALLEST_PART_CHARS:
            try:
                messages = prompts.merging(written, work.language, most_chars)
                return await self._ask(messages, drafts.WrittenWhole, work)
            except TooLong:
                most_chars //= 2
        share = drafts.MOST_SUMMARY_CHARS // len(written)
        summaries = (drafts.paragraphs(part.summary, share) for part in written)
        return drafts.WrittenSummary(
            "\n\n".join(summaries), [topic for part in written for topic in part.topics[:3]]
        )

    async def _ask(
        self, messages: list[prompts.Message], kind: type[T], work: _Work, *, may_halve: bool = True
    ) -> T:
        """Return a well-formed reply in at most two requests. Raises `TooLong`."""
        content = await self._complete(messages, kind, work, may_halve=may_halve)
        try:
            return drafts.read(content, kind)
        except drafts.WrongShape as fault:
            self._log.warning("ai_answer_out_of_shape", fault=str(fault))
            again = prompts.repairing(messages, content[:_LONGEST_REPEATED], str(fault))
        content = await self._complete(again, kind, work, may_halve=may_halve)
        try:
            return drafts.read(content, kind)
        except drafts.WrongShape as fault:
            raise AiUnavailable(f"ai: malformed reply, twice: {fault}") from None

    async def _complete(
        self,
        messages: list[prompts.Message],
        kind: type[drafts.WrittenSummary],
        work: _Work,
        *,
        may_halve: bool,
    ) -> str:
        """Ask in the strictest format that the endpoint knows."""
        while True:
            if work.requests <= 0:
                raise AiUnavailable("ai: too many requests for one note")
            work.requests -= 1
            tried = self._format
            body = {"model": self._access.write_model, **_formatted(messages, kind, FORMATS[tried])}
            try:
                answer = await self._endpoint.post_json("/chat/completions", body)
            except endpoint.ContextTooLong as fault:
                raise TooLong(str(fault), is_sure=True) from None
            except endpoint.FormatRefused:
                if tried + 1 == len(FORMATS):
                    endpoint.log_settings(self._log, param="response_format")
                    raise
                if tried == self._format:  # else another note met the refusal first
                    self._format = tried + 1
                    self._log.warning("ai_format_refused", next=FORMATS[self._format])
                continue
            sent_chars = sum(len(message["content"]) for message in body["messages"])
            return self._content(answer, sent_chars, may_halve=may_halve)

    def _content(self, body: bytes, sent_chars: int, *, may_halve: bool) -> str:
        try:
            completion = msgspec.json.decode(body, type=_Completion)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise AiUnavailable("ai: malformed completion") from None
        if not completion.choices:
            raise AiUnavailable("ai: completion without a choice")
        choice = completion.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            self._log.warning("ai_refused", finish_reason=choice.finish_reason)
            raise AiRefused("ai: the model refused")
        tokens = _prompt_tokens(completion.usage)
        if is_cut(tokens, sent_chars):
            self._log.error("ai_prompt_cut", prompt_tokens=tokens, sent_chars=sent_chars, hint=_HINT)
            if may_halve:  # else the figure is all that tells it, and it may count anew what is cached
                raise TooLong(f"prompt cut to {tokens} tokens", is_sure=is_far_too_few(tokens, sent_chars))
        if choice.finish_reason == "length":
            raise TooLong("reply cut")
        # Some servers take the whole reply of a model that may think for its reasoning.
        return _text(choice.message.content) or _text(choice.message.reasoning_content)


_HINT: Final = (
    "the context of the model is too small for MEETCORE_AI_CONTEXT_CHARS: raise it at the server (Ollama: "
    "OLLAMA_CONTEXT_LENGTH, llama.cpp: --ctx-size, vLLM: --max-model-len), or lower the setting"
)


def is_cut(prompt_tokens: int, sent_chars: int) -> bool:
    """Return whether so few tokens suggest that a prompt was cut; servers without a figure say 0."""
    is_a_context = prompt_tokens > 0 and prompt_tokens % _CONTEXT_TOKENS == 0
    return is_a_context or is_far_too_few(prompt_tokens, sent_chars)


def is_far_too_few(prompt_tokens: int, sent_chars: int) -> bool:
    """Return whether no tokenizer could make so few tokens of a prompt."""
    return 0 < prompt_tokens * _MOST_CHARS_A_TOKEN < sent_chars


def _formatted(
    messages: list[prompts.Message], kind: type[drafts.WrittenSummary], form: str
) -> dict[str, Any]:
    schema = drafts.schema_of(kind)
    match form:
        case "json_schema":
            shape = {"name": kind.__name__, "strict": True, "schema": schema}
            return {"messages": messages, "response_format": {"type": form, "json_schema": shape}}
        case "json_object":
            return {"messages": prompts.with_schema(messages, schema), "response_format": {"type": form}}
        case _:
            return {"messages": prompts.with_schema(messages, schema)}


def _prompt_tokens(usage: object) -> int:
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return int(tokens) if isinstance(tokens, int | float) and 0 < tokens < math.inf else 0


def _text(content: object) -> str:
    """Return the text of a message, which may come in parts."""
    if isinstance(content, list):
        texts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
