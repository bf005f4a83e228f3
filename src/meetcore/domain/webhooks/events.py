"""Events for customers: the kinds of spec 6 and the bytes of a payload.

Owns the kinds and the envelope. It does not define `data`, which is the record as the API
shows it, and does not sign or send.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.field_info import as_json
from meetcore.domain.ids import instant_of

__all__ = [
    "API_VERSION", "EVENTS_KEPT", "EncodedEvent", "Event", "EventKind", "encode_event",
    "is_past_retention", "kept_since",
]  # fmt: skip

API_VERSION = "v1"

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

EVENTS_KEPT = timedelta(days=90)
"""How long an event is shown and sent, and its deliveries are shown, unless an operator chose otherwise."""


class EventKind(StrEnum):
    """The eight kinds that an endpoint can subscribe to (rule 6/kinds)."""

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
    """Something that happened to an account's data; `data` is the JSON-ready record as the API shows it.

    The id stays the same over all deliveries, so that a receiver can drop doubles. `data` may hold
    what opens a meeting, such as its join link. `subject_id` names the record whose erasure takes the event
    with it, where there is one. `cause` is where in a recorded trace it happened, as `traceparent` says it.
    """

    id: UUID
    account_id: UUID
    kind: EventKind
    created_at: datetime
    data: Mapping[str, object] = field(repr=False, converter=as_json)
    subject_id: UUID | None = None
    cause: str | None = None


@frozen
class EncodedEvent:
    """An event as it is kept: with the payload that every attempt sends.

    `payload` is None where the stored one cannot be decrypted.
    """

    id: UUID
    kind: EventKind
    created_at: datetime
    payload: bytes | None = field(repr=False)


def kept_since(now: datetime, kept: timedelta = EVENTS_KEPT) -> datetime:
    """Return the instant since which events are shown and sent; older ones are past their retention."""
    return now - kept


def is_past_retention(
    id: UUID, now: datetime, kept: timedelta = EVENTS_KEPT, account_id: UUID | None = None
) -> bool:
    """Return whether an event or a delivery with this id would be past its retention (rule 7/410).

    The id says when it was made, to the millisecond: so it is known of one that is no longer there, too. It
    holds for
    any id of that time, and tells nothing of what there is.

    Args:
        id: of a record or made up.
        now: of the request.
        kept: how long they are kept.
        account_id: who asks; what would be older than the account has never been its own.
    """
    made_at = instant_of(id)
    if made_at is None or made_at >= kept_since(now, kept):
        return False
    opened_at = None if account_id is None else instant_of(account_id)
    return opened_at is None or made_at >= opened_at


def encode_event(event: Event) -> bytes:
    """Write the payload: compact JSON in UTF-8, with exactly id, type, created_at, api_version, data.

    These bytes are kept and sent as they are at every attempt: the signature covers them. A lone
    surrogate, which only a third party's text can bring in, is sent as `?`.

    Raises:
        ValueError: `data` holds a NaN or an infinity.
        TypeError: `data` holds a value that JSON cannot represent.
    """
    payload = {
        "id": str(event.id),
        "type": event.kind.value,
        "created_at": event.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "api_version": API_VERSION,
        "data": dict(event.data),
    }
    return _encode(payload).encode(errors="replace")
