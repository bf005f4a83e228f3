"""The conversation about one call, without I/O: what to send, when, and what the replies mean.

::

    run_with_retries(call)  ---Send(call, wait_s, timeout_s)-->  a transport: waits, sends
                            <--HttpResponse | NoResponse-------
                   ... until there is a result to return or an error to raise

Tried again are a lost connection, a time-out, and the statuses 429, 500, 502, 503, 504: every call can be
repeated, because it reads or has an idempotency key, the same at each attempt. Nothing else is: another
4xx says that the call itself has to change. `Retry-After` is the least wait; on top comes an exponential
back-off with full jitter, so that many clients with the same `Retry-After` do not come back at once. Where
no host is free, and the first that is comes later than the caller waits, nothing is waited for.

Owns retrying and reading. Waiting, sending, the clock and the API key are the transport's.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import count
from types import NoneType
from typing import Any, TypeVar, cast

from attrs import field, frozen

from meetcore.client.calls import Call
from meetcore.client.decoding import decoded
from meetcore.client.errors import (
    ConnectionFailed,
    MeetcoreError,
    ServiceUnavailable,
    TimedOut,
    UnexpectedResponse,
    error_for,
)
from meetcore.client.response import Response

__all__ = [
    "RETRIED_STATUSES",
    "HttpResponse",
    "NoResponse",
    "RetryPolicy",
    "Send",
    "may_pass",
    "run_with_retries",
    "understand",
]

T = TypeVar("T")
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_MAX_DOUBLINGS = 30  # beyond it every back-off is at its longest anyway

log = logging.getLogger("meetcore.client")


@frozen
class RetryPolicy:
    """How long and how often a call is tried. All times are seconds.

    The defaults outlast the settling of a meeting whose provider does not answer, which takes about 30 s.
    """

    timeout_s: float = 30.0
    max_attempts: int = 6
    max_total_s: float = 120.0
    first_delay_s: float = 0.5
    max_delay_s: float = 8.0

    def __attrs_post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts is at least 1")
        if not (self.timeout_s > 0 and self.max_total_s > 0):
            raise ValueError("timeout_s and max_total_s are above 0")

    def wait_s(self, attempts: int, retry_after_s: int | None, jitter: float) -> float:
        """Seconds before the next attempt, after so many; `jitter` is drawn from [0, 1)."""
        doublings = min(attempts - 1, _MAX_DOUBLINGS)
        return (retry_after_s or 0) + jitter * min(self.max_delay_s, self.first_delay_s * float(2**doublings))


@frozen
class Send:
    """Wait, then send this and pass back the reply."""

    call: Call[Any]
    wait_s: float
    timeout_s: float


@frozen
class HttpResponse:
    """A whole answer. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@frozen
class NoResponse:
    """No whole answer; `reason` says why."""

    reason: str
    is_timeout: bool = False


def run_with_retries(
    call: Call[T], policy: RetryPolicy, clock: Callable[[], float], jitter: Callable[[], float]
) -> Generator[Send, HttpResponse | NoResponse, Response[T]]:
    """Run a call with retries.

    Args:
        call: what is asked.
        policy: how long and how often.
        clock: seconds from any beginning.
        jitter: draws from [0, 1).

    Raises:
        MeetcoreError: how the last attempt ended.
    """
    ends_at, left_s, wait_s = clock() + policy.max_total_s, policy.max_total_s, 0.0
    for attempt in count(1):
        reply = yield Send(call, wait_s, min(policy.timeout_s, left_s))
        try:
            return _response(call, reply, attempt)
        except MeetcoreError as failure:
            error = failure
        error.attempts, error.idempotency_key = attempt, call.idempotency_key
        if not may_pass(error) or attempt >= policy.max_attempts:
            raise error
        wait_s = policy.wait_s(attempt, error.retry_after_s, jitter())
        left_s = ends_at - clock() - wait_s
        if left_s <= 0 or _is_free_too_late(error, reply, left_s + wait_s):
            raise error
        log.info(
            "%s %s: attempt %d failed (%s), the next one in %.1f s",
            call.method, call.path, attempt, error.status or type(error).__name__, wait_s,
        )  # fmt: skip
    raise AssertionError("count does not end")  # pragma: no cover


def may_pass(error: MeetcoreError) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, ConnectionFailed) or error.status in RETRIED_STATUSES


def _response(call: Call[T], reply: HttpResponse | NoResponse, attempts: int) -> Response[T]:
    result = understand(call, reply)
    assert isinstance(reply, HttpResponse)
    return Response(reply.status, result, reply.headers, reply.body, attempts, call.idempotency_key)


def _is_free_too_late(error: MeetcoreError, reply: HttpResponse | NoResponse, left_s: float) -> bool:
    """Whether a host becomes free only after the deadline, by the answer's own date."""
    at = error.next_available_at if isinstance(error, ServiceUnavailable) else None
    answered_at = _date_of(reply.headers) if isinstance(reply, HttpResponse) else None
    return at is not None and answered_at is not None and (at - answered_at).total_seconds() > left_s


def understand(call: Call[T], reply: HttpResponse | NoResponse) -> T:
    """The result that a reply holds.

    Raises:
        MeetcoreError: it holds no result.
    """
    if isinstance(reply, NoResponse):
        kind = TimedOut if reply.is_timeout else ConnectionFailed
        raise kind(f"{call.method} {call.path}: {reply.reason}")
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        raise _refusal(call, reply)
    if call.into is NoneType:
        return cast(T, None)
    if call.into is str:
        return cast(T, reply.body.decode(errors="replace"))
    found = decoded(reply.body, call.into)
    if found is None:
        raise _unexpected(call, reply, "a record that this version cannot read")
    return found


@frozen
class _ErrorFields:
    code: str
    message: str = ""
    docs_url: str = ""
    request_id: str = ""
    details: Mapping[str, Any] = field(factory=dict)


@frozen
class _Envelope:
    error: _ErrorFields


def _refusal(call: Call[Any], response: HttpResponse) -> MeetcoreError:
    envelope = decoded(response.body, _Envelope)
    if envelope is None:
        return _unexpected(call, response, "no error of the API")
    failure = envelope.error
    return error_for(failure.code)(
        failure.message,
        code=failure.code,
        details=failure.details,
        docs_url=failure.docs_url,
        status=response.status,
        request_id=failure.request_id or response.headers.get("x-request-id"),
        retry_after_s=_retry_after_s(response.headers),
    )


def _unexpected(call: Call[Any], response: HttpResponse, what: str) -> UnexpectedResponse:
    return UnexpectedResponse(
        f"{call.method} {call.path} was answered {response.status} with {what}",
        status=response.status,
        request_id=response.headers.get("x-request-id"),
        retry_after_s=_retry_after_s(response.headers),
    )


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Whole seconds; a date, as proxies send it, is held against the answer's own."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    at, answered_at = _moment(text), _date_of(headers)
    return None if at is None or answered_at is None else max(0, int((at - answered_at).total_seconds()))


def _date_of(headers: Mapping[str, str]) -> datetime | None:
    return _moment(headers.get("date", ""))


def _moment(text: str) -> datetime | None:
    """An HTTP date; None for one without an offset."""
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if at.tzinfo is None else at
