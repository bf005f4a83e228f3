"""Reads of events in a store: the newest first, each account its own, by kind and by time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.webhooks.deliveries import open_delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EncodedEvent, Event, EventKind, encode_event
from meetcore.ports.queries import MAX_PAGE, EventFilter
from meetcore.testing.contracts.outbox import outbox
from meetcore.testing.contracts.store_rig import QueriesRig, Rig
from meetcore.testing.contracts.transactions import AT, new_id, open_customer

FIRST, LAST = EventKind.WEBHOOK_TEST, EventKind.CREDIT_LOW
ALL = EventFilter(AT)


async def post(rig: Rig, endpoint: Endpoint, kind: EventKind, at: datetime) -> Event:
    """Write an event of an instant for one endpoint, with its delivery."""
    id_ = uuid7(at, new_id().bytes[-RANDOM_BYTES:])
    event = Event(id_, endpoint.account_id, kind, at, {"note": "Rapat ✓"})
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id)
        assert view is not None
        delivery = open_delivery(
            id=new_id(), endpoint=endpoint, event_id=id_, event_kind=kind, created_at=at, now=view.now
        )
        await tx.endpoints.post_event(event, delivery)
    return event


def _encoded(*events: Event) -> list[EncodedEvent]:
    return [EncodedEvent(one.id, one.kind, one.created_at, encode_event(one)) for one in events]


async def _listed(
    rig: QueriesRig, account_id: UUID, wanted: EventFilter = ALL, limit: int = MAX_PAGE
) -> Sequence[EncodedEvent]:
    return list(await rig.queries.list_events(account_id, wanted, limit, None))


@pytest.mark.asyncio
class EventQueries:
    """A part of `QueriesContract`."""

    async def test_events_are_listed_newest_first_with_the_bytes_that_are_sent(self, rig: QueriesRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        _, foreign = await outbox(rig, 0)
        made = [await post(rig, endpoint, FIRST, AT + timedelta(seconds=number)) for number in range(3)]
        other = await post(rig, foreign, FIRST, AT)
        assert await _listed(rig, customer.account_id) == _encoded(*made[::-1])
        assert await _listed(rig, foreign.account_id) == _encoded(other)
        assert await _listed(rig, (await open_customer(rig)).account_id) == []

    async def test_events_come_in_pages(self, rig: QueriesRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        made = [await post(rig, endpoint, FIRST, AT + timedelta(seconds=number)) for number in range(5)]
        pages, before = [], None
        while page := list(await rig.queries.list_events(customer.account_id, ALL, 2, before)):
            pages.append(page)
            before = page[-1].id
        expected = _encoded(*made[::-1])
        assert pages == [expected[:2], expected[2:4], expected[4:]]

    async def test_events_are_filtered_by_kind_and_time(self, rig: QueriesRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        kinds = (FIRST, LAST, FIRST, LAST)
        made = [
            await post(rig, endpoint, kind, AT + timedelta(hours=hour)) for hour, kind in enumerate(kinds)
        ]
        start, end = AT + timedelta(hours=1), AT + timedelta(hours=3)
        for kind in (None, FIRST, LAST):
            of_kind = [one for one in made[::-1] if kind in (None, one.kind)]
            for wanted, expected in (
                (EventFilter(AT, kind), of_kind),
                (EventFilter(start, kind), [one for one in of_kind if one.created_at >= start]),
                (EventFilter(AT, kind, end), [one for one in of_kind if one.created_at < end]),
                (EventFilter(start, kind, end), [one for one in of_kind if start <= one.created_at < end]),
            ):
                assert await _listed(rig, customer.account_id, wanted) == _encoded(*expected)
        page = await rig.queries.list_events(
            customer.account_id, EventFilter(start, None, end), 5, made[2].id
        )
        assert list(page) == _encoded(made[1])

    async def test_an_event_is_found_by_its_own_account_only(self, rig: QueriesRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        made = await post(rig, endpoint, FIRST, AT)
        assert await rig.queries.find_event(customer.account_id, made.id) == _encoded(made)[0]
        assert await rig.queries.find_event(customer.account_id, new_id()) is None
        assert await rig.queries.find_event((await open_customer(rig)).account_id, made.id) is None
