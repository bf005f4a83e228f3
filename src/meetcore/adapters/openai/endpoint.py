"""The endpoint: its settings, one request, and the effect of its response on the note.

===============================  ==================================================================
status                           the note
===============================  ==================================================================
2xx                              goes on
3xx, 401, 402, 403, 404, 405     waits; an error log asks the operator to check the settings
408, 409, 425, 429, 5xx          waits, at least for `Retry-After`
any other                        fails
===============================  ==================================================================

A 400 that names one of our parameters is a wrong setting too. Without a whole response of at most 4 MiB in
time, the note waits. Nothing is repeated here. Response texts are not logged: they may quote the meeting.
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
_OUR_PARAMETERS: Final = frozenset({"model", "response_format"})
_LONGEST_WAIT_S: Final = 86_400.0
# OpenAI and Azure send milliseconds, the more exact ones, beside whole seconds; Groq sends fractions.
_DELAYS: Final = {"Retry-After-Ms": 0.001, "X-Ms-Retry-After-Ms": 0.001, "Retry-After": 1.0}
_SECONDS: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)s?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


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
    code: str | int | None = None
    type: str | None = None
    param: str | None = None


@frozen
class _Refusal:
    error: _Fault


def require_done(response: HttpResponse, log: Log, now: Callable[[], datetime]) -> bytes:
    """Return the body of a successful response. Raises as `AiEndpoint.post_json`."""
    status = response.status
    if response.is_done:
        return response.body
    fault = _fault(response.body)
    if status < 400 or status in _SETTINGS or (status == 400 and fault.param in _OUR_PARAMETERS):
        log.error(
            "ai_settings_refused", status=status, code=_token(fault.code), param=_token(fault.param),
            hint="look at the settings that begin with MEETCORE_AI_",
        )  # fmt: skip
        raise AiUnavailable(f"ai: status {status}, settings refused")
    if status in _NOT_NOW or status >= 500:
        raise AiUnavailable(f"ai: status {status}", retry_after_s(response, now()))
    log.warning("ai_refused", status=status, code=_token(fault.code), type=_token(fault.type))
    raise AiRefused(f"ai: status {status}")


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
    try:
        return msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Fault()


def _token(value: str | int | None) -> str | None:
    """Return an identifier of the endpoint, never a sentence."""
    return str(value) if value is not None and _TOKEN.fullmatch(str(value)) else None
