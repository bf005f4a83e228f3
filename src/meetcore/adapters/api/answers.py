"""Answers: statuses, and the error envelope of spec 7."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from attrs import frozen, has
from cattrs.gen import make_dict_unstructure_fn
from cattrs.preconf.msgspec import make_converter

from meetcore.domain.errors import DomainError, InvalidRequest

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
"""The status of each code (rule 7/other). Codes are the contract; the classes below refine one."""

JSON: Final = "application/json"

_encoder = msgspec.json.Encoder()
_converter = make_converter()
# msgspec itself would encode the fields of a class in alphabetical order.
_converter.register_unstructure_hook_factory(has, partial(make_dict_unstructure_fn, converter=_converter))


class PayloadTooLarge(InvalidRequest):
    """The body is larger than the limit: 413."""


class BodyTooSlow(InvalidRequest):
    """The body did not come within its time: 400, and the connection is closed."""


class HeadTooLarge(InvalidRequest):
    """The request line and the header fields are larger than the limit: 431."""

    def __init__(self, max_bytes: int, max_fields: int) -> None:
        problem = f"must not be larger than {max_bytes // 1024} KiB or have more than {max_fields} fields"
        super().__init__({"head": [problem]}, f"The head of the request {problem}.")


class UnsupportedMediaType(InvalidRequest):
    """The body is not declared as JSON: 415."""


class RangeNotSatisfiable(InvalidRequest):
    """The requested range starts behind the end of the file: 416. `size_bytes` is for Content-Range."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__({"Range": [f"must begin before byte {size_bytes}"]})
        self.size_bytes = size_bytes


class MethodNotAllowed(InvalidRequest):
    """The path exists, but not with this method: 405. `allow` is for the Allow header."""

    def __init__(self, method: str, allow: str) -> None:
        super().__init__(
            {"method": [f"must be one of {allow}"]}, f"{method} is not allowed here; use {allow}."
        )
        self.allow = allow


class OriginNotAllowed(InvalidRequest):
    """The request comes from a page of another origin: 403."""

    def __init__(self) -> None:
        super().__init__({"Origin": ["must be this service's own, or absent"]})


@frozen
class ApiResponse:
    """An answer without the headers of its request. `code` is that of a refusal."""

    status: int
    body: bytes
    location: str | None = None
    media_type: str = JSON
    code: str = ""


def status_of(error: DomainError) -> int:
    """Return the HTTP status of a refusal."""
    match error:
        case PayloadTooLarge():
            return 413
        case HeadTooLarge():
            return 431
        case UnsupportedMediaType():
            return 415
        case MethodNotAllowed():
            return 405
        case OriginNotAllowed():
            return 403
        case RangeNotSatisfiable():
            return 416
        case _:
            return STATUS[error.code]


def envelope(error: DomainError, base_url: str, request_id: str) -> dict[str, object]:
    """The error envelope of spec 7."""
    return envelope_of(error.code, error.message, base_url, request_id, error.details)


def envelope_of(
    code: str, message: str, base_url: str, request_id: str, details: Mapping[str, object]
) -> dict[str, object]:
    """Build the error envelope of spec 7 from its parts (rule 7/envelope)."""
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
