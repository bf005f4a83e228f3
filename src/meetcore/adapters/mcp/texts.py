"""The texts for agents that belong to no one tool: what a tool costs, how to retry."""

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

COSTS = "Costs credits, deducted from the account: call estimate_credits first."
FREE = "Costs no credits."

KEY_OF_COST = (
    "Names this one intent, so that it is paid once. Make a new one, such as a UUID, for each new intent; keep it "
    "and the other arguments as they are over every retry of it. A new key is a new charge. Remembered for 24 hours."
)
KEY_OF_FREE = "Names this one intent, so that a retry with the same arguments does it once. Optional. Remembered for 24 hours."
