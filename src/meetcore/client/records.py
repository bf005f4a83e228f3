"""The records of the API, a page of them, and the response that holds one.

Ids are opaque `str`s. Times are aware datetimes. Credits, minutes and seats are whole numbers. Where the API
may grow (a status, a kind, a scope) the field is a `str`, so that a value that this version does not know
breaks nothing; the known values are `StrEnum`s, which equal their text. Unknown fields are ignored. Secrets
and transcripts are not in a record's `repr`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from attrs import field, frozen

from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import Language
from meetcore.domain.payments.payments import PaymentStatus as TopupStatus
from meetcore.domain.records.accounts import (
    Account,
    BalanceChange,
    DailyCap,
    Estimate,
    EstimateItem,
    Transaction,
    User,
)
from meetcore.domain.records.accounts import Balance as AccountCredits
from meetcore.domain.records.accounts import CreditsRecord as Balance
from meetcore.domain.records.accounts import Key as ApiKey
from meetcore.domain.records.accounts import Tier as PricingTier
from meetcore.domain.records.accounts import TransactionReference as Reference
from meetcore.domain.records.meetings import Cancellation, Meeting
from meetcore.domain.records.meetings import MeetingState as MeetingStatus
from meetcore.domain.records.notes import ActionItem, Decision, DownloadUrl, Note, Recording, Utterance
from meetcore.domain.records.notes import NoteState as NoteStatus
from meetcore.domain.records.notes import RecordingState as RecordingStatus
from meetcore.domain.records.payments import CreditPackage, Topup, TopupRefund
from meetcore.domain.records.webhooks import Attempt, Delivery, Event, Recovery
from meetcore.domain.records.webhooks import WebhookWithSecret as Webhook
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EventKind

__all__ = [
    "Account", "AccountCredits", "ActionItem", "ApiKey", "Attempt", "Balance", "BalanceChange",
    "Cancellation", "CreditPackage", "DailyCap", "Decision", "Delivery", "DeliveryStatus", "Download",
    "DownloadUrl", "Estimate", "EstimateItem", "Event", "EventKind", "Language", "Meeting", "MeetingStatus",
    "Note", "NoteStatus", "Page", "PricingTier", "RateLimit", "Recording", "RecordingStatus", "Recovery",
    "Reference", "Response", "Topup", "TopupRefund", "TopupStatus", "Transaction", "TransferKind", "User",
    "Utterance", "Webhook",
]  # fmt: skip

T = TypeVar("T")
_NUMBER = re.compile(r"[0-9]{1,11}")  # up to the year 5138
_POLICY = re.compile(r'"([a-z]+)"')


@frozen
class Page(Generic[T]):
    """One page of a list, and the cursor of the next page; None on the last one."""

    data: tuple[T, ...]
    next_cursor: str | None = None


@frozen
class Download:
    """The files of a downloaded recording, and all their bytes; `has_more`: another part was not wanted."""

    size_bytes: int
    paths: tuple[Path, ...] = ()
    has_more: bool = False


@frozen
class RateLimit:
    """The requests of a class that a minute takes, those that are left, and the start of the next minute.

    `operation_class` is `read`, `write`, `credit` or `tool`; None where the response does not name it.
    """

    limit: int
    remaining: int
    resets_at: datetime
    operation_class: str | None = None


def read_rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    """Read the rate limit from headers with names in lower case; None where it is missing."""
    values = [headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "reset")]
    if not all(map(_NUMBER.fullmatch, values)):
        return None
    limit, remaining, reset = map(int, values)
    named = _POLICY.match(headers.get("ratelimit-policy", ""))
    return RateLimit(limit, remaining, datetime.fromtimestamp(reset, UTC), named[1] if named else None)


@frozen
class Response(Generic[T]):
    """A success. `result` is what the call returns without its response.

    The names in `headers` are in lower case. `body` is decompressed. `attempts` counts the requests of the
    call, and `idempotency_key` is theirs; None for a read.
    """

    status: int
    result: T = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    attempts: int = 1
    idempotency_key: str | None = None

    @property
    def request_id(self) -> str | None:
        """The id of the request, for support."""
        return self.headers.get("x-request-id")

    @property
    def is_replayed(self) -> bool:
        """Whether this repeats the first result of the idempotency key."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit by this response."""
        return read_rate_limit(self.headers)
