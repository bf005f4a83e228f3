"""The conversation about one call, without I/O: the requests, their times, and the meaning of the responses.

::

    run_with_retries(call)  ---Send(call, wait_s, timeout_s)-->  a transport: waits, sends
                            <--HttpResponse | NoResponse-------
                   ... until there is a result to return or an error to raise

A lost connection, a time-out, and the statuses 429, 500, 502, 503, 504 are retried: every call can be
repeated, because it reads or has an idempotency key, the same at each attempt. Nothing else is retried: any
other 4xx status means that the call itself has to change. The wait is `Retry-After` and an exponential
back-off with full jitter, so that many clients with the same `Retry-After` do not return at once. Where no
host is free until after the deadline, the error is raised at once.

A procedure is a call of several requests or pauses, described as steps that either transport runs.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import count
from types import NoneType
from typing import Any, Protocol, TypeVar, cast

from attrs import field, frozen

from meetcore.client import errors
from meetcore.client.calls import Call
from meetcore.client.decoding import decoded
from meetcore.client.records import Response

__all__ = [
    "RETRIED_STATUSES", "Fetch", "HttpResponse", "Means", "NoResponse", "Pause", "Procedure", "RetryPolicy",
    "Send", "Step", "Steps", "is_retryable", "read_response", "run_with_retries",
]  # fmt: skip

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_MAX_DOUBLINGS = 30  # the back-off has reached its maximum long before

log = logging.getLogger("meetcore.client")


@frozen
class RetryPolicy:
    """The limits of a call's attempts and waits, in seconds.

    The defaults outlast the settling of a meeting whose provider does not respond, which takes about 30 s.
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
        """Return the seconds to wait after so many attempts; `jitter` is drawn from [0, 1)."""
        doublings = min(attempts - 1, _MAX_DOUBLINGS)
        return (retry_after_s or 0) + jitter * min(self.max_delay_s, self.first_delay_s * float(2**doublings))


@frozen
class Send:
    """A request to send after a wait."""

    call: Call[Any]
    wait_s: float
    timeout_s: float


@frozen
class HttpResponse:
    """A complete response. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@frozen
class NoResponse:
    """No complete response, for a reason."""

    reason: str
    is_timeout: bool = False


@frozen
class Means:
    """The clock, the jitter and the policy of a client, for a procedure."""

    policy: RetryPolicy
    clock: Callable[[], float]
    jitter: Callable[[], float]


@frozen
class Pause:
    """A wait of so many seconds."""

    seconds: float


@frozen
class Fetch:
    """A request to an address outside the API, without the API key.

    `is_wanted` decides by status and headers: a wanted body goes to `take`, piece by piece and not
    decompressed; any other is part of the `HttpResponse`.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    is_wanted: Callable[[int, Mapping[str, str]], bool]
    take: Callable[[bytes], object]


Step = Call[Any] | Pause | Fetch
Steps = Generator[Step, Any, T_co]
"""Steps to a result. A `Call` is answered with its result; one that fails ends the procedure."""


class Procedure(Protocol[T_co]):
    """A description of steps."""

    def steps(self, means: Means) -> Steps[T_co]:
        """Begin anew."""


def run_with_retries(
    call: Call[T], policy: RetryPolicy, clock: Callable[[], float], jitter: Callable[[], float]
) -> Generator[Send, HttpResponse | NoResponse, Response[T]]:
    """Run a call with retries; raise the `MeetcoreError` of the last attempt.

    `clock` returns seconds from any beginning, `jitter` draws from [0, 1).
    """
    ends_at, left_s, wait_s = clock() + policy.max_total_s, policy.max_total_s, 0.0
    for attempt in count(1):
        reply = yield Send(call, wait_s, min(policy.timeout_s, left_s))
        try:
            result = read_response(call, reply)
            assert isinstance(reply, HttpResponse)
            return Response(reply.status, result, reply.headers, reply.body, attempt, call.idempotency_key)
        except errors.MeetcoreError as failure:
            error = failure
        error.attempts, error.idempotency_key = attempt, call.idempotency_key
        if not is_retryable(error) or attempt >= policy.max_attempts:
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


def is_retryable(error: errors.MeetcoreError) -> bool:
    """Return whether the same call may succeed later."""
    return isinstance(error, errors.ConnectionFailed) or error.status in RETRIED_STATUSES


def _is_free_too_late(error: errors.MeetcoreError, reply: HttpResponse | NoResponse, left_s: float) -> bool:
    """Return whether a host becomes free only after the deadline, by the date of the response."""
    at = error.next_available_at if isinstance(error, errors.ServiceUnavailable) else None
    date = _date_of(reply.headers) if isinstance(reply, HttpResponse) else None
    return at is not None and date is not None and (at - date).total_seconds() > left_s


def read_response(call: Call[T], reply: HttpResponse | NoResponse) -> T:
    """Return the result in a reply, or raise the `MeetcoreError` of it."""
    if isinstance(reply, NoResponse):
        kind = errors.TimedOut if reply.is_timeout else errors.ConnectionFailed
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


def _refusal(call: Call[Any], response: HttpResponse) -> errors.MeetcoreError:
    envelope = decoded(response.body, _Envelope)
    if envelope is None:
        return _unexpected(call, response, "a body that is no error of the API")
    failure, about = envelope.error, _about(response)
    about["request_id"] = failure.request_id or about["request_id"]
    return errors.error_for(failure.code)(
        failure.message, code=failure.code, details=failure.details, docs_url=failure.docs_url, **about
    )


def _unexpected(call: Call[Any], response: HttpResponse, what: str) -> errors.UnexpectedResponse:
    text = f"{call.method} {call.path}: status {response.status} with {what}"
    return errors.UnexpectedResponse(text, **_about(response))


def _about(response: HttpResponse) -> dict[str, Any]:
    return {
        "status": response.status,
        "request_id": response.headers.get("x-request-id"),
        "retry_after_s": _retry_after_s(response.headers),
    }


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Return the seconds of `Retry-After`; a date, as proxies send it, counts from `Date`."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    at, date = _moment(text), _date_of(headers)
    return None if at is None or date is None else max(0, int((at - date).total_seconds()))


def _date_of(headers: Mapping[str, str]) -> datetime | None:
    return _moment(headers.get("date", ""))


def _moment(text: str) -> datetime | None:
    """Parse an HTTP date; None for one without an offset."""
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if at.tzinfo is None else at
