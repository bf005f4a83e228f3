"""Each error code: its page, its place in the OpenAPI document, and the operations that answer with it.

The refusals of an operation follow from its declaration.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from meetcore.adapters.api import answers, examples
from meetcore.adapters.api.operation import Operation

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer"}
_ID: Json = {"type": "string", "format": "uuid"}
_INSTANT: Json = {"type": "string", "format": "date-time"}
_PROBLEMS: Json = {
    "type": "object",
    "description": "The problems of each field.",
    "additionalProperties": {"type": "array", "items": _TEXT, "minItems": 1},
}


@frozen(kw_only=True)
class ErrorPage:
    """A code as its page behind `error.docs_url`, docs/errors.md and the OpenAPI document describe it.

    `retry` says whether the same request may be sent again, `details` what `error.details` holds: the schemas
    of the fields that are in it `always`, and of those that are in it `sometimes`. `message` and `example` show
    a refusal.
    """

    meaning: str
    remedy: str
    retry: str
    details: str = "Empty."
    message: str
    example: Json = field(factory=dict)
    always: Json = field(factory=dict)
    sometimes: Json = field(factory=dict)


ERROR_PAGES: Mapping[str, ErrorPage] = {
    "invalid_request": ErrorPage(
        meaning="The request breaks a rule of the operation: a field is missing, unknown, of a wrong type or out of "
        "its limits, or the query has more than 32 parameters or 4096 bytes (an operator can set other "
        "bounds). The same code comes with status 405 for a wrong method, 413 for a body over 64 KiB, 415 "
        "for a body that is not declared as JSON or is compressed, and 431 for an address or header fields that are too long.",
        remedy="Mend every field that details.fields names; all problems are listed at once.",
        retry="No: the same request gets the same answer.",
        details="fields: the problems of each field.",
        message="The request is not valid: see details.fields (start_time, titel).",
        example={"fields": {"start_time": ["must be HH:mm"], "titel": ["is not a field of this operation"]}},
        always={"fields": _PROBLEMS},
    ),
    "invalid_api_key": ErrorPage(
        meaning="The API key is missing, malformed, unknown, revoked or expired, or its account is suspended; the "
        "message says so then.",
        remedy="Send it as Authorization: Bearer <API_KEY>. A key has 43 characters after its prefix: was it copied "
        "whole? Otherwise use another key. For a suspended account no other key helps: ask the operator of "
        "the service.",
        retry="No.",
        message="The API key is not valid.",
    ),
    "insufficient_scope": ErrorPage(
        meaning="The key is valid and lacks a scope that the operation needs.",
        remedy="Use a key with one of the scopes in details.required. Scopes are fixed when a key is made; "
        "GET /api/v1/me shows those of yours.",
        retry="No.",
        details="required: the scopes, of which one is enough.",
        message="This key lacks the scope meetings:write. Scopes are fixed when a key is created: "
        "use another key.",
        example={"required": ["meetings:write"]},
        always={
            "required": {"type": "array", "items": _TEXT, "description": "Scopes, of which one is enough."}
        },
    ),
    "not_found": ErrorPage(
        meaning="There is nothing under this path or id that the key's account may see. Ids of other accounts and "
        "ids that are not UUIDs are answered in the same way.",
        remedy="Check the id, and that the key belongs to the account that owns the record.",
        retry="No: it is pointless to repeat the request unchanged.",
        details="pricing_tier_id or package_id where that is what was not found, else empty.",
        message="No record with this id.",
        sometimes={
            "pricing_tier_id": _TEXT | {"description": "The tier that is not on sale."},
            "package_id": _TEXT | {"description": "The package of credits that is not on sale."},
        },
    ),
    "conflict": ErrorPage(
        meaning="The request clashes with a record that is already in place, or with the state of one: nothing is "
        "sent to a webhook that is inactive, and a meeting that has ended is not cancelled.",
        remedy="Look at the record in details.id. Where notes are there already, read them with GET /notes/{id}. "
        "Where a webhook is inactive, resume it (PATCH is_active) and ask again. Where a meeting has ended, "
        "there is nothing left to do.",
        retry="Not with the same Idempotency-Key: it gets the same answer.",
        details="id: the record in place, or the one whose state is in the way.",
        message="This URL is registered already.",
        example={"id": examples.WEBHOOK["id"]},
        always={"id": _ID | {"description": "The record in place."}},
    ),
    "gone": ErrorPage(
        meaning="The data existed and is permanently gone, for example a recording, a meeting or an event past its "
        "retention period.",
        remedy="Nothing brings it back.",
        retry="No.",
        message="The event of this delivery is past its retention.",
    ),
    "unprocessable_entity": ErrorPage(
        meaning="The request is well-formed but cannot be carried out: a meeting in the past, a recording without "
        "sound, a webhook host that points to a private network or does not resolve, a webhook more than an "
        "account may have.",
        remedy="Read the message; it says what stands in the way.",
        retry="Only for a host name that did not resolve, once it does.",
        details="start_at, alphabet or fields, whichever stands in the way; may be empty.",
        message="The meeting would start in the past.",
        example={"start_at": "2026-11-20T02:00:00Z"},
        sometimes={
            "start_at": _INSTANT | {"description": "The start, as the service read it."},
            "alphabet": _TEXT | {"description": "The characters that a password may have."},
            "fields": _PROBLEMS,
        },
    ),
    "idempotency_key_reused": ErrorPage(
        meaning="The Idempotency-Key was used before for a different request.",
        remedy="Keep a key over the retries of one request, and take a new one for a new intent.",
        retry="No.",
        details="id of the meeting that the key paid for, if that was long ago; else empty.",
        message="This Idempotency-Key was used for a different request. Use a new key for a new intent.",
        sometimes={"id": _ID | {"description": "The meeting that the key paid for."}},
    ),
    "insufficient_credits": ErrorPage(
        meaning="The available balance does not cover the work. Nothing was charged.",
        remedy="Buy credits at details.topup_url or by POST /credits/topups, or choose a cheaper tier.",
        retry="After a top-up, with a new Idempotency-Key.",
        details="required and available, in credits; topup_url, the page on which people buy credits.",
        message="This needs 15 credits and 4 are available. Top up and try again.",
        example={
            "required": 15,
            "available": 4,
            "topup_url": "https://meetcore.example.com/dashboard/credits",
        },
        always={"required": _COUNT, "available": _COUNT, "topup_url": _TEXT},
    ),
    "credit_cap_exceeded": ErrorPage(
        meaning="The key's daily credit cap leaves no room for the work. Nothing was charged.",
        remedy="Wait for the next day (00:00 WIB), use another key, or have the cap raised.",
        retry="After details.resets_at, with a new Idempotency-Key.",
        details="cap, spent and required in credits; resets_at.",
        message="This key may spend 200 credits a day and has spent or reserved 190; 15 more do not "
        "fit. The day ends at 2026-11-21T17:00:00Z.",
        example={"cap": 200, "spent": 190, "required": 15, "resets_at": "2026-11-21T17:00:00Z"},
        always={"cap": _COUNT, "spent": _COUNT, "required": _COUNT, "resets_at": _INSTANT},
    ),
    "rate_limited": ErrorPage(
        meaning="Too many requests by this key in this minute. Refused requests count too.",
        remedy="Wait for the seconds of Retry-After; the next window starts at second 00 of the minute.",
        retry="Yes, after Retry-After.",
        details="limit and window_seconds.",
        message="More than 20 requests in this minute. Wait 17 s and try again.",
        example={"limit": 20, "window_seconds": 60},
        always={"limit": _COUNT, "window_seconds": _COUNT},
    ),
    "internal_error": ErrorPage(
        meaning="A fault at the service.",
        remedy="Quote error.request_id to support.",
        retry="Yes, with the same Idempotency-Key: the work is never done twice.",
        message="Something went wrong at the service. Quote the request id to support.",
    ),
    "upstream_error": ErrorPage(
        meaning="A third party (the video-conference or AI provider) refused or did not answer.",
        remedy="Try again; if it stays, choose another time. A creation without an Idempotency-Key is undone.",
        retry="Yes, with the same Idempotency-Key: the work is never done twice.",
        message="The video provider refused the meeting. Nothing was charged.",
    ),
    "service_unavailable": ErrorPage(
        meaning="Temporarily unavailable: no meeting host is free in the time range, the meetings that can be made "
        "in a day, or this account's share of them, are used up, a recording has grown and is being "
        "measured, the first request with this Idempotency-Key is still in progress, or the service is "
        "being mended.",
        remedy="Wait for the seconds of Retry-After, or choose another time. Where the message says that a meeting "
        "is in doubt, look for it with GET /meetings first.",
        retry="Yes, after Retry-After, with the same Idempotency-Key.",
        details="next_available_at where it is known when a host is free or more meetings can be made; else empty.",
        message="No meeting host is free in this time range. Try again later or choose another time.",
        example={"next_available_at": "2026-12-01T03:00:00Z"},
        sometimes={
            "next_available_at": _INSTANT | {"description": "When a host is free, or more can be made."}
        },
    ),
}


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
    found = [Refusal(answers.STATUS[code], code) for code in answers.STATUS if code in codes]
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


def error_schema_name(code: str) -> str:
    """Return the name of a code's envelope among the schemas."""
    return "".join(word.capitalize() for word in code.removesuffix("_error").split("_")) + "Error"


def error_schema(code: str, base_url: str) -> Json:
    """Build the envelope of spec 7 with one code and its details."""
    page = f"{base_url}/docs/errors/{code}"
    stem = error_schema_name(code).removesuffix("Error")
    error = _object(
        f"{stem}Problem",
        {
            "code": {
                "title": f"{stem}Code",
                "type": "string",
                "enum": [code],
                "description": "Stable: branch on it.",
            },
            "message": _TEXT | {"description": "For people; may change at any time."},
            "docs_url": _TEXT | {"format": "uri", "description": "Its page.", "examples": [page]},
            "request_id": _ID | {"description": "What to quote to support."},
            "details": _details(f"{stem}Details", code),
        },
    )
    return _object(error_schema_name(code), {"error": error})


def _details(title: str, code: str) -> Json:
    page = ERROR_PAGES[code]
    return _object(title, page.always | page.sometimes, required=list(page.always))


def _object(title: str, properties: Json, required: list[str] | None = None) -> Json:
    wanted = list(properties) if required is None else required
    schema: Json = {"title": title, "type": "object", "properties": properties}
    return schema | ({"required": wanted} if wanted else {})
