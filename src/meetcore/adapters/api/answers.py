"""Answers: statuses, and the error envelope of spec 7."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

import msgspec
from attrs import frozen, has
from cattrs.gen import make_dict_unstructure_fn
from cattrs.preconf.msgspec import make_converter

from meetcore.domain.errors import (
    DomainError,
    InsufficientCredits,
    InvalidApiKey,
    InvalidRequest,
    RateLimited,
    ServiceUnavailable,
)
from meetcore.usecases.mails import CREDITS_PAGE

STATUS: Mapping[str, int] = {
    "invalid_request": 400,
    "invalid_api_key": 401,
    "insufficient_scope": 403,
    "not_found": 404,
    "conflict": 409,
    "gone": 410,
    "unprocessable_entity": 422,
    "idempotency_key_reused": 422,
    "insufficient_credits": 422,
    "credit_cap_exceeded": 422,
    "rate_limited": 429,
    "internal_error": 500,
    "upstream_error": 502,
    "service_unavailable": 503,
}
"""The status of each code (rule 7/other). Codes are the contract; an `HttpRefusal` has its own."""

JSON: Final = "application/json"

_encoder = msgspec.json.Encoder()
_converter = make_converter()
# msgspec itself would encode the fields of a class in alphabetical order.
_converter.register_unstructure_hook_factory(has, partial(make_dict_unstructure_fn, converter=_converter))


class HttpRefusal(InvalidRequest):
    """A request that breaks a rule of HTTP, with a status and headers of its own."""

    status: ClassVar[int] = 400
    headers: Mapping[str, str] = MappingProxyType({})


class PayloadTooLarge(HttpRefusal):
    """The body is larger than the limit."""

    status = 413


class BodyTooSlow(HttpRefusal):
    """The body did not come within its time; the connection is closed."""

    headers = MappingProxyType({"Connection": "close"})


class HeadTooLarge(HttpRefusal):
    """The request line and the header fields are larger than the limit."""

    status = 431

    def __init__(self, max_bytes: int, max_fields: int) -> None:
        problem = f"must not be larger than {max_bytes // 1024} KiB or have more than {max_fields} fields"
        super().__init__({"head": [problem]}, f"The head of the request {problem}.")


class UnsupportedMediaType(HttpRefusal):
    """The body is not declared as JSON."""

    status = 415


class ContentEncoded(UnsupportedMediaType):
    """The body is declared as compressed (RFC 9110, 15.5.16)."""

    headers = MappingProxyType({"Accept-Encoding": "identity"})

    def __init__(self) -> None:
        problem = "must be absent: compressed bodies are not read"
        super().__init__({"Content-Encoding": [problem]}, "Send the body without Content-Encoding.")


class RangeNotSatisfiable(HttpRefusal):
    """The requested range starts behind the end of the file."""

    status = 416

    def __init__(self, size_bytes: int) -> None:
        super().__init__({"Range": [f"must begin before byte {size_bytes}"]})
        self.headers = {"Content-Range": f"bytes */{size_bytes}"}


class MethodNotAllowed(HttpRefusal):
    """The path exists, but not with this method."""

    status = 405

    def __init__(self, method: str, allow: str) -> None:
        super().__init__(
            {"method": [f"must be one of {allow}"]}, f"{method} is not allowed here; use {allow}."
        )
        self.headers = {"Allow": allow}


class OriginNotAllowed(HttpRefusal):
    """The request comes from a page of another origin."""

    status = 403

    def __init__(self) -> None:
        super().__init__({"Origin": ["must be this service's own, or absent"]})


@frozen
class ApiResponse:
    """An answer without the headers of its request; `is_replay`: an earlier one with the same key made it."""

    status: int
    body: bytes
    location: str | None = None
    media_type: str = JSON
    code: str = ""
    is_replay: bool = False


def status_of(error: DomainError) -> int:
    """Return the HTTP status of a refusal."""
    return error.status if isinstance(error, HttpRefusal) else STATUS[error.code]


def headers_of(refusal: DomainError) -> dict[str, str]:
    """Return the additional headers of a refusal."""
    match refusal:
        case HttpRefusal():
            return dict(refusal.headers)
        case RateLimited() | ServiceUnavailable():
            return {"Retry-After": str(refusal.retry_after_s)}
        case InvalidApiKey():
            return {"WWW-Authenticate": 'Bearer realm="meetcore"'}
        case _:
            return {}


def envelope(error: DomainError, base_url: str, request_id: str) -> dict[str, object]:
    """Build the error envelope of spec 7."""
    return envelope_of(error.code, error.message, base_url, request_id, error.details)


def envelope_of(
    code: str, message: str, base_url: str, request_id: str, details: Mapping[str, object]
) -> dict[str, object]:
    """Build the error envelope of spec 7 from its parts (rule 7/envelope)."""
    if code == InsufficientCredits.code:
        details = {**details, "topup_url": f"{base_url}{CREDITS_PAGE}"}
    return {
        "error": {
            "code": code,
            "message": message,
            "docs_url": f"{base_url}/docs/errors/{code}",
            "request_id": request_id,
            "details": dict(details),
        }
    }


def render_error(error: DomainError, base_url: str, request_id: str) -> ApiResponse:
    """Render a refusal as an answer."""
    body = _encoder.encode(envelope(error, base_url, request_id))
    return ApiResponse(status_of(error), body, code=error.code)


def render_record(status: int, record: object, location: str | None = None) -> ApiResponse:
    """Render a record as an answer."""
    return ApiResponse(status, encode_record(record), location)


def encode_record(record: object) -> bytes:
    """Encode a record, or a page of records, as JSON."""
    return _converter.dumps(record)


def render_text(status: int, text: str, media_type: str) -> ApiResponse:
    """Render a text as an answer."""
    return ApiResponse(status, text.encode(errors="replace"), media_type=media_type)
