"""The exceptions of the client: one tree, by the codes of the API.

::

    MeetcoreError                     all of these
    ├── ConnectionFailed              no complete response: the outcome is unknown
    │   └── TimedOut                  ... within the time limit
    ├── UnexpectedResponse            not a response of the API: a proxy's page, a broken record
    ├── InvalidEvent                  a signed webhook whose body is no event
    ├── NoteFailed                    the awaited notes failed; `note` has the reason
    ├── WaitTimedOut                  no completed notes by the deadline; they may follow
    └── ApiError                      a refusal of the API, with its code
        ├── InvalidRequest            invalid_request        `fields`
        ├── InvalidApiKey             invalid_api_key
        ├── InsufficientScope         insufficient_scope     `required`
        ├── NotFound                  not_found
        ├── Conflict                  conflict               `existing_id`
        ├── Gone                      gone
        ├── Unprocessable             unprocessable_entity
        │   ├── IdempotencyKeyReused  idempotency_key_reused `existing_id`
        │   ├── InsufficientCredits   insufficient_credits   `required`, `available`
        │   └── CreditCapExceeded     credit_cap_exceeded    `cap`, `spent`, `required`, `resets_at`
        ├── RateLimited               rate_limited           `limit`, `window_seconds`
        ├── InternalError             internal_error
        ├── UpstreamError             upstream_error
        └── ServiceUnavailable        service_unavailable    `next_available_at`

An unknown code is an `ApiError` itself. No error carries an API key, a request's body or a secret. A mistake
in the arguments of a call is a ValueError or a TypeError, raised before anything is sent.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from meetcore.client.records import Note

__all__ = [
    "ApiError", "Conflict", "ConnectionFailed", "CreditCapExceeded", "Gone", "IdempotencyKeyReused",
    "InsufficientCredits", "InsufficientScope", "InternalError", "InvalidApiKey", "InvalidEvent",
    "InvalidRequest", "MeetcoreError", "NotFound", "NoteFailed", "RateLimited", "ServiceUnavailable",
    "TimedOut", "UnexpectedResponse", "Unprocessable", "UpstreamError", "WaitTimedOut",
]  # fmt: skip

T = TypeVar("T")
_by_code: "dict[str, type[ApiError]]" = {}


class MeetcoreError(Exception):
    """The call failed after `attempts` attempts; the error describes the last one.

    `request_id` is for support. `idempotency_key` is that of every attempt: a call with it repeats the same
    request, also an hour later. `retry_after_s` is the wait that the last response asked for, in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.idempotency_key: str | None = None
        self.attempts = 1

    def __str__(self) -> str:
        text = self._line()
        return text if self.request_id is None else f"{text} (request {self.request_id})"

    def _line(self) -> str:
        return self.message


class ConnectionFailed(MeetcoreError):
    """No complete response came. A call that changes something may have succeeded all the same."""


class TimedOut(ConnectionFailed):
    """No complete response came in time."""


class UnexpectedResponse(MeetcoreError):
    """Not a response of the API: something else responded, or a record that this version cannot read."""


class InvalidEvent(MeetcoreError):
    """The signature is right and the body is no event. Drop the delivery: a retry sends the same bytes."""


class _NoteError(MeetcoreError):
    def __init__(self, message: str, *, note: Note | None = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.note = note


class NoteFailed(_NoteError):
    """The awaited note failed and cost nothing. `note` is the record, with its `error`."""


class WaitTimedOut(_NoteError):
    """No completed note by the deadline. `note` is its state then; None where there is none yet."""


class ApiError(MeetcoreError):
    """A refusal of the API. Branch on the class, or on `code`; `message` is for people and may change."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        details: Mapping[str, object] | None = None,
        docs_url: str = "",
        **about: Any,
    ) -> None:
        super().__init__(message, **about)
        self.code = code
        self.docs_url = docs_url
        self._details = dict(details or {})

    def __init_subclass__(cls, code: str) -> None:
        _by_code[code] = cls

    @property
    def details(self) -> Mapping[str, object]:
        """The API's details beside the message; may be empty."""
        return MappingProxyType(self._details)

    def __str__(self) -> str:
        return f"{self.code}: {super().__str__()}"


class _Detail(Generic[T]):
    """An attribute that reads a field of the details; empty where that is missing or malformed."""

    def __init__(self, name: str, read: Callable[[object], T]) -> None:
        self._name, self._read = name, read

    def __get__(self, error: ApiError | None, kind: type[ApiError]) -> T:
        return self._read(None if error is None else error.details.get(self._name))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _problems(value: object) -> dict[str, tuple[str, ...]]:
    return {name: _texts(each) for name, each in value.items()} if isinstance(value, dict) else {}


def _instant(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(_text(value) or "")
    except ValueError:
        return None
    return None if at.tzinfo is None else at


class InvalidRequest(ApiError, code="invalid_request"):
    """Fields break their rules. `fields` has every problem of each; the text includes the first."""

    fields = _Detail("fields", _problems)

    def _line(self) -> str:
        problems = [f"{name}: {problem}" for name, each in self.fields.items() for problem in each]
        return " ".join((self.message, *problems[:1]))


class InvalidApiKey(ApiError, code="invalid_api_key"):
    """The key is wrong, revoked or expired."""


class InsufficientScope(ApiError, code="insufficient_scope"):
    """The key is valid and lacks a scope: any one of `required` is enough."""

    required = _Detail("required", _texts)


class NotFound(ApiError, code="not_found"):
    """The account has no record with that id."""


class Conflict(ApiError, code="conflict"):
    """The request clashes with an existing record, `existing_id`."""

    existing_id = _Detail("id", _text)


class Gone(ApiError, code="gone"):
    """The record existed and was deleted for good."""


class Unprocessable(ApiError, code="unprocessable_entity"):
    """The request is well formed and cannot be carried out."""


class IdempotencyKeyReused(Unprocessable, code="idempotency_key_reused"):
    """The key belongs to another request, or is over 24 hours old; `existing_id` is its meeting, if known."""

    existing_id = _Detail("id", _text)


class InsufficientCredits(Unprocessable, code="insufficient_credits"):
    """The work costs `required` credits, and `available` can be spent."""

    required = _Detail("required", _whole)
    available = _Detail("available", _whole)


class CreditCapExceeded(Unprocessable, code="credit_cap_exceeded"):
    """The key may spend `cap` credits a day and has spent or reserved `spent`; the work costs `required`.

    `resets_at` is the end of the day.
    """

    cap = _Detail("cap", _whole)
    spent = _Detail("spent", _whole)
    required = _Detail("required", _whole)
    resets_at = _Detail("resets_at", _instant)


class RateLimited(ApiError, code="rate_limited"):
    """More than `limit` requests in a window of `window_seconds`; wait `retry_after_s`."""

    limit = _Detail("limit", _whole)
    window_seconds = _Detail("window_seconds", _whole)


class InternalError(ApiError, code="internal_error"):
    """A fault of the service. Quote the request id to support."""


class UpstreamError(ApiError, code="upstream_error"):
    """A third party refused, or did not respond: then a later call with the same key gets the result."""


class ServiceUnavailable(ApiError, code="service_unavailable"):
    """Temporary: no host is free, the first request with this key is still in progress, or an outage.

    `next_available_at` is the first start at which a host could take such a meeting, or the time from which
    more meetings can be made; None where neither is known.
    """

    next_available_at = _Detail("next_available_at", _instant)


def error_for(code: str) -> type[ApiError]:
    """Return the class of a code; `ApiError` itself for an unknown one."""
    return _by_code.get(code, ApiError)
