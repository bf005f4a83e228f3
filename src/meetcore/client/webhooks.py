"""The receiving side of webhooks: verify a request, then read it.

Owns the order: the signature over the raw bytes first, then the JSON. It neither answers nor stores:
answer 2xx at once, drop an event whose id you have seen, and work afterwards.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen

from meetcore.client.decoding import converted, decoded
from meetcore.client.errors import InvalidEvent
from meetcore.client.records import BalanceChange, Meeting, Note, Recording, Webhook
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.signature import (
    SECRET_PREFIX,
    SIGNATURE_HEADER,
    MalformedSignature,
    SignatureRejected,
    verify,
)

__all__ = ["SignatureRejected", "WebhookEvent", "verify_webhook"]

EventRecord = Meeting | BalanceChange | Webhook | Recording | Note
"""The record in an event, typed."""

_RECORDS: Mapping[str, type[EventRecord]] = {
    EventKind.MEETING_CREATED: Meeting,
    EventKind.MEETING_ENDED: Meeting,
    EventKind.RECORDING_READY: Recording,
    EventKind.NOTE_COMPLETED: Note,
    EventKind.NOTE_FAILED: Note,
    EventKind.CREDIT_LOW: BalanceChange,
    EventKind.CREDIT_TOPUP_SUCCEEDED: BalanceChange,
    EventKind.WEBHOOK_TEST: Webhook,
}


@frozen
class WebhookEvent:
    """Something that happened. The id stays the same over all deliveries: drop one that you have seen.

    `data` is as it was sent. `record` is the same, typed: None for a kind that this version does not know, or
    that it cannot read.
    """

    id: str
    type: str
    created_at: datetime
    api_version: str
    data: Mapping[str, Any] = field(repr=False)
    record: EventRecord | None = field(default=None, repr=False)


@frozen
class _Sent:
    """The payload as it is on the wire."""

    id: str
    type: str
    created_at: datetime
    api_version: str
    data: Mapping[str, Any]


def verify_webhook(
    secrets: str | Iterable[str],
    headers: Mapping[str, str],
    raw_body: bytes,
    now: float | None = None,
) -> WebhookEvent:
    """Verify a delivery and read it.

    Args:
        secrets: the webhook's secret; while it is rotated, the new and the old one.
        headers: those of the request, in any letter case.
        raw_body: the bytes as received, before anything parsed them.
        now: unix time in seconds, to test with.

    Raises:
        SignatureRejected: not authentic; answer 401. Its message is safe to log.
        InvalidEvent: it was signed, and is no event.
        ValueError: a secret is invalid: an empty one proves nothing.
    """
    known = [secrets] if isinstance(secrets, str) else list(secrets)
    if not known or not all(secret.startswith(SECRET_PREFIX) for secret in known):
        raise ValueError(f"give the webhook's secret, {SECRET_PREFIX}..., as it was when it was registered")
    verify(known, raw_body, _signature(headers), int(time.time() if now is None else now))
    sent = decoded(raw_body, _Sent)
    if sent is None:
        raise InvalidEvent("the body is signed and is no event that this version can read")
    kind = _RECORDS.get(sent.type)
    record = None if kind is None else converted(sent.data, kind)
    return WebhookEvent(sent.id, sent.type, sent.created_at, sent.api_version, sent.data, record)


def _signature(headers: Mapping[str, str]) -> str | None:
    found = [value for name, value in headers.items() if name.lower() == SIGNATURE_HEADER.lower()]
    if len(found) > 1:
        raise MalformedSignature(f"there are several {SIGNATURE_HEADER} headers")
    return found[0] if found else None
