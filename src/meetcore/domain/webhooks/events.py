"""Events for customers: the kinds of spec 6 and the bytes of a payload; `data` is the API's record."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.fields import as_json
from meetcore.domain.ids import instant_of

__all__ = [
    "API_VERSION", "EVENTS_KEPT", "Event", "EventKind", "encode_event",
]  # fmt: skip

API_VERSION = "v1"

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

EVENTS_KEPT = timedelta(days=90)
"""How long an event is shown and sent, and its deliveries are shown, unless an operator chose otherwise."""


class EventKind(StrEnum):
    """The eight kinds of events (rule 6/kinds)."""

    NOTE_COMPLETED = "note.completed"
    NOTE_FAILED = "note.failed"
    MEETING_CREATED = "meeting.created"
    MEETING_ENDED = "meeting.ended"
    RECORDING_READY = "recording.ready"
    CREDIT_LOW = "credit.low"
    CREDIT_TOPUP_SUCCEEDED = "credit.topup.succeeded"
    WEBHOOK_TEST = "webhook.test"


@frozen
class Event:
    """A change of an account's data; `data` is the JSON-ready record as the API shows it.

    The id is the same over all deliveries, so that a receiver can drop duplicates. `data` may hold secrets
    such as a join link. `subject_id` names the meeting or the notes that it is about, if any; the erasure of
    notes removes their events. `cause` is its `traceparent`.
    """

    id: UUID
    account_id: UUID
    kind: StrEnum
    created_at: datetime
    data: Mapping[str, object] = field(repr=False, converter=as_json)
    subject_id: UUID | None = None
    cause: str | None = None


@frozen
class EncodedEvent:
    """An event as it is stored; `payload` is sent at every attempt; `None`: it cannot be decrypted."""

    id: UUID
    kind: StrEnum
    created_at: datetime
    payload: bytes | None = field(repr=False)


def kept_since(now: datetime, kept: timedelta = EVENTS_KEPT) -> datetime:
    """Return the instant since which events are shown and sent; older ones are past their retention."""
    return now - kept


def is_past_retention(
    id: UUID, now: datetime, kept: timedelta = EVENTS_KEPT, account_id: UUID | None = None
) -> bool:
    """Return whether an event or a delivery with this id would be past its retention (rule 7/410).

    The id holds its millisecond, so that it is known of one that was removed, too, and reveals nothing of
    which exist. With `account_id`, an id older than the account was never its own.
    """
    made_at = instant_of(id)
    if made_at is None or made_at >= kept_since(now, kept):
        return False
    opened_at = None if account_id is None else instant_of(account_id)
    return opened_at is None or made_at >= opened_at


def encode_event(event: Event) -> bytes:
    """Write the payload: compact JSON in UTF-8, with exactly id, type, created_at, api_version, data.

    These bytes are stored and sent at every attempt: the signature covers them. A lone surrogate, which only
    a third party's text can contain, is sent as `?`. Raises `ValueError` for a NaN or an infinity,
    `TypeError` for a value that JSON cannot represent.
    """
    payload = {
        "id": str(event.id),
        "type": event.kind.value,
        "created_at": event.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "api_version": API_VERSION,
        "data": dict(event.data),
    }
    return _encode(payload).encode(errors="replace")
