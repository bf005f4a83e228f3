"""Which refusals an operation can answer, and what their details hold: for the OpenAPI document.

What every operation has in common is derived from what it is; what only its work can decide stands in
the table of operations. The tests check each answer against it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from meetcore.adapters.api.answers import STATUS
from meetcore.adapters.api.operation import Operation

Json = dict[str, Any]


@frozen
class Refusal:
    """A code at a status."""

    status: int
    code: str


_ANY = ("invalid_api_key", "rate_limited", "internal_error", "service_unavailable")
_TOO_LARGE, _NOT_JSON = Refusal(413, "invalid_request"), Refusal(415, "invalid_request")


def refusals_of(operation: Operation) -> list[Refusal]:
    """Return every refusal of an operation, by status; a wrong method belongs to none.

    They are those of rules 4.1/errors, 4.2/errors, 4.3/errors and 4.4/errors.
    """
    codes = {*_ANY, *operation.refusals, *_codes_of_its_form(operation)}
    found = [Refusal(STATUS[code], code) for code in STATUS if code in codes]
    if operation.reads_body:
        found += [_TOO_LARGE, _NOT_JSON]
    return sorted(found, key=lambda each: each.status)


def _codes_of_its_form(operation: Operation) -> Iterator[str]:
    if operation.scopes:
        yield "insufficient_scope"
    if operation.reads_body or operation.listing is not None or operation.options:
        yield "invalid_request"
    if "{" in operation.path:
        yield "not_found"
    if operation.is_mutating:
        yield "idempotency_key_reused"


_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer"}
_ID: Json = {"type": "string", "format": "uuid"}
_INSTANT: Json = {"type": "string", "format": "date-time"}
_PROBLEMS: Json = {
    "type": "object",
    "description": "The problems of each field.",
    "additionalProperties": {"type": "array", "items": _TEXT, "minItems": 1},
}
_ALWAYS: Mapping[str, Json] = {
    "invalid_request": {"fields": _PROBLEMS},
    "insufficient_scope": {
        "required": {"type": "array", "items": _TEXT, "description": "Scopes, of which one is enough."}
    },
    "conflict": {"id": _ID | {"description": "The record in place."}},
    "insufficient_credits": {"required": _COUNT, "available": _COUNT},
    "credit_cap_exceeded": {"cap": _COUNT, "spent": _COUNT, "required": _COUNT, "resets_at": _INSTANT},
    "rate_limited": {"limit": _COUNT, "window_seconds": _COUNT},
}
"""What the details of a code always hold."""

_SOMETIMES: Mapping[str, Json] = {
    "not_found": {"pricing_tier_id": _TEXT | {"description": "The tier that is not on sale."}},
    "unprocessable_entity": {
        "start_at": _INSTANT | {"description": "The start, as the service read it."},
        "alphabet": _TEXT | {"description": "The characters that a password may have."},
        "fields": _PROBLEMS,
    },
    "idempotency_key_reused": {"id": _ID | {"description": "The meeting that the key paid for."}},
    "service_unavailable": {
        "next_available_at": _INSTANT | {"description": "When a host is free, or more can be made."}
    },
}
"""What the details of a code hold in some cases."""


def error_schema_name(code: str) -> str:
    """Return the name of a code's envelope among the schemas."""
    return "".join(word.capitalize() for word in code.removesuffix("_error").split("_")) + "Error"


def error_schema(code: str, base_url: str) -> Json:
    """Build the envelope of spec 7 with one code and its details."""
    page = f"{base_url}/docs/errors/{code}"
    error = _closed(
        {
            "code": {"type": "string", "enum": [code], "description": "Stable: branch on it."},
            "message": _TEXT | {"description": "For people; may change at any time."},
            "docs_url": _TEXT | {"format": "uri", "description": "Its page.", "examples": [page]},
            "request_id": _ID | {"description": "What to quote to support."},
            "details": _details(code),
        }
    )
    return {"title": error_schema_name(code)} | _closed({"error": error})


def _details(code: str) -> Json:
    always, sometimes = _ALWAYS.get(code, {}), _SOMETIMES.get(code, {})
    return _closed(always | sometimes, required=list(always))


def _closed(properties: Json, required: list[str] | None = None) -> Json:
    wanted = list(properties) if required is None else required
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": wanted} if wanted else {})
