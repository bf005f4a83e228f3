"""The sentences of the OpenAPI document that belong to no one operation."""

from collections.abc import Mapping

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

**Recordings and notes**: [the way from a meeting to its notes]({base_url}/docs/notulen).
"""

TAGS: Mapping[str, str] = {
    "me": "The key that asks, and its account.",
    "pricing-tiers": "What a meeting costs: seats, minutes, credits.",
    "credits": "The balance, the ledger, and what something would cost.",
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
    204: "Done; there is nothing to say",
}

REASONS: Mapping[int, str] = {
    400: "A field breaks its rule; `details.fields` names every problem",
    401: "The key is missing, wrong, revoked or expired",
    403: "The key lacks a scope",
    404: "Nothing there that the key's account may see",
    409: "A record is in the way; `details.id` names it",
    410: "It was there and is gone for good",
    413: "The body is larger than 64 KiB",
    415: "The body is not declared as `application/json`",
    422: "Well-formed, but it cannot be carried out",
    429: "Too many requests in this minute",
    500: "A fault at the service",
    502: "The video provider refused or did not answer",
    503: "Temporarily unavailable",
}
