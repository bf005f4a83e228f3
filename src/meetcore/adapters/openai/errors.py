"""What an answer means for the note: it goes on, it waits, or it cannot be made.

===============================  ==================================================================
status                           the note
===============================  ==================================================================
2xx                              goes on
3xx, 401, 402, 403, 404, 405     waits, and the log asks the operator for help: the address, the
                                 key, the model or the bill is wrong, and the customer is not
408, 409, 425, 429, 5xx          waits, at least as long as `Retry-After` says
any other                        cannot be made: what was sent is refused
===============================  ==================================================================

A 400 that names a parameter of ours is a wrong setting too: the endpoint does not support the request.

Owns that table. It never waits, and never logs an answer's text: it may quote the meeting.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec
from attrs import frozen

from meetcore.adapters.openai.access import Log
from meetcore.adapters.openai.http import HttpResponse
from meetcore.ports.ai import AiRefused, AiUnavailable

_SETTINGS: Final = frozenset({401, 402, 403, 404, 405, 407})
_NOT_NOW: Final = frozenset({408, 409, 425, 429})
_OUR_PARAMETERS: Final = frozenset({"model", "response_format"})
_LONGEST_WAIT_S: Final = 86_400.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


@frozen
class _Fault:
    code: str | int | None = None
    type: str | None = None
    param: str | None = None


@frozen
class _Refusal:
    error: _Fault


def require_done(response: HttpResponse, log: Log, now: Callable[[], datetime]) -> bytes:
    """The body of a successful answer.

    Args:
        now: the present instant, aware, for a `Retry-After` that names one.

    Raises:
        AiUnavailable: it may be done later.
        AiRefused: it will not be done.
    """
    status = response.status
    if 200 <= status < 300:
        return response.body
    fault = _fault(response.body)
    if status < 400 or status in _SETTINGS or (status == 400 and fault.param in _OUR_PARAMETERS):
        log.error(
            "ai_settings_refused", status=status, code=_token(fault.code), param=_token(fault.param),
            hint="look at the settings that begin with MEETCORE_AI_",
        )  # fmt: skip
        raise AiUnavailable(f"ai: status {status}, our settings are refused")
    if status in _NOT_NOW or status >= 500:
        raise AiUnavailable(f"ai: status {status}", retry_after_s(response, now()))
    log.warning("ai_refused", status=status, code=_token(fault.code), type=_token(fault.type))
    raise AiRefused(f"ai: status {status}")


def retry_after_s(response: HttpResponse, now: datetime) -> float | None:
    """Seconds to wait before the next request by the answer, a day at most; `None` where it names none."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), _LONGEST_WAIT_S)
    try:
        at = parsedate_to_datetime(text)
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
    """A name that the endpoint gives; nothing that could be a sentence."""
    return str(value) if value is not None and _TOKEN.fullmatch(str(value)) else None
