"""Deliveries in memory: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.outbox import hold_waiting
from meetcore.adapters.memory.state import StoredDelivery, Tables
from meetcore.domain.deliveries import Attempt, Delivery, DeliveryStatus, expire, hold, release
from meetcore.domain.endpoints import Endpoint
from meetcore.ports.clock import Clock
from meetcore.ports.deliveries import Claimed, ClaimedView
from meetcore.ports.lease import Lease

__all__ = ["MemoryDeliveryRepository"]


class MemoryDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, the longest due first."""
        now = self._clock.now()
        waiting = [
            (stored.delivery.next_attempt_at, stored.delivery)
            for stored in self._tables.deliveries.values()
            if stored.delivery.next_attempt_at is not None
            and stored.delivery.next_attempt_at <= now
            and self._endpoint(stored.delivery).is_active
        ]
        waiting.sort(key=lambda pair: pair[0])
        until = now + timedelta(seconds=lease.seconds)
        return [self._claim(delivery, lease.token, until) for _, delivery in waiting[:limit]]

    def _claim(self, delivery: Delivery, token: UUID, until: datetime) -> Claimed:
        name = delivery.account_id, delivery.id
        self._tables.deliveries[name] = StoredDelivery(evolve(delivery, next_attempt_at=until), token)
        endpoint = self._endpoint(delivery)
        event = self._tables.events[delivery.account_id, delivery.event_id]
        return Claimed(
            delivery.account_id,
            delivery.id,
            delivery.event_id,
            delivery.event_kind.value,
            endpoint.url,
            endpoint.secret,
            event.payload,
        )

    async def load_claimed(self, account_id: UUID, delivery_id: UUID, token: UUID) -> ClaimedView | None:
        """The delivery with its endpoint, if the claim is still the bearer's."""
        stored = self._tables.deliveries.get((account_id, delivery_id))
        if stored is None or stored.token != token:
            return None
        return ClaimedView(stored.delivery, self._endpoint(stored.delivery), self._clock.now())

    async def save_attempt(self, delivery: Delivery, endpoint: Endpoint, attempt: Attempt) -> None:
        """Record an attempt and what it did; ends the claim."""
        account_id = delivery.account_id
        known = self._tables.endpoints[account_id, endpoint.id]
        self._tables.attempts.setdefault((account_id, delivery.id, delivery.attempts_made), attempt)
        self._tables.deliveries[account_id, delivery.id] = StoredDelivery(delivery)
        self._tables.endpoints[account_id, endpoint.id] = evolve(
            known,
            state=endpoint.state,
            consecutive_failures=endpoint.consecutive_failures,
            disabled_at=endpoint.disabled_at,
        )
        if not endpoint.is_active:
            hold_waiting(self._tables, endpoint, self._clock.now(), but=delivery.id)

    async def sweep_held(self) -> int:
        """Release what is held at active endpoints, expire what was held for too long."""
        now = self._clock.now()
        released = 0
        for name, stored in self._tables.deliveries.items():
            swept = self._sweep(stored.delivery, now)
            if swept is not stored.delivery:
                self._tables.deliveries[name] = StoredDelivery(swept, stored.token)
                released += swept.status is DeliveryStatus.PENDING
        return released

    def _sweep(self, delivery: Delivery, now: datetime) -> Delivery:
        is_active = self._endpoint(delivery).is_active
        due = delivery.next_attempt_at
        if due is not None and due <= now and not is_active:
            return hold(delivery, now)
        expired = expire(delivery, now)
        if expired is delivery and delivery.held_at is not None and is_active:
            return release(delivery, now)
        return expired

    def _endpoint(self, delivery: Delivery) -> Endpoint:
        return self._tables.endpoints[delivery.account_id, delivery.endpoint_id]
