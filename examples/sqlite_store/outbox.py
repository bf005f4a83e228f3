"""Events and their deliveries, written in the transaction of the change that they report."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus, open_delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, encode_event
from meetcore.ports.entropy import Entropy

from . import rows
from .connection import Connection

__all__ = ["hold_waiting", "write_delivery", "write_event", "write_events"]

# The event, with the bytes that are signed and sent at every attempt.
_WRITE_EVENT = """
INSERT INTO events (account_id, id, kind, payload, created_at, subject_id)
VALUES (:account_id, :id, :kind, :payload, :created_at, :subject_id)
"""

# The endpoints of the account that subscribed to a kind.
_SUBSCRIBERS = """
SELECT * FROM endpoints
WHERE account_id = :account_id AND EXISTS (SELECT 1 FROM json_each(event_types) WHERE value = :kind)
ORDER BY id
"""

# A delivery: due now, or held while its endpoint is inactive.
_WRITE_DELIVERY = """
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, attempts_made,
    next_attempt_at, held_at, created_at)
VALUES (:account_id, :id, :endpoint_id, :event_id, :event_kind, :status, :attempts_made, :next_attempt_at,
    :held_at, :created_at)
"""

# Holds the waiting deliveries of an inactive endpoint. A post in flight is judged when it ends.
_HOLD_WAITING = """
UPDATE deliveries SET status = 'held', held_at = :now, next_attempt_at = NULL, lease_token = NULL
WHERE account_id = :account_id AND endpoint_id = :endpoint_id AND status = 'pending'
    AND (lease_token IS NULL OR next_attempt_at <= :now)
"""


async def write_events(
    connection: Connection, entropy: Entropy, events: Sequence[Event], now: datetime
) -> int:
    """Write events and one delivery of each for every endpoint that subscribed.

    Returns:
        How many deliveries are due now.
    """
    due = 0
    for event in events:
        await write_event(connection, event)
        about = {"account_id": event.account_id, "kind": event.kind}
        for row in await connection.fetch(_SUBSCRIBERS, about):
            delivery = open_delivery(
                id=uuid7(event.created_at, entropy.token_bytes(RANDOM_BYTES)),
                endpoint=rows.record(Endpoint, row), event_id=event.id, event_kind=event.kind,
                created_at=event.created_at, now=now,
            )  # fmt: skip
            await write_delivery(connection, delivery)
            due += delivery.status is DeliveryStatus.PENDING
    return due


async def write_event(connection: Connection, event: Event) -> None:
    """Write an event without deliveries."""
    await connection.change(_WRITE_EVENT, rows.fields_of(event) | {"payload": encode_event(event)})


async def write_delivery(connection: Connection, delivery: Delivery) -> None:
    """Write a new delivery of an event that is written."""
    await connection.change(_WRITE_DELIVERY, rows.fields_of(delivery))


async def hold_waiting(connection: Connection, account_id: UUID, endpoint_id: UUID, now: datetime) -> None:
    """Hold the waiting deliveries of an inactive endpoint."""
    about = {"account_id": account_id, "endpoint_id": endpoint_id}
    await connection.change(_HOLD_WAITING, about | {"now": now})
