"""What the API answers with, typed: one frozen class for each record.

Ids are `str`: opaque, as they stand in the API. Times are aware datetimes. Credits, minutes and seats are
whole numbers. Where the API may grow (a status, a kind, a scope) the field is a `str`, so that a value that
this version does not know breaks nothing; the known values are `StrEnum`s, which equal their text. Fields
that this version does not know are ignored. What is secret is not in a record's `repr`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

from attrs import field, frozen
from msgspec import Meta

from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EventKind

__all__ = [
    "Account",
    "AccountCredits",
    "ApiKey",
    "At",
    "Attempt",
    "Balance",
    "BalanceChange",
    "Cancellation",
    "DailyCap",
    "Delivery",
    "DeliveryStatus",
    "Estimate",
    "EstimateItem",
    "EventKind",
    "Meeting",
    "MeetingStatus",
    "Page",
    "PricingTier",
    "Reference",
    "Transaction",
    "TransferKind",
    "User",
    "Webhook",
]

At = Annotated[datetime, Meta(tz=True)]
"""A time that has its offset."""

T = TypeVar("T")


class MeetingStatus(StrEnum):
    """Where a meeting stands."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    ENDED = "ended"
    CANCELLED = "cancelled"


@frozen
class Page(Generic[T]):
    """One page of a list, and the cursor of the next; None where this is the last."""

    data: tuple[T, ...]
    next_cursor: str | None = None


@frozen
class User:
    """Whose account it is."""

    id: str
    email: str
    full_name: str


@frozen
class AccountCredits:
    """The account's balance, in credits."""

    balance: int


@frozen
class ApiKey:
    """The key that asks. `daily_credit_cap` is None where it has none."""

    id: str
    scopes: tuple[str, ...]
    daily_credit_cap: int | None = None


@frozen
class Account:
    """Who the key belongs to."""

    user: User
    credits: AccountCredits
    api_key: ApiKey | None = None


@frozen
class PricingTier:
    """What can be bought: seats, minutes, credits."""

    id: str
    name: str
    capacity: int
    max_duration: int
    duration_unit: str
    credits: int
    recording_credits: int


@frozen
class Meeting:
    """A meeting. `with_recording` is the value in effect."""

    id: str
    title: str
    status: str
    start_at: At
    start_at_wib: At
    auto_notulen: bool
    created_at: At
    with_recording: bool
    end_at: At | None = None
    duration: int | None = None
    duration_unit: str | None = None
    capacity: int | None = None
    join_url: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    host_key: str | None = field(default=None, repr=False)
    provider_meeting_id: str | None = None
    credits_deducted: int | None = None


@frozen
class Cancellation:
    """What became of a meeting, and the credits that came back."""

    id: str
    status: str
    credits_refunded: int


@frozen
class DailyCap:
    """What the key may spend today, in credits; the day ends at `resets_at`."""

    cap: int
    spent: int
    remaining: int
    resets_at: At


@frozen
class Balance:
    """What is there, what is reserved, and what can be spent."""

    balance: int
    held: int
    available: int
    daily_cap: DailyCap | None = None


@frozen
class EstimateItem:
    """One part of a price."""

    name: str
    credits: int


@frozen
class Estimate:
    """What work would cost, and whether the balance covers it."""

    type: str
    credits: int
    items: tuple[EstimateItem, ...]
    balance: int
    sufficient: bool
    with_recording: bool | None = None


@frozen
class Reference:
    """What a transaction is about: a meeting, a note, a top-up."""

    type: str
    id: str


@frozen
class Transaction:
    """An entry of the ledger; `amount` is signed. A refund names what it `reverses`."""

    id: str
    kind: str
    amount: int
    balance_after: int
    reference: Reference
    created_at: At
    reverses: str | None = None
    api_key_id: str | None = None


@frozen
class Webhook:
    """A URL that receives events. `secret` is there where the operation and the key's scopes give it."""

    id: str
    url: str
    event_types: tuple[str, ...]
    is_active: bool
    consecutive_failures: int
    created_by: str
    created_at: At
    description: str | None = None
    disabled_at: At | None = None
    secret: str | None = field(default=None, repr=False)


@frozen
class Attempt:
    """One post of a delivery. `error` is a stable code; None when it succeeded."""

    at: At
    duration_ms: int
    status_code: int | None = None
    error: str | None = None
    response_excerpt: str | None = None


@frozen
class Delivery:
    """An event on its way to a webhook, with every attempt, the first one first."""

    id: str
    event_id: str
    event_type: str
    status: str
    attempts: tuple[Attempt, ...]
    created_at: At
    next_attempt_at: At | None = None


@frozen
class BalanceChange:
    """The data of `credit.low` and `credit.topup.succeeded`."""

    balance: int
    held: int
    available: int
    transaction: Transaction
