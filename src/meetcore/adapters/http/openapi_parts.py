"""The parts of the OpenAPI document that belong to no one operation: texts, headers, events."""

from collections.abc import Iterator, Mapping
from typing import Any

from meetcore.adapters.api import examples
from meetcore.adapters.api.examples import EVENTS, payload
from meetcore.domain.webhooks import events, signature

Json = dict[str, Any]

OVERVIEW = """\
Online meetings and meeting notes against prepaid credits.

**Keys.** Every request carries `Authorization: Bearer <API_KEY>`. Scopes are fixed when a key is made; an operation
that lists several asks for one of them. `GET /me` shows what a key may do.

**Retries.** Send an `Idempotency-Key` with every request that changes something and keep it over the retries of that
request: the work is done once, and the first result comes again with `Idempotent-Replayed: true`.

**Errors.** Every failure has one envelope. Branch on `error.code`; [each code has a page]({base_url}/docs/errors).
A method that a path does not know is 405 with `Allow`, a path that there is not is 404.

**Limits.** Requests are counted per key and minute, by class: reads, changes, and what costs credits. Every answer says
what is left; 429 says in `Retry-After` how long to wait.

**Lists** come in pages, the newest first. Give `next_cursor` as `cursor` for the next page.

**Events** are posted to registered https URLs and signed: [how to receive them]({base_url}/docs/webhooks).

**Changes.** Answers, events and errors may get new fields and values: [what may change]({base_url}/docs/compatibility).

**Recordings and notes**: [the way from a meeting to its notes]({base_url}/docs/notulen).
"""

TAGS: Mapping[str, str] = {
    "me": "The key that asks, and its account.",
    "pricing-tiers": "What a meeting costs: seats, minutes, credits.",
    "credits": "The balance, the ledger, payments for credits, and what something would cost.",
    "credit-packages": "The packages of credits that can be bought.",
    "recordings": "What was recorded of meetings, kept for a time.",
    "notes": "Notes (notulen) that are written of recordings.",
    "meetings": "Meetings at the video provider, made and cancelled against credits.",
    "webhooks": "URLs that receive events, and every delivery to them.",
    "events": "What happened: posted to webhooks, and listed.",
}

SUCCESS: Mapping[int, str] = {
    200: "Done",
    201: "Made; `Location` says where it is",
    202: "Taken; it is worked on",
    204: "Deleted. No content",
}

REASONS: Mapping[int, str] = {
    400: "A field breaks its rule; `details.fields` names every problem",
    401: "The key is missing, wrong, revoked or expired",
    403: "The key lacks a scope",
    404: "Nothing there that the key's account may see",
    409: "A record is in the way; `details.id` names it",
    410: "It was there and is gone for good",
    413: "The body is larger than 64 KiB",
    415: "The body is not declared as `application/json`, or it is declared as compressed",
    422: "Well-formed, but it cannot be carried out",
    429: "Too many requests in this minute",
    500: "A fault at the service",
    502: "The video provider or the payment gateway refused or did not answer",
    503: "Temporarily unavailable",
}


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
    "Accept-Encoding": _header(
        "string", "`identity` where the body was declared as compressed", "identity", is_always_there=False
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
    415: "Accept-Encoding",
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


_SCHEMA = "#/components/schemas/{name}"
_HEADERS = (
    (
        signature.SIGNATURE_HEADER,
        "`t=<unix time>,v1=<hex>`: HMAC-SHA256 of `<t>.<raw body>`, keyed with the whole secret.",
        "t=1795260783,v1=6b6d8f12a1336556f50361c423c9a67da66a16ebd3218d4eff8856cb20c00d5e",
    ),
    ("X-Service-Event", "The kind, as in `type`.", None),
    (
        "X-Service-Delivery",
        "The delivery, for `GET /webhooks/{id}/deliveries/{delivery_id}`.",
        examples.EVENT_ID,
    ),
    ("webhook-id", "The event's id, as in `id` (Standard Webhooks).", examples.EVENT_ID),
    ("webhook-timestamp", "The unix time of signing (Standard Webhooks).", "1795260783"),
    (
        "webhook-signature",
        "`v1,<base64>` (Standard Webhooks); after a rotation two of them, with a space between, the new secret's first.",
        "v1,hCAQc5X1tvaDVSqiLDOBjGb0ipzQ5cmuDAOnOcGVJ4Y=",
    ),
)


def webhook_items() -> Json:
    """Return one path item for each kind."""
    return {kind.value: {"post": _post(kind)} for kind in events.EventKind}


def _post(kind: events.EventKind) -> Json:
    content = {"schema": {"$ref": _SCHEMA.format(name=_name(kind))}, "example": payload(kind)}
    return {
        "operationId": f"on_{kind.value.replace('.', '_')}",
        "summary": kind.value,
        "description": EVENTS[kind].about,
        "tags": ["events"],
        # No credentials: the signature authenticates the request.
        "security": [],
        "parameters": list(_headers(kind)),
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {
            "2XX": {"description": "Taken. Answer within 10 seconds and do heavy work afterwards."},
            "410": {"description": "Not wanted: this delivery is not tried again."},
            "4XX": {"description": "A failed delivery: it is tried again later."},
            "5XX": {"description": "A failed delivery: it is tried again, after `Retry-After` of a 503."},
        },
    }


def _headers(kind: events.EventKind) -> Iterator[Json]:
    for name, about, example in _HEADERS:
        yield {
            "name": name, "in": "header", "required": True, "description": about,
            "schema": {"type": "string"}, "example": example or kind.value,
        }  # fmt: skip


def _name(kind: events.EventKind) -> str:
    return "".join(word.capitalize() for word in kind.value.split(".")) + "Event"


def event_schemas() -> Json:
    """Return the payload schema of each kind, and those of the events that are listed."""
    posted = {_name(kind): _payload_schema(kind) for kind in events.EventKind}
    stored = {f"Stored{name}": _stored(name, schema) for name, schema in posted.items()}
    named = {kind.value: _SCHEMA.format(name=f"Stored{_name(kind)}") for kind in events.EventKind}
    event = {
        "title": "Event",
        "description": "Something that happened, as webhooks were sent it. Pass by a `type` that you do not know.",
        "oneOf": [{"$ref": pointer} for pointer in named.values()],
        "discriminator": {"propertyName": "type", "mapping": named},
    }
    return posted | stored | {"Event": event}


def _stored(name: str, posted: Json) -> Json:
    data = {
        "description": "The record as it was then. Null where the stored one cannot be decrypted.",
        "anyOf": [posted["properties"]["data"], {"type": "null"}],
    }
    return posted | {"title": f"Stored{name}", "properties": posted["properties"] | {"data": data}}


def with_named_parts(schemas: Json) -> Json:
    """Give each enum and object inside of a schema a name, where generators of clients would number them."""
    named: Json = {}

    def part(name: str, schema: Json) -> Json:
        if "enum" not in schema and "properties" not in schema:
            return schema
        title = schema.get("title", name)
        named[title] = whole(title, schema)
        return {"$ref": _SCHEMA.format(name=title)}

    def whole(name: str, schema: Json) -> Json:
        titled: Json = {"title": name} | schema
        if "properties" in schema:
            titled["properties"] = {
                each: part(name + each.title().replace("_", ""), value)
                for each, value in schema["properties"].items()
            }
        return titled

    return {name: whole(name, schema) for name, schema in schemas.items()} | named


def _payload_schema(kind: events.EventKind) -> Json:
    properties: Json = {
        "id": {
            "type": "string",
            "format": "uuid",
            "description": "The event's id; the same over retries, so that doubles can be dropped.",
        },
        "type": {"title": f"{_name(kind)}Type", "type": "string", "enum": [kind.value]},
        "created_at": {"type": "string", "format": "date-time"},
        "api_version": {"title": "EventApiVersion", "type": "string", "enum": [events.API_VERSION]},
        "data": {"$ref": _SCHEMA.format(name=EVENTS[kind].record.__name__)},
    }
    return {
        "title": _name(kind),
        "description": EVENTS[kind].about,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
