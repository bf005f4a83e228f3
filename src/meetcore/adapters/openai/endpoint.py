"""The endpoint: its settings, one request, and the effect of its response on the note.

=======================================  ==============================================================
status                                   the note
=======================================  ==============================================================
2xx                                      goes on
3xx, 401, 402, 403, 404, 405             waits; an error log asks the operator to check the settings
408, 409, 425, 429, 5xx                  waits, at least for `Retry-After`
413, a context that is too long          goes on in smaller parts
400, 422 that name the response format   goes on with the next format that the writer knows
any other                                fails
=======================================  ==============================================================

A 400 or 422 that names the model, or another parameter of ours, is a wrong setting too. Without a whole
response of at most 4 MiB in time, the note waits. Nothing is repeated here. Response texts are not logged:
they may quote the meeting.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final

import msgspec
from attrs import field, frozen

from meetcore.adapters.bounded_http import BoundedHttp, HttpResponse, NoResponse, NotSent
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.observability import NO_TRACING, Log, Tracing

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
_SETTINGS: Final = frozenset({401, 402, 403, 404, 405, 407})
_NOT_NOW: Final = frozenset({408, 409, 425, 429})
_OUR_PARAMETERS: Final = frozenset({"model", "response_format", "language", "messages"})
_LONGEST_WAIT_S: Final = 86_400.0
# OpenAI and Azure send milliseconds, the more exact ones, beside whole seconds; Groq sends fractions.
_DELAYS: Final = {"Retry-After-Ms": 0.001, "X-Ms-Retry-After-Ms": 0.001, "Retry-After": 1.0}
_SECONDS: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)s?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")

# The words of OpenAI, vLLM, Ollama, llama.cpp, LM Studio, TGI, Groq, Mistral and Gemini.
_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|size|window)|maximum model length|must have less than \d+ tokens|max_new_tokens"
    r"|tokens to keep|keep the first \d+ tokens|reduce the length|too many tokens|maximum number of tokens"
    r"|(?:prompt|inputs?|request|messages?)\b[^.]{0,40}(?:too (?:long|large)|exceed)",
    re.IGNORECASE,
)
_FORMAT: Final = re.compile(
    r"response[ _]?format|json_?(?:schema|object)|structured[ _]output|guided|grammar", re.IGNORECASE
)
_MODEL: Final = re.compile(
    r"model\b.{0,160}\b(?:not (?:be )?(?:found|exist|loaded)|does not exist|is not supported|unknown|invalid)"
    r"|no models? (?:is |are )?loaded|(?:unknown|invalid) model|DeploymentNotFound",
    re.IGNORECASE | re.DOTALL,
)
_READ_BYTES: Final = 16_384


class ContextTooLong(AiRefused):
    """The request is longer than the context of the model."""


class FormatRefused(AiUnavailable):
    """The endpoint does not know the response format."""


@frozen
class AiAccess:
    """Settings of an endpoint; `base_url` ends with the version, and self-hosted ones may have no `api_key`.

    `timeout_s` is for one call, the upload included. `returns_timestamps`: the model supports `verbose_json`,
    with the second of each segment; others return bare text and get shorter pieces. `spoken_language` is
    an ISO 639-1 code, `note` for that of the note, `auto` to let the model find out. `context_chars` are the
    characters of a transcript per call; a longer one is written in parts.
    """

    base_url: str
    api_key: str = field(repr=False)
    transcribe_model: str
    write_model: str
    timeout_s: float = 120.0
    returns_timestamps: bool = True
    spoken_language: str = "note"
    context_chars: int = 200_000


class AiEndpoint:
    """Sends requests to one endpoint, each in a span."""

    def __init__(
        self, access: AiAccess, log: Log, now: Callable[[], datetime], tracing: Tracing = NO_TRACING
    ) -> None:
        self._base_url = access.base_url
        self._headers = {"Accept": "application/json"}
        if access.api_key:
            self._headers["Authorization"] = f"Bearer {access.api_key}"
        self._log = log
        self._now = now
        self._tracing = tracing
        self._http = BoundedHttp(
            max_bytes=MAX_RESPONSE_BYTES,
            connect_s=5.0,
            whole_s=access.timeout_s,
            connections=64,
            tracing=tracing,
        )

    async def post_json(self, path: str, body: object) -> bytes:
        """Send JSON and return the response body; raise `AiUnavailable` or `AiRefused`."""
        return await self._post(path, json=body)

    async def post_file(
        self, path: str, fields: Mapping[str, str], name: str, file: BinaryIO, media_type: str
    ) -> bytes:
        """Send a form with a file, read from its position. Raises as `post_json`."""
        return await self._post(path, data=dict(fields), files={"file": (name, file, media_type)})

    async def _post(self, path: str, **content: Any) -> bytes:
        with self._tracing.span(f"ai {path}"):
            try:
                response = await self._http.send("POST", self._base_url + path, self._headers, **content)
            except (NotSent, NoResponse) as error:
                raise AiUnavailable(f"ai: {error}") from None
        return require_done(response, self._log, self._now)

    async def aclose(self) -> None:
        await self._http.aclose()


@frozen
class _Fault:
    code: str | None = None
    type: str | None = None
    param: str | None = None
    message: str = field(default="", repr=False)


def require_done(response: HttpResponse, log: Log, now: Callable[[], datetime]) -> bytes:
    """Return the body of a successful response.

    Raises:
        AiUnavailable: as the table above says; `FormatRefused` for the response format.
        AiRefused: for good; `ContextTooLong` for too long a request.
    """
    status = response.status
    if response.is_done:
        return response.body
    fault = _fault(response.body)
    text, is_refused = fault.message, status in (400, 413, 422, 500)
    if status == 413 or (is_refused and fault.code != "model_not_found" and _TOO_LONG.search(text)):
        raise ContextTooLong(f"ai: status {status}, context too long")
    if status in (400, 422) and (fault.param == "response_format" or _FORMAT.search(text)):
        raise FormatRefused(f"ai: status {status}, response format refused")
    is_ours = fault.param in _OUR_PARAMETERS or fault.code == "model_not_found" or _MODEL.search(text)
    if status < 400 or status in _SETTINGS or (status in (400, 422) and is_ours):
        log_settings(log, status=status, code=_token(fault.code), param=_token(fault.param))
        raise AiUnavailable(f"ai: status {status}, settings refused")
    if status in _NOT_NOW or status >= 500:
        raise AiUnavailable(f"ai: status {status}", retry_after_s(response, now()))
    log.warning("ai_refused", status=status, code=_token(fault.code), type=_token(fault.type))
    raise AiRefused(f"ai: status {status}")


def log_settings(log: Log, **fields: object) -> None:
    """Ask the operator to check the settings."""
    hint = "look at the settings that begin with MEETCORE_AI_, and ask `meetcore doctor`"
    log.error("ai_settings_refused", **fields, hint=hint)


def retry_after_s(response: HttpResponse, now: datetime) -> float | None:
    """Return the seconds of `Retry-After` or `Retry-After-Ms`, at most a day; `None` without one."""
    for name, unit_s in _DELAYS.items():
        if found := _SECONDS.fullmatch(response.headers.get(name, "").strip()):
            return min(float(found[1]) * unit_s, _LONGEST_WAIT_S)
    try:
        at = parsedate_to_datetime(response.headers.get("Retry-After", "").strip())
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - now).total_seconds()), _LONGEST_WAIT_S)


def _fault(body: bytes) -> _Fault:
    """Read what names a fault: OpenAI's `error`, or FastAPI's `detail`, which echoes the request."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Fault(message=body[:_READ_BYTES].decode("utf-8", "replace"))
    found: dict[str, object]
    match answer:
        case {"detail": [{"loc": ["body", str(param), *_], "msg": str(message)}, *_]}:
            return _Fault(param=param, message=message)
        case {"error": dict(found)}:
            pass
        case {"error": str(text)} | {"detail": str(text)}:
            return _Fault(message=text)
        case dict(found):
            pass
        case _:
            return _Fault()
    code, kind, place = (_name(found.get(name)) for name in ("code", "type", "param"))
    return _Fault(code, kind, place, str(found.get("message", ""))[:_READ_BYTES])


def _name(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) else None


def _token(value: str | None) -> str | None:
    """Return an identifier of the endpoint, never a sentence."""
    return value if value is not None and _TOKEN.fullmatch(value) else None
