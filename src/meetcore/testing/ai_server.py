"""A stand-in for an AI provider: OpenAI's documented API over HTTP on loopback, with faults on demand.

In a test::

    async with ai_stand_in() as ai:
        access = AiAccess(ai.base_url, ai.models.api_key, ai.models.transcribes, ai.models.writes)
        writer = OpenAiNoteWriter(access, log, now=clock.now)
        ai.faults.plan(Fault("rate_limit", "completions"))

As a process, `python -m meetcore.testing.ai_server --port 8701` prints one line when it is ready. It enforces
the provider's rules: the key, the models, 25 MB for a file, real sounds, strict schemas. Faults beside those
of `stand_in`; the last five are of completions, and leave a transcription as it is::

    slow            responds after `slow_s` seconds
    redirect        responds 307 to another address
    rate_limit      responds 429 with the given `retry_after`
    quota           responds 429 for an exceeded quota
    context_length  responds 400 for a prompt that is too long
    not_json        completes with a content that is not JSON
    out_of_shape    completes with JSON that breaks the schema
    length          completes with half of the content, and finish reason `length`
    refusal         completes with a refusal
    content_filter  completes with an empty content

These paths need no key::

    GET /stand-in/counts                the `Tally`
    GET /stand-in/conversations         the messages of every completion
    GET, POST, DELETE /stand-in/faults  lists, plans (one or a list), drops faults
    PUT /stand-in/terms                 sets `latency_s`, or `is_held`: calls wait until it is false
"""

import argparse
import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Final

from attrs import asdict, define, field, frozen

from meetcore.testing import stand_in
from meetcore.testing.ai_content import SchemaRefused, check_schema, form_of, segments, utterances_in, written
from meetcore.testing.ai_manners import Manner, cut, prompt_tokens, schema_in
from meetcore.testing.sounds import sound_length_s

_MAX_FILE_BYTES: Final = 25 * 1024 * 1024
_KINDS: Final = frozenset({"flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm"})
_FORMATS: Final = ("json", "verbose_json")
_MALFORMED: Final[Mapping[str, tuple[dict[str, str], str]]] = {
    "not_json": ({"content": "Here are your notes!"}, "stop"),
    "out_of_shape": ({"content": '{"summary": 7, "decisions": "none"}'}, "stop"),
    "refusal": ({"refusal": "I'm sorry, I can't help with that."}, "stop"),
    "content_filter": ({"content": ""}, "content_filter"),
}


@define
class Fault(stand_in.PlannedFault):
    """A planned fault; `slow_s` and `retry_after` are of the faults of these names."""

    CALLS: ClassVar[tuple[str, ...]] = ("transcriptions", "completions")
    FAULTS: ClassVar[tuple[str, ...]] = (
        *stand_in.BROKEN, "slow", "redirect", "rate_limit", "quota", "context_length", "length", *_MALFORMED,
    )  # fmt: skip

    slow_s: float = 30.0
    retry_after: str = "1"


@frozen
class Models:
    """The key and the models; `plain` transcribes without times."""

    api_key: str = field(default="sk-stand-in", repr=False)
    transcribes: str = "whisper-1"
    plain: str = "gpt-4o-mini-transcribe"
    writes: str = "gpt-4o-mini"


@define
class Tally:
    """The calls so far, by kind."""

    calls: Counter[str] = field(factory=Counter)
    done: Counter[str] = field(factory=Counter)  # calls that were carried out
    repeats: int = 0  # of them, those for work that was done before, which would be paid twice
    in_flight: int = 0
    most_in_flight: int = 0
    transcribed_s: float = 0.0


class AiStandIn(stand_in.StandIn[Fault]):
    """A running stand-in: the key and the models that it accepts, the least time of a call, its calls."""

    def __init__(self, models: Models, latency_s: float = 0.0) -> None:
        super().__init__(Fault)
        self.models, self.latency_s, self.tally = models, latency_s, Tally()
        self.manner = Manner()  # OpenAI's own
        self.conversations: list[list[Any]] = []
        self.languages: list[str | None] = []  # of each transcription
        self._digests: set[bytes] = set()
        self._released = asyncio.Event()
        self._released.set()

    @property
    def base_url(self) -> str:
        """The equivalent of `https://api.openai.com/v1`."""
        return f"{self.url}/v1"

    def switch(self, request: stand_in.Request) -> stand_in.Switch | None:
        """Return the action of a path of the table above."""
        match request.method, *request.segments[1:]:
            case "GET", "counts":
                return lambda: asdict(self.tally)
            case "GET", "conversations":
                return lambda: self.conversations
            case "PUT", "terms":
                return lambda: self._set_terms(request.json)
            case _:
                return None

    def _set_terms(self, terms: Mapping[str, Any]) -> object:
        self.latency_s = float(terms.get("latency_s", self.latency_s))
        if terms.get("is_held", not self._released.is_set()):
            self._released.clear()
        else:
            self._released.set()
        return {"latency_s": self.latency_s, "is_held": not self._released.is_set()}

    async def answer(self, request: stand_in.Request) -> stand_in.Reply | None:
        """Respond as the provider does; None drops the connection."""
        self.tally.in_flight += 1
        self.tally.most_in_flight = max(self.tally.most_in_flight, self.tally.in_flight)
        try:
            return await self._answer(request)
        finally:
            self.tally.in_flight -= 1

    async def _answer(self, request: stand_in.Request) -> stand_in.Reply | None:
        match request.method, *request.segments:
            case "POST", "v1", "audio", "transcriptions":
                call = "transcriptions"
            case "POST", "v1", "chat", "completions":
                call = "completions"
            case _:
                return _error(404, f"Invalid URL ({request.method} /{'/'.join(request.segments)})")
        self.tally.calls[call] += 1
        fault = self.faults.due(call, request.body)
        await self._released.wait()
        await asyncio.sleep(fault.slow_s if fault and fault.fault == "slow" else self.latency_s)
        if fault is not None and fault.fault in ("hang", "drop"):  # nothing is done
            return await stand_in.broken(fault, request, stand_in.Reply(200))
        reply = self._done(call, request)
        if fault is not None:
            return await _faulty(fault, request, reply)
        if reply.status == 200:
            self._count(call, request)
        return reply

    def _count(self, call: str, request: stand_in.Request) -> None:
        self.tally.done[call] += 1
        content = request.body
        if call == "transcriptions":
            content = form_of(request.headers["content-type"], request.body).file or b""
            self.tally.transcribed_s += sound_length_s(content) or 0.0
        digest = hashlib.sha256(content).digest()
        self.tally.repeats += digest in self._digests
        self._digests.add(digest)

    def _done(self, call: str, request: stand_in.Request) -> stand_in.Reply:
        if request.headers.get("authorization") != f"Bearer {self.models.api_key}":
            return _error(401, "Incorrect API key provided.", "invalid_api_key")
        return self._transcribed(request) if call == "transcriptions" else self._completed(request)

    def _transcribed(self, request: stand_in.Request) -> stand_in.Reply:
        form = form_of(request.headers.get("content-type", ""), request.body)
        model, wanted = form.fields.get("model"), form.fields.get("response_format", "json")
        self.languages.append(form.fields.get("language"))
        if model not in (self.models.transcribes, self.models.plain):
            return _no_model(model)
        if wanted not in _FORMATS or (model == self.models.plain and wanted != "json"):
            message = f"response_format '{wanted}' is not compatible with model '{model}'."
            return _error(400, message, "unsupported_value", "response_format")
        if form.file is None:
            return _error(400, "'file' is a required property", None, "file")
        if len(form.file) > _MAX_FILE_BYTES:
            size = f"({_MAX_FILE_BYTES}) exceeded ({len(form.file)} bytes read)"
            return _error(413, f"Maximum content size limit {size}")
        is_known = form.file_name.rpartition(".")[2].lower() in _KINDS  # the provider checks the name, too
        length_s = sound_length_s(form.file) if is_known else None
        if length_s is None:
            return _error(400, "Invalid file format.", None, "file")
        if length_s < 0.1:
            message = "Audio file is too short. Minimum audio length is 0.1 seconds."
            return _error(400, message, "audio_too_short", "file")
        parts = list(segments(length_s))
        text = "".join(str(each["text"]) for each in parts).strip()
        if wanted == "json":
            return stand_in.as_json({"text": text})
        about = {"task": "transcribe", "language": "indonesian", "duration": length_s, "text": text}
        return stand_in.as_json({**about, "segments": parts})

    def _completed(self, request: stand_in.Request) -> stand_in.Reply:
        body = request.json
        if body.get("model") != self.models.writes:
            return _no_model(body.get("model"))
        form = body.get("response_format", {"type": "text"})
        if form.get("type") not in self.manner.knows:
            status, said = self.manner.refuses(str(form.get("type")))
            return stand_in.as_json(said, status)
        messages = body.get("messages")
        if not messages:
            return _error(400, "'messages' is a required property", None, "messages")
        refused = _refused_format(form, messages)
        if refused is not None:
            return refused
        tokens = prompt_tokens(messages)
        most = self.manner.context_tokens
        if most is not None and tokens > most:
            if self.manner.too_long is not None:
                status, said = self.manner.too_long(tokens, most)
                return stand_in.as_json(said, status)
            messages, tokens = cut(messages, most), most
        self.conversations.append(messages)
        schema = form.get("json_schema", {}).get("schema") or schema_in(messages) or {"properties": {}}
        content = json.dumps(written(schema, utterances_in(messages)), ensure_ascii=False)
        if self.manner.answers_up_to is not None and tokens > self.manner.answers_up_to:
            message = {"content": self.manner.written(content[: len(content) // 2])}
            return _completion(body["model"], message, "length", tokens)
        return _completion(body["model"], {"content": self.manner.written(content)}, "stop", tokens)


def _refused_format(form: Mapping[str, Any], messages: list[Any]) -> stand_in.Reply | None:
    """Check a response format by OpenAI's rules."""
    if form.get("type") == "json_object" and "json" not in str(messages).lower():
        message = "'messages' must contain the word 'json' in some form"
        return _error(400, message, None, "messages")
    if form.get("type") != "json_schema":
        return None
    shape = form.get("json_schema", {})
    try:
        check_schema(shape.get("schema", {}))
    except SchemaRefused as refused:
        return _error(400, f"Invalid schema for response_format: {refused}", None, "response_format")
    if shape.get("strict") is not True or not shape.get("name"):
        return _error(400, "response_format must be strict and have a name", None, "response_format")
    return None


def _error(
    status: int, message: str, code: str | None = None, param: str | None = None, **headers: str
) -> stand_in.Reply:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return stand_in.as_json(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def _no_model(model: object) -> stand_in.Reply:
    message = f"The model `{model}` does not exist or you do not have access to it."
    return _error(404, message, "model_not_found")


def _completion(
    model: object, message: Mapping[str, object], finish_reason: str, tokens: int = 0
) -> stand_in.Reply:
    assistant = {"role": "assistant", "content": None, "refusal": None, **message}
    choice = {"index": 0, "message": assistant, "finish_reason": finish_reason}
    about = {"id": "chatcmpl-stand-in", "object": "chat.completion", "model": model}
    usage = {"prompt_tokens": tokens} if tokens else None
    return stand_in.as_json({**about, "choices": [choice], "usage": usage})


async def _faulty(fault: Fault, request: stand_in.Request, reply: stand_in.Reply) -> stand_in.Reply | None:
    """Apply a fault to the right response; None drops the connection."""
    match fault.fault:
        case name if name in stand_in.BROKEN:
            return await stand_in.broken(fault, request, reply)
        case "redirect":
            return stand_in.Reply(307, b"", {"Location": "http://127.0.0.1:9/elsewhere"})
        case "rate_limit":
            return _error(429, "Rate limit reached.", "rate_limit_exceeded", Retry_After=fault.retry_after)
        case "quota":
            return _error(429, "You exceeded your current quota.", "insufficient_quota")
        case "context_length":
            message = "This model's maximum context length is less."
            return _error(400, message, "context_length_exceeded", "messages")
        case status if status.isdigit():
            return _error(int(status), "As it was planned.")
    body: dict[str, Any] = json.loads(reply.body)
    if "choices" not in body:
        return reply
    if fault.fault == "length":
        content = body["choices"][0]["message"]["content"]
        return _completion(body["model"], {"content": content[: len(content) // 2]}, "length")
    return _completion(body["model"], *_MALFORMED[fault.fault]) if fault.fault in _MALFORMED else reply


def ai_stand_in(
    models: Models | None = None, latency_s: float = 0.0, port: int = 0
) -> AbstractAsyncContextManager[AiStandIn]:
    """Run a stand-in on loopback, on a free port unless one is given."""
    return AiStandIn(models or Models(), latency_s).served(port)


def main() -> None:
    """Run it as a process."""
    parser = argparse.ArgumentParser(prog="python -m meetcore.testing.ai_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--api-key", default=Models().api_key)
    options = parser.parse_args()
    stand_in.run_stand_in(
        ai_stand_in(Models(api_key=options.api_key), options.latency_s, options.port),
        lambda ai: {
            "base_url": ai.base_url, "admin_url": f"{ai.url}/stand-in",
            "transcribe_model": ai.models.transcribes, "write_model": ai.models.writes,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
