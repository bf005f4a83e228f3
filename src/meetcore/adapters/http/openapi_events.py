"""The `webhooks` of the OpenAPI document: what is posted to customers, how it is signed, what is expected."""

from collections.abc import Iterator
from typing import Any

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api.example_events import EVENTS, payload
from meetcore.domain.webhooks.events import API_VERSION, EventKind
from meetcore.domain.webhooks.signature import SIGNATURE_HEADER

Json = dict[str, Any]

_SCHEMA = "#/components/schemas/{name}"
_HEADERS = (
    (
        SIGNATURE_HEADER,
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
    return {kind.value: {"post": _post(kind)} for kind in EventKind}


def _post(kind: EventKind) -> Json:
    content = {
        "schema": {"$ref": _SCHEMA.format(name=_name(kind))},
        "example": payload(kind),
    }
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


def _headers(kind: EventKind) -> Iterator[Json]:
    for name, about, example in _HEADERS:
        yield {
            "name": name, "in": "header", "required": True, "description": about,
            "schema": {"type": "string"}, "example": example or kind.value,
        }  # fmt: skip


def _name(kind: EventKind) -> str:
    return "".join(word.capitalize() for word in kind.value.split(".")) + "Event"


def event_schemas() -> Json:
    """Return the payload schema of each kind."""
    return {_name(kind): _payload_schema(kind) for kind in EventKind}


def _payload_schema(kind: EventKind) -> Json:
    properties: Json = {
        "id": {
            "type": "string",
            "format": "uuid",
            "description": "The event's id; the same over retries, so that doubles can be dropped.",
        },
        "type": {"type": "string", "enum": [kind.value]},
        "created_at": {"type": "string", "format": "date-time"},
        "api_version": {"type": "string", "enum": [API_VERSION]},
        "data": {"$ref": _SCHEMA.format(name=EVENTS[kind].record.__name__)},
    }
    return {
        "title": _name(kind),
        "description": EVENTS[kind].about,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
