"""The records of webhooks and of the deliveries to them (spec 2.3, 6)."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from attrs import field, frozen

from meetcore.domain.fields import FieldInfo, Id, Utc, record_of
from meetcore.domain.webhooks import deliveries, endpoints
from meetcore.domain.webhooks.events import API_VERSION, EncodedEvent, EventKind

_EventType = Annotated[str, FieldInfo(known_values=EventKind)]


@frozen(kw_only=True)
class Webhook:
    """A URL that receives events, without its secret (rule 2.3/fields)."""

    id: Id
    url: str
    description: str | None = None
    event_types: tuple[_EventType, ...]
    is_active: bool
    consecutive_failures: int
    disabled_at: Utc | None = None
    created_by: str
    created_at: Utc


@frozen(kw_only=True)
class WebhookWithSecret(Webhook):
    """A URL that receives events. The secret is there where the operation and the key's scopes give it."""

    secret: Annotated[str | None, FieldInfo("What signatures are keyed with.", is_optional=True)] = field(
        default=None, repr=False
    )


@frozen
class Attempt:
    """One post of a delivery and what came of it. `error` is a stable code; null when it succeeded."""

    at: Utc
    duration_ms: Annotated[int, FieldInfo("Whole milliseconds.")]
    status_code: Annotated[int | None, FieldInfo("Null when no answer was read.")] = None
    error: Annotated[str | None, FieldInfo(examples=("status_503", "connect_timeout"))] = None
    response_excerpt: Annotated[str | None, FieldInfo("How the answer's body begins.")] = None


@frozen(kw_only=True)
class Delivery:
    """An event on its way to a webhook. The event's id stays the same over all deliveries of it."""

    id: Id
    event_id: Id
    event_type: _EventType
    status: Annotated[str, FieldInfo(known_values=deliveries.DeliveryStatus)]
    attempts: tuple[Attempt, ...]
    next_attempt_at: Utc | None = None
    created_at: Utc


@frozen(kw_only=True)
class Recovery:
    """What a webhook has missed, and is sent now."""

    webhook_id: Id
    since: Utc
    deliveries: Annotated[int, FieldInfo("How many deliveries are sent again.")]
    has_more: Annotated[bool, FieldInfo("True where there may be more than one request takes: ask again.")]


@frozen(kw_only=True)
class Event:
    """Something that happened, as webhooks were sent it."""

    id: Id
    type: _EventType
    created_at: Utc
    api_version: Annotated[str, FieldInfo(examples=(API_VERSION,))]
    data: Annotated[
        Mapping[str, Any] | None,
        FieldInfo("The record as it was then. Null where the stored one cannot be decrypted."),
    ] = field(default=None, repr=False)


def endpoint_record(endpoint: endpoints.Endpoint, *, with_secret: bool) -> Webhook:
    """Return the webhook record; its secret only where the operation gives it (rule 2.3/secret)."""
    event_types = tuple(kind.value for kind in endpoint.event_types)
    if with_secret and endpoint.secret is not None:
        return record_of(WebhookWithSecret, endpoint, event_types=event_types)
    return record_of(Webhook, endpoint, event_types=event_types)


def delivery_record(delivery: deliveries.Delivery, attempts: Sequence[deliveries.Attempt]) -> Delivery:
    """Return a delivery and its attempts, the first one first (rule 6/7), without the connected address."""
    tried = tuple(record_of(Attempt, attempt) for attempt in attempts)
    return record_of(Delivery, delivery, event_type=delivery.event_kind.value, attempts=tried)


def event_record(event: EncodedEvent) -> Event:
    """Return an event as it was sent: the data is that of its payload."""
    sent = {"api_version": API_VERSION, "data": None} if event.payload is None else json.loads(event.payload)
    return record_of(Event, event, type=event.kind.value, api_version=sent["api_version"], data=sent["data"])
