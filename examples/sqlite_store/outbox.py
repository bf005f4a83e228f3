"""Events and their deliveries, written in the transaction of the change that they tell of."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.domain.deliveries import DeliveryStatus
from meetcore.domain.endpoints import EndpointState
from meetcore.domain.events import Event, encode_event
from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.ports.entropy import Entropy

from .connection import Connection

__all__ = ["hold_waiting", "release_held", "write_events"]

# The event, with the bytes that are signed and sent at every attempt.
_WRITE_EVENT = """
INSERT INTO events (account_id, id, kind, payload, created_at)
VALUES (:account_id, :id, :kind, :payload, :created_at)
"""

# The endpoints of the account that subscribed to a kind.
_SUBSCRIBERS = """
SELECT id, state FROM endpoints
WHERE account_id = :account_id AND EXISTS (SELECT 1 FROM json_each(event_types) WHERE value = :kind)
ORDER BY id
"""

# A delivery: due now, or held while its endpoint is inactive.
_WRITE_DELIVERY = """
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, attempts_made,
    next_attempt_at, held_at, created_at)
VALUES (:account_id, :id, :endpoint_id, :event_id, :event_kind, :status, 0, :next_attempt_at, :held_at,
    :created_at)
"""

# Sets the waiting deliveries of an inactive endpoint aside.
_HOLD_WAITING = """
UPDATE deliveries SET status = 'held', held_at = :now, next_attempt_at = NULL
WHERE account_id = :account_id AND endpoint_id = :endpoint_id AND status = 'pending'
"""

# Makes the held deliveries of an active endpoint due.
_RELEASE_HELD = """
UPDATE deliveries SET status = 'pending', held_at = NULL, next_attempt_at = :now
WHERE account_id = :account_id AND endpoint_id = :endpoint_id AND status = 'held'
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
        about = {"account_id": event.account_id, "kind": event.kind}
        payload = {"id": event.id, "payload": encode_event(event), "created_at": event.created_at}
        await connection.change(_WRITE_EVENT, about | payload)
        for endpoint in await connection.fetch(_SUBSCRIBERS, about):
            id_ = uuid7(event.created_at, entropy.token_bytes(RANDOM_BYTES))
            is_active = endpoint["state"] == EndpointState.ACTIVE
            await _write_delivery(connection, id_, event, endpoint["id"], now, is_active=is_active)
            due += is_active
    return due


async def _write_delivery(
    connection: Connection, id_: UUID, event: Event, endpoint_id: str, now: datetime, *, is_active: bool
) -> None:
    await connection.change(
        _WRITE_DELIVERY,
        {
            "account_id": event.account_id,
            "id": id_,
            "endpoint_id": endpoint_id,
            "event_id": event.id,
            "event_kind": event.kind,
            "status": DeliveryStatus.PENDING if is_active else DeliveryStatus.HELD,
            "next_attempt_at": now if is_active else None,
            "held_at": None if is_active else now,
            "created_at": event.created_at,
        },
    )


async def hold_waiting(connection: Connection, account_id: UUID, endpoint_id: UUID, now: datetime) -> None:
    """Set the waiting deliveries of an inactive endpoint aside."""
    about = {"account_id": account_id, "endpoint_id": endpoint_id}
    await connection.change(_HOLD_WAITING, about | {"now": now})


async def release_held(connection: Connection, account_id: UUID, endpoint_id: UUID, now: datetime) -> int:
    """Make the held deliveries of an active endpoint due, and count them."""
    about = {"account_id": account_id, "endpoint_id": endpoint_id}
    return await connection.change(_RELEASE_HELD, about | {"now": now})
