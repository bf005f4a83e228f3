"""The texts for agents: when to use a tool, what it costs, how to retry.

Owns texts only. Facts (arguments, results, scopes) come from the code that implements them.
"""

from collections.abc import Mapping

__all__ = [
    "COSTS",
    "FREE",
    "INSTRUCTIONS",
    "KEY_OF_COST",
    "KEY_OF_FREE",
    "LEFT_OUT",
    "LEFT_OUT_OPTIONS",
    "WHEN",
]

INSTRUCTIONS = """\
Books online meetings and has their notes written, paid with prepaid credits.

To book: list_pricing_tiers, then estimate_credits, then create_meeting, then share its join_url. Dates and times \
of a booking are WIB (UTC+7); all others are UTC. Ask the person before you spend credits or cancel anything.

For notes, once the meeting has ended: list_recordings with its meeting_id, then create_note with the recording's id, \
then get_note until its status is completed or failed. A meeting with auto_notulen has its notes written without \
create_note: list_notes with the meeting_id finds them. The estimate of a meeting is the meeting's price; notes are \
charged when they are written, by the begun minute of the recording, and fail where the credits are short then.

A tool that costs takes an idempotency_key: keep it over the retries of one intent, change it for a new one. \
After a timeout or an error that says so, repeat the call with the same key and arguments: nothing is paid twice.

A refusal has error.code, error.message and error.details. After rate_limited and service_unavailable wait \
details.retry_after_seconds. After insufficient_scope ask for another key. Quote error.request_id to support.
"""

WHEN: Mapping[str, str] = {
    "get_me": "Use it first when another tool refuses: it shows whose key this is, which scopes it has and its "
    "daily cap of credits.",
    "list_pricing_tiers": "Use it before booking: it lists the tiers with seats, minutes and price. Give a tier's id "
    "as pricing_tier_id.",
    "get_credits": "Use it to see what can still be spent: available is the balance less what work in progress "
    "holds, daily_cap what is left of this key's cap today.",
    "list_transactions": "Use it to explain the balance: every charge (below zero) and refund, the newest first; of a kind "
    "and of a range of days (WIB) where you ask for them.",
    "estimate_credits": "Use it before anything that costs. It charges nothing; what it says is what is charged, and "
    "sufficient tells whether the credits and the key's cap allow it now. The price of a meeting does not hold its notes, "
    "not even with auto_notulen: estimate them with type notulen.",
    "create_meeting": "Use it to book an online meeting, after list_pricing_tiers and estimate_credits. Share "
    "join_url with the participants. auto_notulen forces recording on; its notes are charged later, "
    "by the begun minute of the recording, and fail where the credits are short then. When no host is free at that time it "
    "refuses with service_unavailable: choose another time or wait.",
    "list_recordings": "Use it to find the recording of a meeting that has ended, by meeting_id; it is there a while "
    "after the end.",
    "get_recording": "Use it to see how long a recording is, and until when it is kept.",
    "get_download_url": "Use it to hand a recording to a person: the link works for 15 minutes without a key, so give "
    "it to nobody else.",
    "delete_recording": "Use it to delete a recording for good; with_notes also erases the notes made of it. Ask the "
    "person first: it cannot be undone.",
    "create_note": "Use it to have notes written of a recording, once per language. The price is by the minute of the "
    "recording: estimate_credits with type notulen tells it. The note is queued: read it with get_note after a few "
    "minutes, until its status is completed or failed; a failed one costs nothing.",
    "list_notes": "Use it to find the notes of a meeting by meeting_id, those on a recording by recording_id, or the latest "
    "of all.",
    "get_note": "Use it to read notes: summary, decisions, action items with owner and due date, and the transcript.",
    "list_meetings": "Use it to find meetings by status or time, and to check whether a booking is already there.",
    "get_meeting": "Use it to read one meeting: its status, join link and password.",
    "cancel_meeting": "Use it to call a meeting off. Before its start the credits come back; while it runs it is "
    "ended for everybody and nothing comes back. Cannot be undone.",
    "register_webhook": "Use it when a system of the customer is to be told of events. The URL is https and public. "
    "Hand the secret to whoever checks the signatures; do not show it elsewhere.",
    "list_webhooks": "Use it to see which URLs are told of what, and which were disabled by failures.",
    "get_webhook": "Use it to read one webhook; a key that may write sees its secret.",
    "update_webhook": "Use it to change what a webhook is told of, or to pause and resume it. The URL cannot be "
    "changed: register another one.",
    "remove_webhook": "Use it to stop telling a URL for good; what waits for it is dropped. To pause it, use "
    "update_webhook with is_active false.",
    "rotate_webhook_secret": "Use it when a webhook's secret has leaked. The old one stops working at once.",
    "test_webhook": "Use it to try a webhook: it sends webhook.test. Read the delivery with get_delivery a little "
    "later.",
    "list_deliveries": "Use it to find out what was sent to a webhook and what came of it.",
    "get_delivery": "Use it to see each attempt of a delivery and what it met.",
    "resend_delivery": "Use it to send an event again after its receiver was mended.",
}
"""When to use each tool; an operation without an entry is no tool."""

LEFT_OUT: Mapping[str, str] = {}
"""The operations that are no tools on purpose, and why."""

LEFT_OUT_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "get_note": {"format": "a tool's result is a record, which an agent reads as well as Markdown"},
}
"""What is left to choose of an operation over HTTP and not of its tool, and why."""

COSTS = "Costs credits, deducted from the account: call estimate_credits first."
FREE = "Costs no credits."

KEY_OF_COST = (
    "Names this one intent, so that it is paid once. Make a new one, such as a UUID, for each new intent; keep it "
    "and the other arguments as they are over every retry of it. A new key is a new charge. Remembered for 24 hours."
)
KEY_OF_FREE = "Names this one intent, so that a retry with the same arguments does it once. Optional. Remembered for 24 hours."
