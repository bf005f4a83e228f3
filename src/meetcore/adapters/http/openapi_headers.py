"""The headers of answers in the OpenAPI document: which, and on what status."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def _header(kind: str, description: str, example: object, *, is_always_there: bool = True) -> Json:
    return {
        "description": description,
        "required": is_always_there,
        "schema": {"type": kind},
        "example": example,
    }


HEADERS: Mapping[str, Json] = {
    "X-Request-Id": _header(
        "string", "Names this request to support", "01a1fde3-ced9-7c5f-9220-703e296740da"
    ),
    "X-RateLimit-Limit": _header("integer", "Requests that this window admits", 60),
    "X-RateLimit-Remaining": _header("integer", "Requests that are left in it", 58),
    "X-RateLimit-Reset": _header("integer", "Unix time of the start of the next window", 1795260840),
    "RateLimit-Policy": _header(
        "string", "The same quota in the form of the IETF draft", '"write";q=60;w=60'
    ),
    "RateLimit": _header(
        "string", "What is left and for how many seconds, in the form of the IETF draft", '"write";r=58;t=57'
    ),
    "Location": _header("string", "Where the record is", "https://meet.example.com/api/v1/meetings/…"),
    "Idempotent-Replayed": _header(
        "string", "`true` when an earlier request made this answer", "true", is_always_there=False
    ),
    "Retry-After": _header("integer", "Whole seconds to wait", 17),
    "WWW-Authenticate": _header("string", "How to authenticate (RFC 6750)", 'Bearer realm="meetcore"'),
}
"""Every header of an answer, by its name."""

_ALWAYS = (
    "X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy",
    "RateLimit",
)  # fmt: skip
_OF_STATUS: Mapping[int, str] = {
    201: "Location",
    401: "WWW-Authenticate",
    429: "Retry-After",
    503: "Retry-After",
}
_FINAL = (404, 409, 410, 422)
"""Refusals that the work itself decides: they are kept under an idempotency key."""


def headers_of(status: int, *, is_mutating: bool) -> Json:
    """Return references to the headers of an answer; one stored under a key can be replayed."""
    names = [*_ALWAYS]
    if status in _OF_STATUS:
        names.append(_OF_STATUS[status])
    if is_mutating or status in _FINAL:
        names.append("Idempotent-Replayed")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
