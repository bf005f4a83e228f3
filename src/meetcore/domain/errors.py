"""The error tree: every refusal of the domain with its stable code (spec 7).

::

    DomainError
    ├── InvalidRequest            invalid_request        a field breaks its rule
    ├── InvalidApiKey             invalid_api_key        wrong, revoked or expired
    ├── InsufficientScope         insufficient_scope     the key is fine, the scope is missing
    ├── ActionNotAllowed          insufficient_scope     the role does not allow it (pages only)
    ├── NotFound                  not_found              nothing there that the caller may see
    ├── Conflict                  conflict               another record is already in place
    ├── Gone                      gone                   it existed and is gone for good
    ├── Unprocessable             unprocessable_entity   well formed, cannot be done
    │   ├── HostUnresolved        (temporary: the name may resolve later)
    │   ├── IdempotencyKeyReused  idempotency_key_reused
    │   ├── InsufficientCredits   insufficient_credits
    │   └── CreditCapExceeded     credit_cap_exceeded
    ├── RateLimited               rate_limited
    │   └── TooManyDownloads      (at once, in no window)
    ├── InternalError             internal_error
    ├── UpstreamError             upstream_error         a third party refused or did not answer
    └── ServiceUnavailable        service_unavailable    try again in `retry_after_s`
        ├── NoHostFree            (another time may do: `next_available_at`)
        └── CreationsUsedUp       (the day's creations are used up until `next_available_at`)

The codes are a public contract (rule 9/2). How a code travels (an HTTP status, a tool's
error) is the driving adapter's business and is not known here. Details carry only what the
caller may see: never SQL, paths, addresses of our network or secrets.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import ceil
from types import MappingProxyType
from typing import ClassVar, TypeVar

from meetcore.domain.texts import count_of

__all__ = [
    "ActionNotAllowed", "Conflict", "CreationsUsedUp", "CreditCapExceeded", "DomainError", "Gone",
    "HostUnresolved", "IdempotencyKeyReused", "InsufficientCredits", "InsufficientScope", "InternalError",
    "InvalidApiKey", "InvalidRequest", "NoHostFree", "NotFound", "RateLimited", "ServiceUnavailable",
    "TooManyDownloads", "Unprocessable", "UpstreamError",
]  # fmt: skip

_E = TypeVar("_E", bound=BaseException)
_R = TypeVar("_R")


class DomainError(Exception):
    """A refusal with a stable code.

    One that `is_final` is stored under its idempotency key and replayed; a temporary one leaves the key free.
    """

    code: ClassVar[str]
    is_final: ClassVar[bool] = False

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = MappingProxyType(dict(details or {}))


class InvalidRequest(DomainError):
    """One or more fields break their rule; `details.fields` names every problem at once (rule 7/400)."""

    code = "invalid_request"

    def __init__(self, fields: Mapping[str, list[str]], message: str | None = None) -> None:
        named = ", ".join(sorted(fields))
        super().__init__(
            message or f"The request is not valid: see details.fields ({named}).",
            {"fields": {name: list(problems) for name, problems in fields.items()}},
        )


class InvalidApiKey(DomainError):
    """The key is wrong, revoked or expired (rules 5/3 and 7/401): one error for all three, no oracle."""

    code = "invalid_api_key"


class InsufficientScope(DomainError):
    """The key is valid and lacks a scope (rules 5/5 and 7/403)."""

    code = "insufficient_scope"

    def __init__(self, required: tuple[str, ...]) -> None:
        wanted = " or ".join(required)
        super().__init__(
            f"This key lacks the scope {wanted}. Scopes are fixed when a key is created: use another key.",
            {"required": list(required)},
        )


class ActionNotAllowed(DomainError):
    """A member's or an operator's role does not allow the action. Only pages show it."""

    code = "insufficient_scope"

    def __init__(self, role: str, action: str) -> None:
        super().__init__(f"The role {role} may not do this.", {"role": str(role), "action": str(action)})


class NotFound(DomainError):
    """Nothing with that id that the caller may access (rules 5/8 and 7/404)."""

    code = "not_found"
    is_final = True


class Conflict(DomainError):
    """Clash with a record already in place; `details.id` names it (rule 7/409)."""

    code = "conflict"
    is_final = True

    def __init__(self, message: str, record_id: object) -> None:
        super().__init__(message, {"id": str(record_id)})


class Gone(DomainError):
    """The data existed and is permanently gone (rule 7/410)."""

    code = "gone"
    is_final = True


class Unprocessable(DomainError):
    """Well formed, but it cannot be carried out (rule 7/422)."""

    code = "unprocessable_entity"
    is_final = True


class HostUnresolved(Unprocessable):
    """A host name did not resolve in time: temporary, so an idempotency key stays free."""

    is_final = False


class IdempotencyKeyReused(Unprocessable):
    """The idempotency key belongs to another request (rule 4/idem-reused)."""

    code = "idempotency_key_reused"


class InsufficientCredits(Unprocessable):
    """The available balance does not cover the work. Amounts are credits."""

    code = "insufficient_credits"

    def __init__(self, required: int, available: int) -> None:
        super().__init__(
            f"This needs {count_of(required, 'credit')} and {available} are available. Top up and try again.",
            {"required": required, "available": available},
        )


class CreditCapExceeded(Unprocessable):
    """The key's daily credit cap does not leave room for the work (rule 5/7)."""

    code = "credit_cap_exceeded"

    def __init__(self, cap: int, spent: int, required: int, resets_at: datetime) -> None:
        moment = resets_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        super().__init__(
            f"This key may spend {count_of(cap, 'credit')} a day and has spent or reserved {spent}; "
            f"{required} more do not fit. The day ends at {moment}.",
            {"cap": cap, "spent": spent, "required": required, "resets_at": moment},
        )


class RateLimited(DomainError):
    """Too many requests in this window (rule 7/429). Seconds are whole."""

    code = "rate_limited"

    def __init__(
        self, limit: int, window_seconds: int, retry_after_s: int, message: str | None = None
    ) -> None:
        super().__init__(
            message or f"More than {limit} requests in this minute. Wait {retry_after_s} s and try again.",
            {"limit": limit, "window_seconds": window_seconds},
        )
        self.retry_after_s = retry_after_s


class TooManyDownloads(RateLimited):
    """Too many downloads run at once. The envelope requires a window: it is the current second."""

    def __init__(self, what: str, limit: int, retry_after_s: int) -> None:
        message = (
            f"{limit} downloads {what} run already, which is the most. Wait until one is over and try again."
        )
        super().__init__(limit, 1, retry_after_s, message)


class InternalError(DomainError):
    """A fault at the service (rule 7/500). The cause is logged under the request id, never sent."""

    code = "internal_error"


class UpstreamError(DomainError):
    """A third party refused or did not answer; its own message is never passed on (rule 7/502)."""

    code = "upstream_error"


class ServiceUnavailable(DomainError):
    """Temporary: the same request may succeed after `retry_after_s` whole seconds (rule 7/503)."""

    code = "service_unavailable"

    def __init__(self, message: str, retry_after_s: int, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message, details)
        self.retry_after_s = retry_after_s


class NoHostFree(ServiceUnavailable):
    """No host is free for the whole of a meeting. Another time may do: `next_available_at`, where known."""

    def __init__(self, retry_after_s: int, next_available_at: datetime | None = None) -> None:
        message = "No meeting host is free in this time range. Try again later or choose another time."
        details = {}
        if next_available_at is not None:
            details["next_available_at"] = next_available_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        super().__init__(message, retry_after_s, details)


class CreationsUsedUp(ServiceUnavailable):
    """No more meetings can be made, by the provider's or the account's limit, until `next_available_at`."""

    def __init__(self, now: datetime, next_available_at: datetime, *, is_share: bool) -> None:
        whole = next_available_at.replace(microsecond=0)
        until = whole if whole == next_available_at else whole + timedelta(seconds=1)
        moment = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        used = (
            "This account has used its share of the meetings that can be made today."
            if is_share
            else "The hosts that are large enough cannot be given another meeting today."
        )
        super().__init__(
            f"{used} More can be made from {moment}.",
            max(1, ceil((until - now).total_seconds())),
            {"next_available_at": moment},
        )


def require_record(record: _R | None, what: str) -> _R:
    """Return a record that is there; raise `NotFound` for `None`."""
    if record is None:
        raise NotFound(f"No {what} with this id.")
    return record


def refusal_of(check: Callable[[], object]) -> DomainError | None:
    """Return the refusal that a check raises; `None` where it raises none."""
    try:
        check()
    except DomainError as refusal:
        return refusal
    return None


def own_copy(error: _E) -> _E:
    """Return a copy of an error for one of several callers: a traceback grows wherever an error is raised.

    It is made without the constructor, whose arguments may differ. Its cause is the error's, or the error.
    """
    own = type(error).__new__(type(error), *error.args)
    own.args = error.args
    own.__dict__.update(error.__dict__)
    own.__cause__ = error.__cause__ or error
    return own
