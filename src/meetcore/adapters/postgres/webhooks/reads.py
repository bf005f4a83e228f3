"""Reads of endpoints, deliveries and events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve

from meetcore.adapters.postgres.columns import Columns, Row, readable, utc
from meetcore.adapters.postgres.repository import NEWEST, OLDEST, Reads, load_statements
from meetcore.adapters.postgres.webhooks.rows import (
    ATTEMPT,
    DELIVERY,
    ENDPOINT,
    LISTED_ATTEMPT,
    SHOWN_SUCCESS,
    event_context,
)
from meetcore.domain.ids import first_id
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EncodedEvent, EventKind
from meetcore.domain.webhooks.views import (
    MAX_ATTEMPTS_READ,
    MAX_DELIVERIES_LOOKED_AT,
    DeliveryFilter,
    DeliveryHistory,
    EventFilter,
)
from meetcore.ports.queries import MAX_PAGE

SQL = load_statements(
    __file__, ATTEMPT=ATTEMPT, DELIVERY=DELIVERY, ENDPOINT=ENDPOINT, LISTED_ATTEMPT=LISTED_ATTEMPT,
    MAX_ATTEMPTS_READ=MAX_ATTEMPTS_READ, MAX_PAGE=MAX_PAGE, SHOWN_SUCCESS=SHOWN_SUCCESS,
)  # fmt: skip


class EndpointReads(Reads):
    """Reads of endpoints, their secrets opened."""

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        return await self._find(ENDPOINT, SQL["find_endpoint"], account_id=account_id, id=endpoint_id)

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return await self._list(ENDPOINT, SQL["list_endpoints"], page)

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        found = await self._all(SQL["find_by_url"], url_key=url_key)
        secrets = (ENDPOINT.read(row, self._cipher).secret for row in found)
        return [secret for secret in secrets if secret is not None]


# A page of the deliveries to an endpoint: all, those that succeeded, which most have, or those in another status, with the
# condition repeated in the form of the partial index over them.
_ANY, _SUCCEEDED = "", " AND d.status = 'succeeded'"
_ANOTHER = " AND d.status = %(status)s AND d.status <> 'succeeded'"
_OF_KIND = "d.delivery_event_kind = %(kind)s"
_ABOUT = """(d.delivery_id = %(about)s OR d.delivery_event_id IN (
        SELECT e.id FROM events e WHERE e.account_id = %(account_id)s AND e.id = %(about)s
        UNION ALL SELECT e.id FROM events e WHERE e.account_id = %(account_id)s AND e.subject_id = %(about)s))"""
_LISTS: Final[Mapping[tuple[str, tuple[str, ...]], str]] = {
    (condition, chosen): SQL["list_deliveries"]
    .replace("{and_status}", condition)
    .replace("{most}", str(MAX_DELIVERIES_LOOKED_AT if chosen else MAX_PAGE))
    .replace("{chosen}", f" WHERE {' AND '.join(chosen)}" if chosen else "")
    for condition in (_ANY, _SUCCEEDED, _ANOTHER)
    for chosen in ((), (_OF_KIND,), (_ABOUT,), (_OF_KIND, _ABOUT))
}


def _condition(status: DeliveryStatus | None) -> str:
    if status is None:
        return _ANY
    return _SUCCEEDED if status is DeliveryStatus.SUCCEEDED else _ANOTHER


class DeliveryReads(Reads):
    """Reads of deliveries, each with its attempts."""

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        wanted: DeliveryFilter,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        end = NEWEST if wanted.made_before is None else first_id(wanted.made_before)
        page: Row = {
            "account_id": account_id,
            "endpoint_id": endpoint_id,
            "limit": limit,
            "before": min(before or NEWEST, end),
            "first": OLDEST if wanted.made_from is None else first_id(wanted.made_from),
            "status": wanted.status and wanted.status.value,
            "kind": wanted.kind and wanted.kind.value,
            "about": wanted.about,
        }
        chosen = ((_OF_KIND,) if wanted.kind else ()) + ((_ABOUT,) if wanted.about else ())
        found = await self._all(_LISTS[_condition(wanted.status), chosen], page)
        return _histories(found, LISTED_ATTEMPT) if found else None

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        named = {"account_id": account_id, "endpoint_id": endpoint_id, "id": delivery_id}
        histories = _histories(await self._all(SQL["find_delivery"], named), ATTEMPT)
        return histories[0] if histories else None


def _histories(found: Sequence[Row], columns: Columns[Attempt]) -> list[DeliveryHistory]:
    """Rows of at most one failed attempt each, gathered by their deliveries in the order of the rows."""
    gathered: dict[UUID, list[Row]] = {}
    for row in found:
        if row["delivery_id"] is not None:
            gathered.setdefault(row["delivery_id"], []).append(row)
    return [
        DeliveryHistory(
            _as_posted(DELIVERY.read(of_one[0]), of_one[0]["waits_until"]),
            tuple(columns.read(row) for row in of_one if row["number"] is not None)
            + tuple(SHOWN_SUCCESS.read(row) for row in of_one[:1] if row["success_at"] is not None),
        )
        for of_one in gathered.values()
    ]


def _as_posted(delivery: Delivery, waits_until: datetime | None) -> Delivery:
    """Return a due delivery of a waiting endpoint with the time of the endpoint's next post."""
    due = delivery.next_attempt_at
    if due is None or waits_until is None or waits_until <= due:
        return delivery
    return evolve(delivery, next_attempt_at=utc(waits_until))


class EventReads(Reads):
    """Reads of events."""

    async def find_event(self, account_id: UUID, event_id: UUID) -> EncodedEvent | None:
        row = await self._one(SQL["find_event"], account_id=account_id, id=event_id)
        return None if row is None else self._event(row)

    async def list_events(
        self, account_id: UUID, wanted: EventFilter, limit: int, before: UUID | None
    ) -> Sequence[EncodedEvent]:
        end = NEWEST if wanted.made_before is None else first_id(wanted.made_before)
        page: Row = {
            "account_id": account_id,
            "limit": limit,
            "before": min(before or NEWEST, end),
            "first": first_id(wanted.made_from),
        }
        if wanted.kind is None:
            found = await self._all(SQL["list_events"], page)
        elif wanted.kind is EventKind.MEETING_CREATED:
            found = await self._all(SQL["list_of_creations"], page)
        else:
            found = await self._all(SQL["list_of_kind"], page, kind=wanted.kind.value)
        return [self._event(row) for row in found]

    def _event(self, row: Row) -> EncodedEvent:
        payload = readable(self._cipher, row["payload"], event_context(row["account_id"], row["id"]))
        encoded = None if payload is None else payload.encode()
        return EncodedEvent(row["id"], EventKind(row["kind"]), utc(row["created_at"]), encoded)
