"""Examples of refusals for the documentation: a message of each code, and details where it has some."""

from collections.abc import Mapping
from typing import Any

from meetcore.adapters.api.example_records import WEBHOOK

Json = dict[str, Any]

MESSAGES: Mapping[str, str] = {
    "invalid_request": "The request is not valid: see details.fields (start_time, titel).",
    "invalid_api_key": "The API key is not valid.",
    "insufficient_scope": "This key lacks the scope meetings:write. Scopes are fixed when a key is created: "
    "use another key.",
    "not_found": "No record with this id.",
    "conflict": "This URL is registered already.",
    "gone": "The event of this delivery is past its retention.",
    "unprocessable_entity": "The meeting would start in the past.",
    "idempotency_key_reused": "This Idempotency-Key was used for a different request. "
    "Use a new key for a new intent.",
    "insufficient_credits": "This needs 15 credits and 4 are available. Top up and try again.",
    "credit_cap_exceeded": "This key may spend 200 credits a day and has spent or reserved 190; 15 more do not "
    "fit. The day ends at 2026-11-21T17:00:00Z.",
    "rate_limited": "More than 20 requests in this minute. Wait 17 s and try again.",
    "internal_error": "Something went wrong at the service. Quote the request id to support.",
    "upstream_error": "The video provider refused the meeting. Nothing was charged.",
    "service_unavailable": "No meeting host is free in this time range. Try again later or choose another time.",
}
"""A message of each code."""

DETAILS: Mapping[str, Json] = {
    "invalid_request": {
        "fields": {"start_time": ["must be HH:mm"], "titel": ["is not a field of this operation"]}
    },
    "insufficient_scope": {"required": ["meetings:write"]},
    "conflict": {"id": WEBHOOK["id"]},
    "unprocessable_entity": {"start_at": "2026-11-20T02:00:00Z"},
    "insufficient_credits": {"required": 15, "available": 4},
    "credit_cap_exceeded": {"cap": 200, "spent": 190, "required": 15, "resets_at": "2026-11-21T17:00:00Z"},
    "rate_limited": {"limit": 20, "window_seconds": 60},
    "service_unavailable": {"next_available_at": "2026-12-01T03:00:00Z"},
}
"""Details of the codes that have some."""
