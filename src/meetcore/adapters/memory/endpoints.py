"""Webhook endpoints in memory."""

from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.outbox import drop_delivery, hold_waiting, stored_event
from meetcore.adapters.memory.state import (
    ConstraintBroken,
    StoredDelivery,
    Tables,
    account_of,
)
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.store import PostingView

_WAITING = (DeliveryStatus.PENDING, DeliveryStatus.HELD)


class MemoryEndpointRepository:
    """Webhook endpoints of an account, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        for endpoint in self._tables.endpoints.values():
            if (endpoint.account_id, endpoint.url_key) == (account_id, url_key):
                return endpoint
        return None

    async def count(self, account_id: UUID) -> int:
        return sum(owner == account_id for owner, _ in self._tables.endpoints)

    async def add(self, endpoint: Endpoint) -> None:
        account_of(self._tables, endpoint.account_id)
        name = endpoint.account_id, endpoint.id
        if name in self._tables.endpoints or await self.find_by_url(endpoint.account_id, endpoint.url_key):
            raise ConstraintBroken("the URL is registered already")
        self._tables.endpoints[name] = endpoint

    async def load_locked(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        return self._tables.endpoints.get((account_id, endpoint_id))

    async def save(self, endpoint: Endpoint) -> None:
        name = endpoint.account_id, endpoint.id
        known = self._tables.endpoints.get(name)
        if known is None:
            return
        self._tables.endpoints[name] = evolve(
            known,
            description=endpoint.description,
            event_types=endpoint.event_types,
            state=endpoint.state,
            consecutive_failures=endpoint.consecutive_failures,
            disabled_at=endpoint.disabled_at,
            secret=endpoint.secret,
            previous_secret=endpoint.previous_secret,
            previous_secret_until=endpoint.previous_secret_until,
        )
        if not endpoint.is_active:
            hold_waiting(self._tables, endpoint, self._clock.now())

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        removed = self._tables.endpoints.pop((account_id, endpoint_id), None)
        if removed is None:
            return False
        if not any(
            (one.account_id, one.host) == (account_id, removed.host)
            for one in self._tables.endpoints.values()
        ):
            self._tables.host_failures.pop((account_id, removed.host), None)
        gone = [
            stored.delivery
            for name, stored in self._tables.deliveries.items()
            if (name[0], stored.delivery.endpoint_id) == (account_id, endpoint_id)
            and stored.delivery.status in _WAITING
        ]
        for delivery in gone:
            drop_delivery(self._tables, delivery)
        return True

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        endpoint = self._tables.endpoints.get((account_id, endpoint_id))
        if endpoint is None:
            return None
        if delivery_id is None:
            return PostingView(endpoint, None, self._clock.now())
        stored = self._tables.deliveries.get((account_id, delivery_id))
        if stored is None or stored.delivery.endpoint_id != endpoint_id:
            return None
        return PostingView(endpoint, stored.delivery, self._clock.now())

    async def post_event(self, event: Event, delivery: Delivery) -> None:
        name = event.account_id, event.id
        if name in self._tables.events:
            raise ConstraintBroken(f"event {event.id} is written already")
        self._tables.events[name] = stored_event(event)
        await self.post_again(delivery)

    async def post_again(self, delivery: Delivery) -> bool:
        if (delivery.account_id, delivery.event_id) not in self._tables.events:
            return False
        name = delivery.account_id, delivery.id
        if name in self._tables.deliveries:
            raise ConstraintBroken(f"delivery {delivery.id} is written already")
        self._tables.deliveries[name] = StoredDelivery(delivery)
        return True
