"""The description of each error code: what it means, what to do, whether a retry helps.

The pages behind `error.docs_url` and the table in docs/errors.md are made of it.
"""

from collections.abc import Mapping

from attrs import frozen


@frozen
class ErrorPage:
    """What a code means, what the caller does about it, and whether the same request may be sent again."""

    meaning: str
    remedy: str
    retry: str
    details: str = "Empty."


ERROR_PAGES: Mapping[str, ErrorPage] = {
    "invalid_request": ErrorPage(
        "The request breaks a rule of the operation: a field is missing, unknown, of a wrong type or out of "
        "its limits, or the query has more than 32 parameters or 4096 bytes (an operator can set other "
        "bounds). The same code comes with status 405 for a wrong method, 413 for a body over 64 KiB, 415 "
        "for a body that is not declared as JSON and 431 for an address or header fields that are too long.",
        "Mend every field that details.fields names; all problems are listed at once.",
        "No: the same request gets the same answer.",
        "fields: the problems of each field.",
    ),
    "invalid_api_key": ErrorPage(
        "The API key is missing, malformed, unknown, revoked or expired, or its account is suspended; the "
        "message says so then.",
        "Send it as Authorization: Bearer <API_KEY>. A key has 43 characters after its prefix: was it copied "
        "whole? Otherwise use another key. For a suspended account no other key helps: ask the operator of "
        "the service.",
        "No.",
    ),
    "insufficient_scope": ErrorPage(
        "The key is valid and lacks a scope that the operation needs.",
        "Use a key with one of the scopes in details.required. Scopes are fixed when a key is made; "
        "GET /api/v1/me shows those of yours.",
        "No.",
        "required: the scopes, of which one is enough.",
    ),
    "not_found": ErrorPage(
        "There is nothing under this path or id that the key's account may see. Ids of other accounts and "
        "ids that are not UUIDs are answered in the same way.",
        "Check the id, and that the key belongs to the account that owns the record.",
        "No: it is pointless to repeat the request unchanged.",
        "pricing_tier_id where the tier is what was not found, else empty.",
    ),
    "conflict": ErrorPage(
        "The request clashes with a record that is already in place, or with the state of one: nothing is "
        "sent to a webhook that is inactive, and a meeting that has ended is not cancelled.",
        "Look at the record in details.id. Where notes are there already, read them with GET /notes/{id}. "
        "Where a webhook is inactive, resume it (PATCH is_active) and ask again. Where a meeting has ended, "
        "there is nothing left to do.",
        "Not with the same Idempotency-Key: it gets the same answer.",
        "id: the record in place, or the one whose state is in the way.",
    ),
    "gone": ErrorPage(
        "The data existed and is permanently gone, for example a recording, a meeting or an event past its "
        "retention period.",
        "Nothing brings it back.",
        "No.",
    ),
    "unprocessable_entity": ErrorPage(
        "The request is well-formed but cannot be carried out: a meeting in the past, a recording without "
        "sound, a webhook host that points to a private network or does not resolve, a webhook more than an "
        "account may have.",
        "Read the message; it says what stands in the way.",
        "Only for a host name that did not resolve, once it does.",
        "start_at, alphabet or fields, whichever stands in the way; may be empty.",
    ),
    "idempotency_key_reused": ErrorPage(
        "The Idempotency-Key was used before for a different request.",
        "Keep a key over the retries of one request, and take a new one for a new intent.",
        "No.",
        "id of the meeting that the key paid for, if that was long ago; else empty.",
    ),
    "insufficient_credits": ErrorPage(
        "The available balance does not cover the work. Nothing was charged.",
        "Top up, or choose a cheaper tier.",
        "After a top-up, with a new Idempotency-Key.",
        "required and available, in credits.",
    ),
    "credit_cap_exceeded": ErrorPage(
        "The key's daily credit cap leaves no room for the work. Nothing was charged.",
        "Wait for the next day (00:00 WIB), use another key, or have the cap raised.",
        "After details.resets_at, with a new Idempotency-Key.",
        "cap, spent and required in credits; resets_at.",
    ),
    "rate_limited": ErrorPage(
        "Too many requests by this key in this minute. Refused requests count too.",
        "Wait for the seconds of Retry-After; the next window starts at second 00 of the minute.",
        "Yes, after Retry-After.",
        "limit and window_seconds.",
    ),
    "internal_error": ErrorPage(
        "A fault at the service.",
        "Quote error.request_id to support.",
        "Yes, with the same Idempotency-Key: the work is never done twice.",
    ),
    "upstream_error": ErrorPage(
        "A third party (the video-conference or AI provider) refused or did not answer.",
        "Try again; if it stays, choose another time. A creation without an Idempotency-Key is undone.",
        "Yes, with the same Idempotency-Key: the work is never done twice.",
    ),
    "service_unavailable": ErrorPage(
        "Temporarily unavailable: no meeting host is free in the time range, the meetings that can be made "
        "in a day, or this account's share of them, are used up, a recording has grown and is being "
        "measured, the first request with this Idempotency-Key is still in progress, or the service is "
        "being mended.",
        "Wait for the seconds of Retry-After, or choose another time. Where the message says that a meeting "
        "is in doubt, look for it with GET /meetings first.",
        "Yes, after Retry-After, with the same Idempotency-Key.",
        "next_available_at where it is known when a host is free or more meetings can be made; else empty.",
    ),
}
