"""Webhooks: the operations on endpoints and events, and the verification of a delivery.

`verify_webhook` checks the signature over the raw bytes first, and then reads the JSON. A receiver answers
2xx at once, drops an event whose id it has seen, and works afterwards.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import NoneType
from typing import Any

from attrs import field, frozen

from meetcore.client import calls, decoding, descriptors, errors, records
from meetcore.domain.webhooks.endpoints import UNSET, Unset
from meetcore.domain.webhooks.signature import (
    SECRET_PREFIX,
    SIGNATURE_HEADER,
    MalformedSignature,
    SignatureRejected,
    verify,
)

__all__ = ["EventOperations", "SignatureRejected", "WebhookEvent", "WebhookOperations", "verify_webhook"]


class WebhookOperations(descriptors.Resource[descriptors.M]):
    """Webhooks and their deliveries."""

    @descriptors.operation
    def create(
        self,
        *,
        url: str,
        event_types: Iterable[str],
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> calls.Call[records.Webhook]:
        """Register an https URL for notifications. The result holds the secret: keep it.

        Raises `Conflict` where the URL is registered; `existing_id` names its webhook.
        """
        body = calls.given(url=url, event_types=_kinds(event_types), description=description)
        return calls.change("POST", "/webhooks", records.Webhook, idempotency_key, body)

    @descriptors.operation
    def get(self, webhook_id: calls.Id) -> calls.Call[records.Webhook]:
        """Read a webhook, with its secret if the key may write."""
        return calls.read(calls.path_of("webhooks", webhook_id), records.Webhook)

    @descriptors.listing
    def list(self, *, page_size: int | None = None) -> calls.Listing[records.Webhook]:
        """List the webhooks, without their secrets."""
        return calls.read_pages("/webhooks", records.Webhook, page_size)

    @descriptors.operation
    def update(
        self,
        webhook_id: calls.Id,
        *,
        event_types: Iterable[str] | Unset = UNSET,
        description: str | Unset | None = UNSET,
        is_active: bool | Unset = UNSET,
        idempotency_key: str | None = None,
    ) -> calls.Call[records.Webhook]:
        """Change, pause or resume a webhook. Only given arguments change; None clears the description."""
        kinds = event_types if isinstance(event_types, Unset) else _kinds(event_types)
        body = {"event_types": kinds, "description": description, "is_active": is_active}
        return calls.change(
            "PATCH", calls.path_of("webhooks", webhook_id), records.Webhook, idempotency_key, body
        )

    @descriptors.operation
    def delete(self, webhook_id: calls.Id, *, idempotency_key: str | None = None) -> calls.Call[None]:
        """Remove a webhook and its pending deliveries."""
        return calls.change("DELETE", calls.path_of("webhooks", webhook_id), NoneType, idempotency_key)

    @descriptors.operation
    def rotate_secret(
        self, webhook_id: calls.Id, *, overlap: int | None = None, idempotency_key: str | None = None
    ) -> calls.Call[records.Webhook]:
        """Replace the secret, also for pending deliveries. Verify with both secrets for a while.

        `overlap` is for how many hours, 0 to 24 (`None`), the Standard Webhooks headers are signed with the
        old one, too.
        """
        query = {} if overlap is None else {"overlap": str(overlap)}
        path = calls.path_of("webhooks", webhook_id, "rotate-secret")
        return calls.change("POST", path, records.Webhook, idempotency_key, query=query)

    @descriptors.operation
    def test(
        self, webhook_id: calls.Id, *, idempotency_key: str | None = None
    ) -> calls.Call[records.Delivery]:
        """Send `webhook.test`, subscribed or not; raise `Conflict` while the webhook is not active."""
        return calls.change(
            "POST", calls.path_of("webhooks", webhook_id, "test"), records.Delivery, idempotency_key
        )

    @descriptors.listing
    def deliveries(
        self, webhook_id: calls.Id, *, status: str | None = None, page_size: int | None = None
    ) -> calls.Listing[records.Delivery]:
        """List the deliveries to a webhook with their attempts, the newest first."""
        path = calls.path_of("webhooks", webhook_id, "deliveries")
        return calls.read_pages(path, records.Delivery, page_size, status=status)

    @descriptors.operation
    def delivery(self, webhook_id: calls.Id, delivery_id: calls.Id) -> calls.Call[records.Delivery]:
        """Read a delivery with its attempts."""
        return calls.read(calls.path_of("webhooks", webhook_id, "deliveries", delivery_id), records.Delivery)

    @descriptors.operation
    def resend(
        self, webhook_id: calls.Id, delivery_id: calls.Id, *, idempotency_key: str | None = None
    ) -> calls.Call[records.Delivery]:
        """Send the event of a delivery again, byte for byte, as a new delivery."""
        path = calls.path_of("webhooks", webhook_id, "deliveries", delivery_id, "resend")
        return calls.change("POST", path, records.Delivery, idempotency_key)

    @descriptors.operation
    def recover(
        self, webhook_id: calls.Id, *, since: calls.Moment, idempotency_key: str | None = None
    ) -> calls.Call[records.Recovery]:
        """Send the deliveries again that failed or expired since a time, at most 90 days ago.

        A day begins at 00:00 WIB. Ask again while `has_more` is true. Raises `Conflict` while it is not
        active.
        """
        path = calls.path_of("webhooks", webhook_id, "recover")
        return calls.change(
            "POST", path, records.Recovery, idempotency_key, {"since": calls.instant_text(since)}
        )


def _kinds(event_types: Iterable[str]) -> tuple[str, ...]:
    if isinstance(event_types, str):
        raise TypeError("give the event types as a list: [EventKind.MEETING_CREATED]")
    return tuple(event_types)


class EventOperations(descriptors.Resource[descriptors.M]):
    """Events, as webhooks delivered them; kept for 90 days."""

    @descriptors.listing
    def list(
        self,
        *,
        type: str | None = None,
        from_: calls.Moment | None = None,
        to: calls.Moment | None = None,
        page_size: int | None = None,
    ) -> calls.Listing[records.Event]:
        """List the events of a type such as `EventKind.NOTE_COMPLETED`, the newest first.

        They were made in [`from_`, `to`); a day begins at 00:00 WIB. `page_size` is 1 to 100.
        """
        return calls.read_pages("/events", records.Event, page_size, from_=from_, to=to, type=type)

    @descriptors.operation
    def get(self, event_id: calls.Id) -> calls.Call[records.Event]:
        """Read an event with its payload."""
        return calls.read(calls.path_of("events", event_id), records.Event)


EventRecord = records.Meeting | records.BalanceChange | records.Webhook | records.Recording | records.Note
"""The typed record of an event."""

_RECORDS: Mapping[str, type[EventRecord]] = {
    records.EventKind.MEETING_CREATED: records.Meeting,
    records.EventKind.MEETING_ENDED: records.Meeting,
    records.EventKind.RECORDING_READY: records.Recording,
    records.EventKind.NOTE_COMPLETED: records.Note,
    records.EventKind.NOTE_FAILED: records.Note,
    records.EventKind.CREDIT_LOW: records.BalanceChange,
    records.EventKind.CREDIT_TOPUP_SUCCEEDED: records.BalanceChange,
    records.EventKind.WEBHOOK_TEST: records.Webhook,
}


@frozen
class WebhookEvent:
    """An event. Its id is the same in all deliveries: drop an event whose id you have seen.

    `data` is the payload as it was sent, `record` the same typed; None for an unknown kind or a record that
    this version cannot read.
    """

    id: str
    type: str
    created_at: datetime
    api_version: str
    data: Mapping[str, Any] = field(repr=False)
    record: EventRecord | None = field(default=None, repr=False)


@frozen
class _Sent:
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
        secrets: the webhook's secret; during a rotation the new and the old one.
        headers: of the request, in any letter case, or the `environ` of WSGI.
        raw_body: the bytes as received, unparsed.
        now: unix time in seconds, for tests.

    Raises:
        SignatureRejected: not authentic; answer 401. The message is safe to log.
        InvalidEvent: the body is signed and is no event.
        ValueError: a secret is invalid or empty.
    """
    known: list[object] = [secrets] if isinstance(secrets, str) else [*(secrets or ())]
    texts = [each for each in known if isinstance(each, str) and each.startswith(SECRET_PREFIX)]
    if not known or len(texts) < len(known):
        raise ValueError(f"give the webhook's secret, {SECRET_PREFIX}..., as it was when it was registered")
    verify(texts, raw_body, _signature(headers), int(time.time() if now is None else now))
    sent = decoding.decoded(raw_body, _Sent)
    if sent is None:
        raise errors.InvalidEvent("the body is signed and is no event that this version can read")
    kind = _RECORDS.get(sent.type)
    record = None if kind is None else decoding.converted(sent.data, kind)
    return WebhookEvent(sent.id, sent.type, sent.created_at, sent.api_version, sent.data, record)


def _plain(name: str) -> str:
    """Return a header's name in small letters; WSGI writes `HTTP_X_SERVICE_SIGNATURE`."""
    return name.lower().removeprefix("http_").replace("_", "-")


def _signature(headers: Mapping[str, str]) -> str | None:
    found = [value for name, value in headers.items() if _plain(name) == SIGNATURE_HEADER.lower()]
    if len(found) > 1:
        raise MalformedSignature(f"there are several {SIGNATURE_HEADER} headers")
    return found[0] if found else None
