"""What the API answers with, typed: the records of `meetcore.domain`, and a page of them.

Ids are `str`: opaque, as they stand in the API. Times are aware datetimes. Credits, minutes and seats are
whole numbers. Where the API may grow (a status, a kind, a scope) the field is a `str`, so that a value that
this version does not know breaks nothing; the known values are `StrEnum`s, which equal their text. Fields
that this version does not know are ignored. What is secret is not in a record's `repr`, nor is a transcript.
"""

from pathlib import Path
from typing import Generic, TypeVar

from attrs import frozen

from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import Language
from meetcore.domain.records.accounts import Account, User
from meetcore.domain.records.accounts import Balance as AccountCredits
from meetcore.domain.records.accounts import Key as ApiKey
from meetcore.domain.records.credits import BalanceChange, DailyCap, Estimate, EstimateItem, Transaction
from meetcore.domain.records.credits import CreditsRecord as Balance
from meetcore.domain.records.credits import Tier as PricingTier
from meetcore.domain.records.credits import TransactionReference as Reference
from meetcore.domain.records.meetings import Cancellation, Meeting
from meetcore.domain.records.meetings import MeetingState as MeetingStatus
from meetcore.domain.records.notes import ActionItem, Decision, DownloadUrl, Note, Recording, Utterance
from meetcore.domain.records.notes import NoteState as NoteStatus
from meetcore.domain.records.notes import RecordingState as RecordingStatus
from meetcore.domain.records.webhooks import Attempt, Delivery, Event, Recovery
from meetcore.domain.records.webhooks import WebhookWithSecret as Webhook
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EventKind

__all__ = [
    "Account", "AccountCredits", "ActionItem", "ApiKey", "Attempt", "Balance", "BalanceChange",
    "Cancellation", "DailyCap", "Decision", "Delivery", "DeliveryStatus", "Download", "DownloadUrl",
    "Estimate", "EstimateItem", "Event", "EventKind", "Language", "Meeting", "MeetingStatus", "Note",
    "NoteStatus", "Page", "PricingTier", "Recording", "RecordingStatus", "Recovery", "Reference",
    "Transaction", "TransferKind", "User", "Utterance", "Webhook",
]  # fmt: skip

T = TypeVar("T")


@frozen
class Page(Generic[T]):
    """One page of a list, and the cursor of the next; None where this is the last."""

    data: tuple[T, ...]
    next_cursor: str | None = None


@frozen
class Download:
    """What was downloaded of a recording: the files, in their order, and the bytes in all of them.

    `has_more`: another part follows, which was not requested.
    """

    size_bytes: int
    paths: tuple[Path, ...] = ()
    has_more: bool = False
