"""The sentences of the OpenAPI document, operation by operation.

Owns texts only. Facts (scopes, statuses, fields, limits) come from the code that implements them.
"""

from collections.abc import Mapping

from meetcore.domain.webhooks.events import EventKind

__all__ = ["ABOUT", "EVENTS", "LINKS", "OVERVIEW", "REASONS", "SUCCESS", "TAGS"]

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
    "webhooks": "URLs that are told of events, and every delivery to them.",
    "events": "What is posted to webhooks.",
}

ABOUT: Mapping[str, str] = {
    "get_me": "A 200 means that the key is valid, not revoked and not expired.",
    "list_pricing_tiers": "Give a tier's `id` as `pricing_tier_id` to create a meeting.",
    "get_credits": "`available` is what can be spent: work in progress holds the rest. `daily_cap` is null when the key has none.",
    "list_transactions": "A charge is below zero; a refund names the transaction that it `reverses`.",
    "estimate_credits": "What it says is what is charged: of a meeting, the meeting and its recording. Notes, those of "
    "`auto_notulen` too, are a price of their own: `type` `notulen`, by the begun minute. `sufficient` is false where the "
    "credits or the key's cap would refuse it now.",
    "create_meeting": "The price is the tier's `credits`, plus its `recording_credits` when the meeting is recorded; "
    "it is deducted at once, and only when the meeting exists. `auto_notulen` forces recording on; its notes "
    "are charged later, by the begun minute of the recording, and fail where the credits or the key's cap do not allow them "
    "then. Date and time are read in WIB (UTC+7). When no host is free in the time range the answer is 503 with "
    "`Retry-After`: choose another time or try again.",
    "list_meetings": "What is in creation is not listed.",
    "get_meeting": "A meeting is there once it is `scheduled`.",
    "cancel_meeting": "Before its start it is cancelled and its credits are returned, once. While it runs it is ended, "
    "and nothing is returned. Asking again gives the same answer.",
    "list_recordings": "A recording is there once its media has been measured, some minutes after its meeting.",
    "get_recording": "An `expired` one can be read, and nothing else: its files are gone.",
    "get_download_url": "The link works for 15 minutes, by whoever has it: hand it on with care.",
    "delete_recording": "Its files are removed at the video provider too. Notes stay, unless `with_notes` is true; notes "
    "in progress fail and cost nothing. What was charged stays in the ledger.",
    "create_note": "The note is `queued`; `note.completed` tells when it is there. It is charged then, by the begun minutes "
    "of the recording; until then that is held. There is one note for each recording and language: "
    "where it is there the answer is 409, and `details.id` names it for `GET /notes/{id}`. A recording without "
    "sound is 422; 503 with Retry-After means that more of it has come and is being measured.",
    "list_notes": "Each with all of its content: ask for small pages.",
    "get_note": "`format=markdown` answers `text/markdown`. A failed note says why in `error` and costs nothing.",
    "register_webhook": "The host must lead to public addresses only; that is checked now and before every delivery. "
    "A URL can be registered once per account, and an account has a limited number of them (422). Keep the `secret`: "
    "it checks the signatures. Every event of the account can be asked for, so that this scope lets a receiver read "
    "what events carry: meetings with their join links, without `password` and `host_key`, recordings, notes with what "
    "was said, and the balance with its transactions.",
    "list_webhooks": "Read one of them for its secret.",
    "get_webhook": "`webhooks:read` sees the record without the secret.",
    "update_webhook": "`is_active: true` resumes a webhook; one that was disabled by failures starts counting anew. "
    "The URL cannot be changed: register another one.",
    "remove_webhook": "What waits for it is not sent any more.",
    "rotate_webhook_secret": "The old secret is used no more, not even for retries.",
    "test_webhook": "Look at the delivery to see what came of it. An inactive webhook is 409.",
    "list_deliveries": "A delivery is one event on its way to one webhook, with every attempt.",
    "get_delivery": "`attempts` tell what each post met.",
    "resend_delivery": "A new delivery of the same event: the payload, its `id` included, is the same.",
}
"""A sentence or two on each operation, after what is derived."""

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

_ITS_ID = {"id": "$response.body#/id"}
_ITS_DELIVERY = {"id": "$request.path.id", "delivery_id": "$response.body#/id"}

LINKS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "create_meeting": {"get_meeting": _ITS_ID, "cancel_meeting": _ITS_ID},
    "create_note": {"get_note": _ITS_ID},
    "register_webhook": {
        "get_webhook": _ITS_ID,
        "update_webhook": _ITS_ID,
        "rotate_webhook_secret": _ITS_ID,
        "test_webhook": _ITS_ID,
        "list_deliveries": _ITS_ID,
        "remove_webhook": _ITS_ID,
    },
    "test_webhook": {"get_delivery": _ITS_DELIVERY, "resend_delivery": _ITS_DELIVERY},
}
"""Where an answer leads: operation → the next one → its parameters."""

EVENTS: Mapping[EventKind, str] = {
    EventKind.MEETING_CREATED: "A meeting was made. `data` is the meeting; its `password` and `host_key` are null.",
    EventKind.MEETING_ENDED: "A meeting was ended, by the provider or by `DELETE /meetings/{id}`. `data` is the meeting; "
    "its `password` and `host_key` are null.",
    EventKind.RECORDING_READY: "A recording can be had. `data` is the recording.",
    EventKind.NOTE_COMPLETED: "Notes are written and paid for. `data` is the note.",
    EventKind.NOTE_FAILED: "Notes could not be written; they cost nothing. `data` is the note.",
    EventKind.CREDIT_LOW: "The available balance fell below the account's threshold. `data` is the balance and the "
    "transaction that did it. Sent once, and again only after the balance was at the threshold.",
    EventKind.CREDIT_TOPUP_SUCCEEDED: "Credits were added. `data` is the balance and the transaction.",
    EventKind.WEBHOOK_TEST: "You asked for it with `POST /webhooks/{id}/test`. `data` is the webhook, without its secret.",
}
"""What each event tells."""
