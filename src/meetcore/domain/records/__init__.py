"""The records of spec 2, as customers see them in answers and in event payloads.

One class for each: its fields in the order of the JSON, with what the documentation says of them. The API's
schemas are derived from the classes, the service encodes them, and `meetcore.client` decodes into them.

Ids are `str`: opaque to callers. Times have whole seconds and their offset. Where the API may grow (a status,
a kind, a scope) a field is a `str` with its values of today in its `FieldInfo`, so that readers accept later
ones; what may be null has None as its default.

`accounts`  accounts, users and keys
`credits`   the balance, transactions, tiers, estimates
`meetings`  meetings and their cancellation
`notes`     notes and recordings
`webhooks`  webhooks, their deliveries and events
`fields`    types that several records share
"""

from meetcore.domain.records.accounts import Account, Balance, Key, User
from meetcore.domain.records.credits import (
    BalanceChange,
    CreditsRecord,
    DailyCap,
    Estimate,
    EstimateItem,
    Tier,
    Transaction,
    TransactionReference,
    balance_record,
    credits_record,
    estimate_record,
    tier_record,
    transaction_record,
)
from meetcore.domain.records.meetings import (
    Cancellation,
    Meeting,
    MeetingState,
    cancellation_record,
    meeting_event_record,
    meeting_record,
)
from meetcore.domain.records.notes import (
    ActionItem,
    Decision,
    DownloadUrl,
    Note,
    NoteState,
    Recording,
    RecordingState,
    Utterance,
    note_record,
    recording_record,
)
from meetcore.domain.records.webhooks import (
    Attempt,
    Delivery,
    Webhook,
    WebhookWithSecret,
    delivery_record,
    endpoint_record,
)

__all__ = [
    "Account",
    "ActionItem",
    "Attempt",
    "Balance",
    "BalanceChange",
    "Cancellation",
    "CreditsRecord",
    "DailyCap",
    "Decision",
    "Delivery",
    "DownloadUrl",
    "Estimate",
    "EstimateItem",
    "Key",
    "Meeting",
    "MeetingState",
    "Note",
    "NoteState",
    "Recording",
    "RecordingState",
    "Tier",
    "Transaction",
    "TransactionReference",
    "User",
    "Utterance",
    "Webhook",
    "WebhookWithSecret",
    "balance_record",
    "cancellation_record",
    "credits_record",
    "delivery_record",
    "endpoint_record",
    "estimate_record",
    "meeting_event_record",
    "meeting_record",
    "note_record",
    "recording_record",
    "tier_record",
    "transaction_record",
]
