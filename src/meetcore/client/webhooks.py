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

from meetcore.client.calls import (
    Call,
    Id,
    Listing,
    Moment,
    change,
    given,
    instant_text,
    path_of,
    read,
    read_pages,
)
from meetcore.client.decoding import converted, decoded
from meetcore.client.descriptors import M, Resource, listing, operation
from meetcore.client.errors import InvalidEvent
from meetcore.client.records import (
    BalanceChange,
    Delivery,
    Event,
    EventKind,
    Meeting,
    Note,
    Recording,
    Recovery,
    Webhook,
)
from meetcore.domain.webhooks.endpoints import UNSET, Unset
from meetcore.domain.webhooks.signature import (
    SECRET_PREFIX,
    SIGNATURE_HEADER,
    MalformedSignature,
    SignatureRejected,
    verify,
)

__all__ = ["EventOperations", "SignatureRejected", "WebhookEvent", "WebhookOperations", "verify_webhook"]


class WebhookOperations(Resource[M]):
    """Webhooks and their deliveries."""

    @operation
    def create(
        self,
        *,
        url: str,
        event_types: Iterable[str],
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Webhook]:
        """Register an https URL for notifications. The result holds the secret: keep it.

        Raises `Conflict` where the URL is registered; `existing_id` names its webhook.
        """
        body = given(url=url, event_types=_kinds(event_types), description=description)
        return change("POST", "/webhooks", Webhook, idempotency_key, body)

    @operation
    def get(self, webhook_id: Id) -> Call[Webhook]:
        """Read a webhook, with its secret if the key may write."""
        return read(path_of("webhooks", webhook_id), Webhook)

    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Webhook]:
        """List the webhooks, without their secrets."""
        return read_pages("/webhooks", Webhook, page_size)

    @operation
    def update(
        self,
        webhook_id: Id,
        *,
        event_types: Iterable[str] | Unset = UNSET,
        description: str | Unset | None = UNSET,
        is_active: bool | Unset = UNSET,
        idempotency_key: str | None = None,
    ) -> Call[Webhook]:
        """Change, pause or resume a webhook. Only given arguments change; None clears the description."""
        kinds = event_types if isinstance(event_types, Unset) else _kinds(event_types)
        body = {"event_types": kinds, "description": description, "is_active": is_active}
        return change("PATCH", path_of("webhooks", webhook_id), Webhook, idempotency_key, body)

    @operation
    def delete(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Call[None]:
        """Remove a webhook and its pending deliveries."""
        return change("DELETE", path_of("webhooks", webhook_id), NoneType, idempotency_key)

    @operation
    def rotate_secret(
        self, webhook_id: Id, *, overlap: int | None = None, idempotency_key: str | None = None
    ) -> Call[Webhook]:
        """Replace the secret, also for pending deliveries. Verify with both secrets for a while.

        `overlap` is for how many hours, 0 to 24 (`None`), the Standard Webhooks headers are signed with the
        old one, too.
        """
        query = {} if overlap is None else {"overlap": str(overlap)}
        path = path_of("webhooks", webhook_id, "rotate-secret")
        return change("POST", path, Webhook, idempotency_key, query=query)

    @operation
    def test(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Call[Delivery]:
        """Send `webhook.test`, subscribed or not; raise `Conflict` while the webhook is not active."""
        return change("POST", path_of("webhooks", webhook_id, "test"), Delivery, idempotency_key)

    @listing
    def deliveries(
        self, webhook_id: Id, *, status: str | None = None, page_size: int | None = None
    ) -> Listing[Delivery]:
        """List the deliveries to a webhook with their attempts, the newest first."""
        path = path_of("webhooks", webhook_id, "deliveries")
        return read_pages(path, Delivery, page_size, status=status)

    @operation
    def delivery(self, webhook_id: Id, delivery_id: Id) -> Call[Delivery]:
        """Read a delivery with its attempts."""
        return read(path_of("webhooks", webhook_id, "deliveries", delivery_id), Delivery)

    @operation
    def resend(
        self, webhook_id: Id, delivery_id: Id, *, idempotency_key: str | None = None
    ) -> Call[Delivery]:
        """Send the event of a delivery again, byte for byte, as a new delivery."""
        path = path_of("webhooks", webhook_id, "deliveries", delivery_id, "resend")
        return change("POST", path, Delivery, idempotency_key)

    @operation
    def recover(self, webhook_id: Id, *, since: Moment, idempotency_key: str | None = None) -> Call[Recovery]:
        """Send the deliveries again that failed or expired since a time, at most 90 days ago.

        A day begins at 00:00 WIB. Ask again while `has_more` is true. Raises `Conflict` while it is not
        active.
        """
        path = path_of("webhooks", webhook_id, "recover")
        return change("POST", path, Recovery, idempotency_key, {"since": instant_text(since)})


def _kinds(event_types: Iterable[str]) -> tuple[str, ...]:
    if isinstance(event_types, str):
        raise TypeError("give the event types as a list: [EventKind.MEETING_CREATED]")
    return tuple(event_types)


class EventOperations(Resource[M]):
    """Events, as webhooks delivered them; kept for 90 days."""

    @listing
    def list(
        self,
        *,
        type: str | None = None,
        from_: Moment | None = None,
        to: Moment | None = None,
        page_size: int | None = None,
    ) -> Listing[Event]:
        """List the events of a type such as `EventKind.NOTE_COMPLETED`, the newest first.

        They were made in [`from_`, `to`); a day begins at 00:00 WIB. `page_size` is 1 to 100.
        """
        return read_pages("/events", Event, page_size, from_=from_, to=to, type=type)

    @operation
    def get(self, event_id: Id) -> Call[Event]:
        """Read an event with its payload."""
        return read(path_of("events", event_id), Event)


EventRecord = Meeting | BalanceChange | Webhook | Recording | Note
"""The typed record of an event."""

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
    sent = decoded(raw_body, _Sent)
    if sent is None:
        raise InvalidEvent("the body is signed and is no event that this version can read")
    kind = _RECORDS.get(sent.type)
    record = None if kind is None else converted(sent.data, kind)
    return WebhookEvent(sent.id, sent.type, sent.created_at, sent.api_version, sent.data, record)


def _plain(name: str) -> str:
    """Return a header's name in small letters; WSGI writes `HTTP_X_SERVICE_SIGNATURE`."""
    return name.lower().removeprefix("http_").replace("_", "-")


def _signature(headers: Mapping[str, str]) -> str | None:
    found = [value for name, value in headers.items() if _plain(name) == SIGNATURE_HEADER.lower()]
    if len(found) > 1:
        raise MalformedSignature(f"there are several {SIGNATURE_HEADER} headers")
    return found[0] if found else None
