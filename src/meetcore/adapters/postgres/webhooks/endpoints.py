"""Webhook endpoints of an account: registered, changed, removed, and posted to by hand."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.repository import Reads, Repository, load_statements
from meetcore.adapters.postgres.webhooks.rows import (
    DELIVERY,
    ENDPOINT,
    ENDPOINT_WITHOUT_SECRETS,
    event_context,
)
from meetcore.domain.ids import first_id
from meetcore.domain.webhooks import deliveries, endpoints, events, views
from meetcore.ports.queries import MAX_PAGE

SQL = load_statements(
    __file__, DELIVERY=DELIVERY, ENDPOINT=ENDPOINT, HEALTH_SAMPLE=views.HEALTH_SAMPLE,
    ENDPOINT_WITHOUT_SECRETS=ENDPOINT_WITHOUT_SECRETS, MAX_ATTEMPTS_READ=views.MAX_ATTEMPTS_READ, MAX_PAGE=MAX_PAGE,
)  # fmt: skip


class PostgresEndpointRepository(Repository):
    """Webhook endpoints."""

    async def find_by_url(self, account_id: UUID, url_key: str) -> endpoints.Endpoint | None:
        return self._endpoint(await self._one(SQL["find_by_url"], account_id=account_id, url_key=url_key))

    async def count(self, account_id: UUID) -> int:
        row = await self._one(SQL["count_endpoints"], account_id=account_id)
        return 0 if row is None else int(row["endpoints"])

    async def list_disabled(self, since: datetime) -> Sequence[endpoints.Endpoint]:
        rows = await self._all(SQL["list_disabled"], since=since)
        return [ENDPOINT_WITHOUT_SECRETS.read(row, secret=None) for row in rows]

    async def add(self, endpoint: endpoints.Endpoint) -> None:
        await self._run(SQL["add_endpoint"], ENDPOINT.parameters(endpoint, self._cipher), host=endpoint.host)

    async def load_locked(self, account_id: UUID, endpoint_id: UUID) -> endpoints.Endpoint | None:
        return self._endpoint(await self._one(SQL["load_endpoint"], account_id=account_id, id=endpoint_id))

    async def save(self, endpoint: endpoints.Endpoint) -> None:
        await self._run(SQL["save_endpoint"], ENDPOINT.parameters(endpoint, self._cipher))
        if not endpoint.is_active:
            await self._run(SQL["hold_waiting"], account_id=endpoint.account_id, id=endpoint.id)

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        named = {"account_id": account_id, "id": endpoint_id}
        row = await self._one(SQL["lock_endpoint"], named)
        if row is None:
            return False
        await self._run(SQL["remove_endpoint"], named)
        await self._run(SQL["lock_host"], row)
        await self._run(SQL["delete_host"], named | row)
        return True

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> views.NewDeliveryView | None:
        named: Row = {"account_id": account_id, "id": endpoint_id, "delivery_id": delivery_id}
        row = await self._one(
            SQL["load_for_event"] if delivery_id is None else SQL["load_for_delivery"], named
        )
        if row is None:
            return None
        earlier = None if delivery_id is None else DELIVERY.read(row)
        return views.NewDeliveryView(ENDPOINT.read(row, self._cipher), earlier, utc(row["now"]))

    async def add_event_for_endpoint(self, event: events.Event, delivery: deliveries.Delivery) -> None:
        payload = self._cipher.seal(events.encode_event(event), event_context(event.account_id, event.id))
        of_event = {"payload": payload, "event_created_at": event.created_at, "cause": event.cause}
        await self._run(SQL["add_event_for_endpoint"], DELIVERY.parameters(delivery) | of_event)

    async def redeliver(self, delivery: deliveries.Delivery) -> bool:
        return await self._changed(SQL["redeliver"], DELIVERY.parameters(delivery))

    def _endpoint(self, row: Row | None) -> endpoints.Endpoint | None:
        return None if row is None else ENDPOINT.read(row, self._cipher)


class HealthReads(Reads):
    """Reads of endpoints with their health."""

    async def list_endpoint_health(self, account_id: UUID, since: datetime) -> Sequence[views.EndpointHealth]:
        rows = await self._all(SQL["list_health"], account_id=account_id, since=first_id(since))
        return [self._health(row) for row in rows]

    async def find_endpoint_health(
        self, account_id: UUID, endpoint_id: UUID, since: datetime
    ) -> views.EndpointHealth | None:
        wanted = {"account_id": account_id, "id": endpoint_id, "since": first_id(since)}
        row = await self._one(SQL["find_health"], wanted)
        return None if row is None else self._health(row)

    def _health(self, row: Row) -> views.EndpointHealth:
        at = row["last_failure_at"]
        return views.EndpointHealth(
            ENDPOINT.read(row, self._cipher),
            row["attempts"],
            row["successes"],
            row["p95_ms"],
            None if at is None else utc(at),
            row["last_error"],
        )
