"""The shapes of answers, for the OpenAPI document; a test holds `domain.records` against them."""

from enum import StrEnum
from typing import Annotated

from attrs import frozen
from msgspec import UNSET, Meta, UnsetType

from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EventKind

Utc = Annotated[
    str, Meta(description="RFC 3339 in UTC, whole seconds.", extra_json_schema={"format": "date-time"})
]
Wib = Annotated[
    str, Meta(description="The same instant at +07:00.", extra_json_schema={"format": "date-time"})
]
Id = Annotated[str, Meta(description="A UUID.", extra_json_schema={"format": "uuid"})]
Credits = Annotated[int, Meta(description="Whole credits.")]
Moment = Annotated[int, Meta(description="Seconds from the beginning of the recording.")]
Cursor = Annotated[
    str | None, Meta(description="What to give as `cursor` for the next page; null on the last.")
]


class MeetingState(StrEnum):
    """How a meeting stands. It counts as started when the provider says so or its start has passed."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    ENDED = "ended"
    CANCELLED = "cancelled"


@frozen
class Meeting:
    """A meeting at the video provider. What the provider does not know is null."""

    id: Id
    title: str
    status: MeetingState
    start_at: Utc
    start_at_wib: Wib
    end_at: Annotated[str | None, Meta(description="The start plus the tier's maximum duration, in UTC.")]
    duration: Annotated[int | None, Meta(description="Whole minutes.")]
    duration_unit: Annotated[str | None, Meta(description="`minutes`.")]
    capacity: Annotated[int | None, Meta(description="How many participants fit: the tier's seats.")]
    join_url: Annotated[str | None, Meta(description="To be shared with the participants.")]
    password: Annotated[str | None, Meta(description="What participants are asked for.")]
    host_key: Annotated[
        str | None, Meta(description="Makes a participant the host; from 15 minutes before the start.")
    ]
    provider_meeting_id: Annotated[str | None, Meta(description="Its id at the video provider.")]
    auto_notulen: bool
    created_at: Utc
    with_recording: Annotated[bool, Meta(description="The effective value: `auto_notulen` forces it on.")]
    credits_deducted: Annotated[int | None, Meta(description="Whole credits.")]


@frozen
class MeetingList:
    """The account's meetings, the newest first."""

    data: list[Meeting]
    next_cursor: Cursor


@frozen
class Cancellation:
    """What became of a meeting, and the credits that were returned."""

    id: Id
    status: MeetingState
    credits_refunded: Credits


@frozen
class DailyCap:
    """What the key may spend of a day in WIB. `spent` counts what is held, less what was refunded."""

    cap: Credits
    spent: Credits
    remaining: Credits
    resets_at: Utc


@frozen
class CreditsRecord:
    """The account's credits, and the cap of the key that asks."""

    balance: Credits
    held: Annotated[int, Meta(description="Whole credits that work in progress reserves.")]
    available: Credits
    daily_cap: DailyCap | None


@frozen
class TransactionReference:
    """What a transaction is about."""

    type: Annotated[str, Meta(examples=["meeting", "topup"])]
    id: str


@frozen
class Transaction:
    """One movement of credits. `amount` is negative for what was taken; a refund names what it `reverses`."""

    id: Id
    kind: TransferKind
    amount: Credits
    balance_after: Credits
    reference: TransactionReference
    reverses: Id | None
    api_key_id: Id | None
    created_at: Utc


@frozen
class TransactionList:
    """The account's transactions, the newest first."""

    data: list[Transaction]
    next_cursor: Cursor


@frozen
class EstimateItem:
    """One line of a price."""

    name: Annotated[str, Meta(examples=["meeting", "recording", "notulen"])]
    credits: Credits


@frozen
class Estimate:
    """What would be charged. `sufficient`: neither the credits nor the key's cap would refuse it now."""

    type: Annotated[str, Meta(examples=["meeting", "notulen"])]
    credits: Credits
    items: list[EstimateItem]
    with_recording: bool
    balance: Credits
    sufficient: bool


@frozen
class User:
    """Whose account it is."""

    id: Id
    email: str
    full_name: str


@frozen
class Balance:
    """The account's balance."""

    balance: Credits


@frozen
class Key:
    """The key that asks."""

    id: Id
    scopes: list[Scope]
    daily_credit_cap: Annotated[
        int | None, Meta(description="Whole credits a day from 00:00 WIB; null when the key has no cap.")
    ]


@frozen
class Account:
    """Whose key it is, what is left, and what the key may do."""

    user: User
    credits: Balance
    api_key: Key | None


@frozen
class Webhook:
    """A URL that receives events, without its secret."""

    id: Id
    url: str
    description: str | None
    event_types: list[EventKind]
    is_active: bool
    consecutive_failures: int
    disabled_at: Utc | None
    created_by: str
    created_at: Utc


@frozen
class WebhookWithSecret:
    """A URL that receives events. The secret is there where the operation and the key's scopes give it."""

    id: Id
    url: str
    description: str | None
    event_types: list[EventKind]
    is_active: bool
    consecutive_failures: int
    disabled_at: Utc | None
    created_by: str
    created_at: Utc
    secret: Annotated[str, Meta(description="What signatures are keyed with.")] | UnsetType = UNSET


@frozen
class WebhookList:
    """The account's webhooks, the newest first."""

    data: list[Webhook]
    next_cursor: Cursor


@frozen
class Attempt:
    """One post of a delivery and what came of it. `error` is a stable code; null when it succeeded."""

    at: Utc
    duration_ms: Annotated[int, Meta(description="Whole milliseconds.")]
    status_code: Annotated[int | None, Meta(description="Null when no answer was read.")]
    error: Annotated[str | None, Meta(examples=["status_503", "connect_timeout"])]
    response_excerpt: Annotated[str | None, Meta(description="How the answer's body begins.")]


@frozen
class Delivery:
    """An event on its way to a webhook. The event's id stays the same over all deliveries of it."""

    id: Id
    event_id: Id
    event_type: EventKind
    status: DeliveryStatus
    attempts: list[Attempt]
    next_attempt_at: Utc | None
    created_at: Utc


@frozen
class DeliveryList:
    """The deliveries to a webhook, the newest first."""

    data: list[Delivery]
    next_cursor: Cursor


@frozen
class Tier:
    """A pricing tier: seats, minutes, credits."""

    id: str
    name: str
    capacity: int
    max_duration: int
    duration_unit: str
    credits: Credits
    recording_credits: Credits


@frozen
class TierList:
    """The tiers on sale."""

    data: list[Tier]
    next_cursor: Cursor


@frozen
class BalanceChange:
    """The credits after a transaction, and the transaction."""

    balance: Annotated[int, Meta(description="Whole credits, what is held included.")]
    held: Annotated[int, Meta(description="Whole credits that work in progress has reserved.")]
    available: Annotated[int, Meta(description="Whole credits that can be spent.")]
    transaction: Transaction


class RecordingState(StrEnum):
    """Whether a recording's files can still be had."""

    AVAILABLE = "available"
    EXPIRED = "expired"


@frozen
class Recording:
    """The recording of a meeting, in however many files."""

    id: Id
    meeting_id: Id
    status: RecordingState
    duration: Annotated[int, Meta(description="Begun minutes of media, as notes are paid by.")]
    duration_unit: Annotated[str, Meta(description="`minutes`.")]
    size_bytes: Annotated[int, Meta(description="How long the download is.")]
    recorded_at: Utc
    expires_at: Annotated[str, Meta(description="When its files are removed, in UTC.")]


@frozen
class RecordingList:
    """The account's recordings, the newest first."""

    data: list[Recording]
    next_cursor: Cursor


@frozen
class DownloadUrl:
    """A link to a recording that works without a key."""

    url: Annotated[str, Meta(description="GET it; byte ranges work. A further file is named in `Link`.")]
    expires_at: Annotated[str, Meta(description="Until when it works, in UTC.")]


class NoteState(StrEnum):
    """How far the notes of a recording are."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@frozen
class Decision:
    """What was decided, with the words that say so."""

    text: str
    quote: str
    at: Moment


@frozen
class ActionItem:
    """What is to be done, by whom and until when."""

    task: str
    owner: str | None
    due: str | None
    quote: str
    at: Moment


@frozen
class Utterance:
    """An utterance. The speaker is null where only the sound is known."""

    speaker: str | None
    at: Moment
    text: str


@frozen
class Note:
    """The notes of a recording."""

    id: Id
    recording_id: Id
    meeting_id: Id
    status: NoteState
    language: Annotated[Language, Meta(description="What they are written in.")]
    summary: str | None
    decisions: list[Decision]
    action_items: list[ActionItem]
    topics: list[str]
    transcript: list[Utterance]
    duration: Annotated[int | None, Meta(description="Begun minutes that were paid for; null before.")]
    credits_charged: Annotated[int | None, Meta(description="Whole credits; null while it is in progress.")]
    error: Annotated[str | None, Meta(description="Why there are none.")]
    created_at: Utc
    completed_at: Annotated[str | None, Meta(description="In UTC.")]


@frozen
class NoteList:
    """The account's notes, the newest first."""

    data: list[Note]
    next_cursor: Cursor
