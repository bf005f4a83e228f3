"""The shapes of answers, for the OpenAPI document; a test holds `domain.records` against them."""

from typing import Annotated, Any

from attrs import frozen
from msgspec import UNSET, Meta, UnsetType

from meetcore.domain.deliveries import DeliveryStatus
from meetcore.domain.events import EventKind
from meetcore.domain.ledger import TransferKind

__all__ = ["ALL"]

Utc = Annotated[
    str, Meta(description="RFC 3339 in UTC, whole seconds.", extra_json_schema={"format": "date-time"})
]
Wib = Annotated[
    str, Meta(description="The same instant at +07:00.", extra_json_schema={"format": "date-time"})
]
Id = Annotated[str, Meta(description="A UUID.", extra_json_schema={"format": "uuid"})]
Credits = Annotated[int, Meta(description="Whole credits.")]


@frozen
class Meeting:
    """Spec 2.1."""

    id: Id
    title: str
    status: str
    start_at: Utc
    start_at_wib: Wib
    end_at: Utc | None
    duration: int | None
    duration_unit: str | None
    capacity: int | None
    join_url: str | None
    password: str | None
    host_key: str | None
    provider_meeting_id: str | None
    auto_notulen: bool
    created_at: Utc
    with_recording: bool
    credits_deducted: Credits | None


@frozen
class MeetingList:
    """The account's meetings, the newest first."""

    data: list[Meeting]
    next_cursor: str | None


@frozen
class Cancellation:
    """What became of a meeting, and the credits that were returned."""

    id: Id
    status: str
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
    next_cursor: str | None


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
    scopes: list[str]
    daily_credit_cap: Credits | None


@frozen
class Account:
    """Spec 2.2."""

    user: User
    credits: Balance
    api_key: Key | None


@frozen
class Webhook:
    """Spec 2.3, without the secret."""

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
    """Spec 2.3. The secret is there where the operation and the key's scopes give it."""

    id: Id
    url: str
    description: str | None
    event_types: list[EventKind]
    is_active: bool
    consecutive_failures: int
    disabled_at: Utc | None
    created_by: str
    created_at: Utc
    secret: str | UnsetType = UNSET


@frozen
class WebhookList:
    """The account's webhooks, the newest first."""

    data: list[Webhook]
    next_cursor: str | None


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
    next_cursor: str | None


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
    next_cursor: str | None


@frozen
class Error:
    """Spec part 7. Callers branch on `code`."""

    code: str
    message: str
    docs_url: str
    request_id: str
    details: dict[str, Any]


@frozen
class ErrorEnvelope:
    """Every failure."""

    error: Error


ALL = (
    Meeting, MeetingList, Cancellation, Account, Webhook, WebhookWithSecret, WebhookList, Delivery,
    DeliveryList, TierList, CreditsRecord, TransactionList, Estimate, ErrorEnvelope,
)  # fmt: skip
