"""The outbox in memory: an event and one delivery for each endpoint that subscribed to its kind."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.memory.state import ConstraintBroken, StoredDelivery, StoredEvent, Tables
from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.webhooks.deliveries import (
    Delivery,
    DeliveryStatus,
    ReleasePace,
    hold,
    open_delivery,
    release,
)
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, encode_event
from meetcore.ports.entropy import Entropy


def write_events(
    tables: Tables, account_id: UUID, events: Sequence[Event], now: datetime, entropy: Entropy
) -> int:
    """Write events with their deliveries: due now, or held where the endpoint is inactive.

    Returns:
        How many deliveries are due now.
    """
    due = 0
    for event in events:
        if (account_id, event.id) in tables.events:
            raise ConstraintBroken(f"event {event.id} is written already")
        tables.events[account_id, event.id] = stored_event(event)
        for endpoint in list(tables.endpoints.values()):
            if endpoint.account_id == account_id and event.kind in endpoint.event_types:
                id_ = uuid7(event.created_at, entropy.token_bytes(RANDOM_BYTES))
                delivery = open_delivery(
                    id=id_, endpoint=endpoint, event_id=event.id, event_kind=event.kind,
                    created_at=event.created_at, now=now,
                )  # fmt: skip
                tables.deliveries[account_id, id_] = StoredDelivery(delivery)
                due += delivery.status is DeliveryStatus.PENDING
    return due


def stored_event(event: Event) -> StoredEvent:
    """An event as the tables keep it."""
    return StoredEvent(event.kind, encode_event(event), event.created_at, event.subject_id, event.cause)


def drop_delivery(tables: Tables, delivery: Delivery) -> None:
    """Delete a delivery and its attempts."""
    name = delivery.account_id, delivery.id
    del tables.deliveries[name]
    for number in range(1, delivery.attempts_made + 1):
        tables.attempts.pop((*name, number), None)


def hold_waiting(tables: Tables, endpoint: Endpoint, now: datetime) -> None:
    """Hold the waiting deliveries of an inactive endpoint; a post in flight is judged when it ends."""
    for name, stored in tables.deliveries.items():
        one = stored.delivery
        is_there = (one.account_id, one.endpoint_id) == (endpoint.account_id, endpoint.id)
        if is_there and not stored.is_in_flight(now):
            tables.deliveries[name] = StoredDelivery(hold(one, now))


def release_held(tables: Tables, endpoint: Endpoint, pace: ReleasePace, now: datetime) -> int:
    """Release the next portion of what is held at an endpoint, if it is active and the last one is through.

    Returns:
        How many were released.
    """
    name = endpoint.account_id, endpoint.id
    held = sorted(
        stored.delivery.id
        for stored in tables.deliveries.values()
        if stored.delivery.status is DeliveryStatus.HELD
        and (stored.delivery.account_id, stored.delivery.endpoint_id) == name
    )
    if not held or not endpoint.is_active or tables.released_until.get(name, now) > now:
        return 0
    tables.released_until[name] = now + pace.lasts
    portion = held[: pace.portion]
    for place, id_ in enumerate(portion):
        stored = tables.deliveries[endpoint.account_id, id_]
        due = release(stored.delivery, now + place * pace.every)
        tables.deliveries[endpoint.account_id, id_] = StoredDelivery(due, stored.token)
    return len(portion)
