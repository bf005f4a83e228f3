"""The paths under `/v1`: `audio/transcriptions` and `chat/completions`, as OpenAI documents them.

It holds callers to what the real one holds them to: the key, the models, 25 MB for a file, a sound that is
one, a strict schema. It counts every call, how many were in flight at once, and how often it was asked to do
what it had done before: that is what would be paid twice.
"""

import asyncio
import hashlib
import json
from collections import Counter
from typing import Any, Final

from attrs import define, field, frozen

from meetcore.testing.ai.faults import Fault, completion, error, misanswered
from meetcore.testing.ai.lengths import sound_length_s
from meetcore.testing.ai.transcription import form_of, segments
from meetcore.testing.ai.writing import SchemaRefused, check_schema, utterances_in, written
from meetcore.testing.planned_faults import Faults
from meetcore.testing.wire import Reply, Request, as_json

__all__ = ["MAX_FILE_BYTES", "AiApi", "Models", "Tally"]

MAX_FILE_BYTES: Final = 25 * 1024 * 1024
_KINDS: Final = frozenset({"flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm"})
_FORMATS: Final = ("json", "verbose_json")


@frozen
class Models:
    """The key and the models that the stand-in knows; `plain` transcribes too, without times."""

    api_key: str = field(default="sk-stand-in", repr=False)
    transcribes: str = "whisper-1"
    plain: str = "gpt-4o-mini-transcribe"
    writes: str = "gpt-4o-mini"


@define
class Tally:
    """What was asked.

    Attributes:
        calls: requests by kind.
        done: of them, those that were answered with what was asked for.
        repeats: of those, the ones that asked for what had been done before.
        in_flight: requests that are being answered.
        most_in_flight: the most that there were at once.
        transcribed_s: seconds of sound, of those that were done.
    """

    calls: Counter[str] = field(factory=Counter)
    done: Counter[str] = field(factory=Counter)
    repeats: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    transcribed_s: float = 0.0


class AiApi:
    """Answers the clients.

    Args:
        latency_s: how long every call takes at least.
    """

    def __init__(self, models: Models, latency_s: float = 0.0) -> None:
        self.models = models
        self.latency_s = latency_s
        self.faults = Faults[Fault]()
        self.tally = Tally()
        self.conversations: list[list[Any]] = []
        self._digests: set[bytes] = set()

    async def answer(self, request: Request) -> Reply | None:
        """Answer one request; None drops the connection."""
        tally = self.tally
        tally.in_flight += 1
        tally.most_in_flight = max(tally.most_in_flight, tally.in_flight)
        try:
            return await self._answer(request)
        finally:
            tally.in_flight -= 1

    async def _answer(self, request: Request) -> Reply | None:
        match request.method, *request.segments:
            case "POST", "v1", "audio", "transcriptions":
                call = "transcriptions"
            case "POST", "v1", "chat", "completions":
                call = "completions"
            case _:
                return error(404, f"Invalid URL ({request.method} /{'/'.join(request.segments)})")
        self.tally.calls[call] += 1
        fault = self.faults.due(call, request.body)
        await asyncio.sleep(fault.slow_s if fault and fault.fault == "slow" else self.latency_s)
        if fault is not None and fault.fault in ("hang", "drop"):
            if fault.fault == "hang":
                await request.until_disconnected()
            return None
        reply = self._done(call, request)
        if fault is not None:
            return misanswered(fault, reply)
        if reply.status == 200:
            self._count(call, request)
        return reply

    def _count(self, call: str, request: Request) -> None:
        self.tally.done[call] += 1
        content = request.body
        if call == "transcriptions":
            content = form_of(request.headers["content-type"], request.body).file or b""
            self.tally.transcribed_s += sound_length_s(content) or 0.0
        digest = hashlib.sha256(content).digest()
        self.tally.repeats += digest in self._digests
        self._digests.add(digest)

    def _done(self, call: str, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {self.models.api_key}":
            return error(401, "Incorrect API key provided.", "invalid_api_key")
        return self._transcribed(request) if call == "transcriptions" else self._completed(request)

    def _transcribed(self, request: Request) -> Reply:
        form = form_of(request.headers.get("content-type", ""), request.body)
        model, form_wanted = form.fields.get("model"), form.fields.get("response_format", "json")
        if model not in (self.models.transcribes, self.models.plain):
            return _no_model(model)
        if form_wanted not in _FORMATS or (model == self.models.plain and form_wanted != "json"):
            return error(400, f"response_format '{form_wanted}' is not compatible with model '{model}'.",
                         "unsupported_value", "response_format")  # fmt: skip
        if form.file is None:
            return error(400, "'file' is a required property", None, "file")
        if len(form.file) > MAX_FILE_BYTES:
            return error(
                413, f"Maximum content size limit ({MAX_FILE_BYTES}) exceeded ({len(form.file)} bytes read)"
            )
        # The real one goes by the name.
        is_known = form.file_name.rpartition(".")[2].lower() in _KINDS
        length_s = sound_length_s(form.file) if is_known else None
        if length_s is None:
            return error(400, "Invalid file format.", None, "file")
        if length_s < 0.1:
            message = "Audio file is too short. Minimum audio length is 0.1 seconds."
            return error(400, message, "audio_too_short", "file")
        utterances = list(segments(length_s))
        text = "".join(str(each["text"]) for each in utterances).strip()
        if form_wanted == "json":
            return as_json({"text": text})
        about = {"task": "transcribe", "language": "indonesian", "duration": length_s, "text": text}
        return as_json({**about, "segments": utterances})

    def _completed(self, request: Request) -> Reply:
        body = request.json
        if body.get("model") != self.models.writes:
            return _no_model(body.get("model"))
        shape = body.get("response_format", {}).get("json_schema", {})
        schema = shape.get("schema", {})
        try:
            check_schema(schema)
        except SchemaRefused as refused:
            return error(400, f"Invalid schema for response_format: {refused}", None, "response_format")
        if shape.get("strict") is not True or not shape.get("name"):
            return error(400, "response_format must be strict and have a name", None, "response_format")
        self.conversations.append(body["messages"])
        content = json.dumps(written(schema, utterances_in(body["messages"])), ensure_ascii=False)
        return completion(body["model"], {"content": content}, "stop")


def _no_model(model: object) -> Reply:
    return error(
        404, f"The model `{model}` does not exist or you do not have access to it.", "model_not_found"
    )
