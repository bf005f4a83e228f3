"""The outbox in memory: an event and one delivery for each endpoint that subscribed to its kind."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.memory.state import ConstraintBroken, StoredDelivery, StoredEvent, Tables
from meetcore.domain.deliveries import Delivery, DeliveryStatus, hold, release
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.events import Event, encode_event
from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.ports.entropy import Entropy

__all__ = ["hold_waiting", "release_held", "write_events"]


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
        tables.events[account_id, event.id] = StoredEvent(event.kind, encode_event(event))
        for endpoint in list(tables.endpoints.values()):
            if endpoint.account_id == account_id and event.kind in endpoint.event_types:
                id_ = uuid7(event.created_at, entropy.token_bytes(RANDOM_BYTES))
                delivery = _delivery(id_, endpoint, event, now)
                tables.deliveries[account_id, id_] = StoredDelivery(delivery)
                due += delivery.status is DeliveryStatus.PENDING
    return due


def _delivery(id_: UUID, endpoint: Endpoint, event: Event, now: datetime) -> Delivery:
    waiting = Delivery(
        id=id_,
        account_id=endpoint.account_id,
        endpoint_id=endpoint.id,
        event_id=event.id,
        event_kind=event.kind,
        status=DeliveryStatus.PENDING,
        attempts_made=0,
        next_attempt_at=now,
        created_at=event.created_at,
    )
    return waiting if endpoint.is_active else hold(waiting, now)


def hold_waiting(tables: Tables, endpoint: Endpoint, now: datetime, but: UUID | None = None) -> None:
    """Set the waiting deliveries of an inactive endpoint aside, except one."""
    for name, stored in tables.deliveries.items():
        one = stored.delivery
        if (one.account_id, one.endpoint_id) == (endpoint.account_id, endpoint.id) and one.id != but:
            tables.deliveries[name] = StoredDelivery(hold(one, now), stored.token)


def release_held(tables: Tables, endpoint: Endpoint, now: datetime) -> int:
    """Make the held deliveries of an active endpoint due, and count them."""
    released = 0
    for name, stored in tables.deliveries.items():
        one = stored.delivery
        is_held = one.status is DeliveryStatus.HELD
        if is_held and (one.account_id, one.endpoint_id) == (endpoint.account_id, endpoint.id):
            tables.deliveries[name] = StoredDelivery(release(one, now), stored.token)
            released += 1
    return released
