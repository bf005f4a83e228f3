"""What the client raises for what came back, or did not: one tree, by the codes of the API.

::

    MeetcoreError                     all of these
    ├── ConnectionFailed              no whole answer: the outcome is unknown
    │   └── TimedOut                  ... within the time limit
    ├── UnexpectedResponse            an answer that is none of the API's: a proxy's page, a broken record
    ├── InvalidEvent                  a signed webhook whose body is no event
    ├── NoteFailed                    notes that were waited for were not written, `note` says why
    ├── WaitTimedOut                  notes were not there by the deadline; they may come yet
    └── ApiError                      a refusal of the API, with its code
        ├── InvalidRequest            invalid_request        `fields` names every problem
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
        └── ServiceUnavailable        service_unavailable

A code that this version does not know is an `ApiError` itself. Owns what an error carries; never carries
an API key, a request's body or a secret. What a caller did wrong before anything was sent is a ValueError or
a TypeError, not one of these.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from types import MappingProxyType

from meetcore.client.records import Note

__all__ = [
    "ApiError",
    "Conflict",
    "ConnectionFailed",
    "CreditCapExceeded",
    "Gone",
    "IdempotencyKeyReused",
    "InsufficientCredits",
    "InsufficientScope",
    "InternalError",
    "InvalidApiKey",
    "InvalidEvent",
    "InvalidRequest",
    "MeetcoreError",
    "NotFound",
    "NoteFailed",
    "RateLimited",
    "ServiceUnavailable",
    "TimedOut",
    "UnexpectedResponse",
    "Unprocessable",
    "UpstreamError",
    "WaitTimedOut",
    "error_for",
]


class MeetcoreError(Exception):
    """The call failed. It was tried `attempts` times, and this is how the last attempt ended.

    `request_id` is for support. `idempotency_key` is the one of every attempt: a call with it repeats the
    same request, an hour later too. `retry_after_s` is the wait of the last answer, in seconds.
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
    """No whole answer came. A call that changes something may have succeeded all the same."""


class TimedOut(ConnectionFailed):
    """No whole answer came in time."""


class UnexpectedResponse(MeetcoreError):
    """The answer is not the API's: something else answered, or a record that this version cannot read."""


class InvalidEvent(MeetcoreError):
    """The signature is right and the body is no event: drop it, it will not get better."""


class _OfNote(MeetcoreError):
    def __init__(
        self,
        message: str,
        *,
        note: Note | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id, retry_after_s=retry_after_s)
        self.note = note


class NoteFailed(_OfNote):
    """The note that was waited for has failed and cost nothing. `note` is the record, with its `error`."""


class WaitTimedOut(_OfNote):
    """There was no completed note by the deadline. `note` is how far it is; None where there is none yet."""


class ApiError(MeetcoreError):
    """A refusal of the API. Branch on the class, or on `code`; `message` is for people and may change."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        details: Mapping[str, object] | None = None,
        docs_url: str = "",
        status: int | None = None,
        request_id: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id, retry_after_s=retry_after_s)
        self.code = code
        self.docs_url = docs_url
        self._details = dict(details or {})

    @property
    def details(self) -> Mapping[str, object]:
        """The API's details beside the message; may be empty."""
        return MappingProxyType(self._details)

    def __str__(self) -> str:
        return f"{self.code}: {super().__str__()}"

    def _whole(self, name: str) -> int | None:
        """A whole number of the details, or None where the answer does not hold one."""
        found = self._details.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def _text(self, name: str) -> str | None:
        found = self._details.get(name)
        return found if isinstance(found, str) else None

    def _moment(self, name: str) -> datetime | None:
        """A moment with its offset, or None where the answer does not hold one."""
        try:
            at = datetime.fromisoformat(self._text(name) or "")
        except ValueError:
            return None
        return None if at.tzinfo is None else at

    def _texts(self, name: str) -> tuple[str, ...]:
        return _texts(self._details.get(name))


def _texts(found: object) -> tuple[str, ...]:
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


class InvalidRequest(ApiError):
    """One or more fields break their rule. As text it includes the first problem."""

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """Every problem of every field."""
        found = self._details.get("fields")
        return {name: _texts(problems) for name, problems in found.items()} if isinstance(found, dict) else {}

    def _line(self) -> str:
        problems = (f"{name}: {problem}" for name, each in self.fields.items() for problem in each)
        return " ".join((self.message, *islice(problems, 1)))


class InvalidApiKey(ApiError):
    """The key is wrong, revoked or expired."""


class InsufficientScope(ApiError):
    """The key is valid and lacks a scope."""

    @property
    def required(self) -> tuple[str, ...]:
        """The scopes of which one is enough."""
        return self._texts("required")


class NotFound(ApiError):
    """Nothing with that id that this account may see."""


class Conflict(ApiError):
    """Clash with a record already in place."""

    @property
    def existing_id(self) -> str | None:
        """The id of that record."""
        return self._text("id")


class Gone(ApiError):
    """It existed and is gone for good."""


class Unprocessable(ApiError):
    """Well formed, but it cannot be done."""


class IdempotencyKeyReused(Unprocessable):
    """The idempotency key belongs to another request, or to one of more than 24 hours ago."""

    @property
    def existing_id(self) -> str | None:
        """The meeting that the key paid for, where it is known."""
        return self._text("id")


class InsufficientCredits(Unprocessable):
    """The available balance does not cover the work. Amounts are credits."""

    @property
    def required(self) -> int | None:
        """What the work costs."""
        return self._whole("required")

    @property
    def available(self) -> int | None:
        """What could be spent."""
        return self._whole("available")


class CreditCapExceeded(Unprocessable):
    """The key's daily cap does not leave room for the work. Amounts are credits."""

    @property
    def cap(self) -> int | None:
        """What the key may spend in a day."""
        return self._whole("cap")

    @property
    def spent(self) -> int | None:
        """What it has spent or reserved today."""
        return self._whole("spent")

    @property
    def required(self) -> int | None:
        """What the work costs."""
        return self._whole("required")

    @property
    def resets_at(self) -> datetime | None:
        """When the day ends, with its offset."""
        return self._moment("resets_at")


class RateLimited(ApiError):
    """Too many requests in this minute; `retry_after_s` is the time until the next one."""

    @property
    def limit(self) -> int | None:
        """Requests in a window."""
        return self._whole("limit")

    @property
    def window_seconds(self) -> int | None:
        """How long a window is."""
        return self._whole("window_seconds")


class InternalError(ApiError):
    """A fault at the service. Quote the request id to support."""


class UpstreamError(ApiError):
    """A third party refused, or did not answer: then a later call with the same key gets the result."""


class ServiceUnavailable(ApiError):
    """Temporary: no host is free, the first request with this key is still in progress, or an outage."""

    @property
    def next_available_at(self) -> datetime | None:
        """The first start at which a host could take such a meeting, or when more meetings can be made.

        None where neither is known.
        """
        return self._moment("next_available_at")


_BY_CODE: Mapping[str, type[ApiError]] = {
    "invalid_request": InvalidRequest,
    "invalid_api_key": InvalidApiKey,
    "insufficient_scope": InsufficientScope,
    "not_found": NotFound,
    "conflict": Conflict,
    "gone": Gone,
    "unprocessable_entity": Unprocessable,
    "idempotency_key_reused": IdempotencyKeyReused,
    "insufficient_credits": InsufficientCredits,
    "credit_cap_exceeded": CreditCapExceeded,
    "rate_limited": RateLimited,
    "internal_error": InternalError,
    "upstream_error": UpstreamError,
    "service_unavailable": ServiceUnavailable,
}


def error_for(code: str) -> type[ApiError]:
    """The class of a code; the tree's own `ApiError` for one that this version does not know."""
    return _BY_CODE.get(code, ApiError)
