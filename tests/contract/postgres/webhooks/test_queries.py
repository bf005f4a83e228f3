"""Reads of webhooks, events and deliveries: each account its own."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TypeVar
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.ids import instant_of
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, pause
from meetcore.domain.webhooks.events import EncodedEvent, Event, EventKind, encode_event
from meetcore.domain.webhooks.views import (
    MAX_ATTEMPTS_READ,
    DeliveryFilter,
    DeliveryHistory,
    EndpointHealth,
    EventFilter,
)
from meetcore.ports.queries import MAX_PAGE
from tests.support.outbox import BAD, GOOD, claim, outbox, record
from tests.support.postgres_rig import PostgresRig
from tests.support.records import post
from tests.support.transactions import (
    AT,
    Customer,
    new_endpoint,
    new_id,
    open_customer,
    register,
    remove_endpoint,
    save_endpoint,
)

Item = TypeVar("Item")


async def _pages(
    read: Callable[[UUID | None], Awaitable[Sequence[Item]]], id_of: Callable[[Item], UUID]
) -> list[list[Item]]:
    """Every page until an empty one, each read below the last id of the one before."""
    pages: list[list[Item]] = []
    before: UUID | None = None
    while page := list(await read(before)):
        pages.append(page)
        before = id_of(page[-1])
    return pages


async def _deliveries(
    rig: PostgresRig, endpoint: Endpoint, status: DeliveryStatus | None = None, limit: int = MAX_PAGE
) -> list[DeliveryHistory]:
    found = await rig.queries.list_deliveries(
        endpoint.account_id, endpoint.id, DeliveryFilter(status), limit, None
    )
    assert found is not None
    return list(found)


async def _one_of_each(rig: PostgresRig) -> tuple[Customer, Endpoint]:
    """A delivery that succeeded at once, one that was tried once and waits, and two untried."""
    customer, endpoint = await outbox(rig, 4)
    ((done, tried), lease) = await claim(rig, limit=2)
    assert await record(rig, done, lease.token, GOOD)
    assert await record(rig, tried, lease.token, evolve(BAD, response_excerpt="sibuk ✓"))
    return customer, endpoint


async def test_deliveries_are_found_by_kind_and_time(rig: PostgresRig) -> None:
    _, endpoint = await _one_of_each(rig)
    everything = await _deliveries(rig, endpoint)
    made = sorted(at for one in everything if (at := instant_of(one.delivery.id)))

    async def found(wanted: DeliveryFilter) -> list[DeliveryHistory] | None:
        read = await rig.queries.list_deliveries(endpoint.account_id, endpoint.id, wanted, MAX_PAGE, None)
        return None if read is None else list(read)

    for kind, status in product(EventKind, (None, *DeliveryStatus)):
        assert await found(DeliveryFilter(status, kind)) == [
            one for one in everything
            if one.delivery.event_kind is kind and status in (None, one.delivery.status)
        ], (kind, status)  # fmt: skip
    assert everything
    assert (
        await found(DeliveryFilter(made_from=made[0], made_before=made[-1] + timedelta(milliseconds=1)))
        == everything
    )
    assert await found(DeliveryFilter(made_before=made[0])) == []
    for one in everything:
        assert await found(DeliveryFilter(about=one.delivery.id)) == [one]
        assert await found(DeliveryFilter(about=one.delivery.event_id, kind=one.delivery.event_kind)) == [one]
    assert await found(DeliveryFilter(about=endpoint.id)) == []
    assert await found(DeliveryFilter(made_from=made[-1] + timedelta(milliseconds=1))) == []


async def test_endpoints_come_in_pages_despite_removals_meanwhile(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    made = [await register(rig, new_endpoint(customer)) for _ in range(5)][::-1]

    async def read(before: UUID | None) -> Sequence[Endpoint]:
        return await rig.queries.list_endpoints(customer.account_id, 2, before)

    assert await _pages(read, lambda one: one.id) == [made[:2], made[2:4], made[4:]]
    assert await remove_endpoint(rig, made[1])
    assert list(await read(made[1].id)) == made[2:4]


async def test_the_health_of_endpoints_is_that_of_their_attempts(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 4)
    quiet = await register(rig, new_endpoint(customer))
    since = datetime(2020, 1, 1, tzinfo=UTC)
    results = [evolve(GOOD, duration_ms=10), evolve(BAD, duration_ms=700), evolve(GOOD, duration_ms=30)]
    results[1] = evolve(results[1], at=GOOD.at + timedelta(seconds=5))
    (claimed, lease) = await claim(rig, limit=3)
    for one, attempt in zip(claimed, results, strict=True):
        assert await record(rig, one, lease.token, attempt)
    find, list_ = rig.queries.find_endpoint_health, rig.queries.list_endpoint_health
    found = await find(customer.account_id, endpoint.id, since)
    assert found is not None
    assert (found.attempts, found.successes, found.p95_ms) == (3, 2, 700)
    assert (found.last_failure_at, found.last_error) == (results[1].at, BAD.error)
    assert found.success_rate == pytest.approx(2 / 3)
    assert found.endpoint == await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert list(await list_(customer.account_id, since)) == [EndpointHealth(quiet), found]
    later = datetime(2100, 1, 1, tzinfo=UTC)
    assert await find(customer.account_id, endpoint.id, later) == EndpointHealth(found.endpoint)
    other = await open_customer(rig)
    assert await find(other.account_id, endpoint.id, since) is None
    assert list(await list_(other.account_id, since)) == []


async def test_the_latest_attempts_of_a_delivery_are_read(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    assert await record(rig, claimed, lease.token, GOOD)
    await rig.rows(
        """INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, error)
        SELECT %(account)s, %(id)s, n, %(at)s + n * interval '1 second', n, 'status_' || n
        FROM generate_series(1, %(made)s) AS n""",
        account=customer.account_id, id=claimed.delivery_id, at=AT, made=MAX_ATTEMPTS_READ + 2,
    )  # fmt: skip
    latest = [f"status_{number}" for number in range(3, MAX_ATTEMPTS_READ + 3)]
    (listed,) = await _deliveries(rig, endpoint)
    found = await rig.queries.find_delivery(customer.account_id, endpoint.id, claimed.delivery_id)
    assert found is not None
    for history in (listed, found):
        assert [one.error for one in history.attempts] == [*latest, None]
    health = await rig.queries.find_endpoint_health(
        customer.account_id, endpoint.id, AT - timedelta(days=9999)
    )
    assert health is not None
    assert (health.attempts, health.last_error) == (MAX_ATTEMPTS_READ + 1, latest[-1])
    assert list(await rig.queries.list_endpoint_health(customer.account_id, AT - timedelta(days=9999))) == [
        health
    ]


async def test_deliveries_are_those_of_one_endpoint_of_one_account(rig: PostgresRig) -> None:
    customer, endpoint = await _one_of_each(rig)
    empty = await register(rig, new_endpoint(customer))
    other_account = await open_customer(rig)
    assert await _deliveries(rig, empty) == []
    read = rig.queries.list_deliveries
    for wanted in (DeliveryFilter(), DeliveryFilter(DeliveryStatus.PENDING)):
        assert await read(other_account.account_id, endpoint.id, wanted, MAX_PAGE, None) is None
        assert await read(customer.account_id, new_id(), wanted, MAX_PAGE, None) is None
    assert await remove_endpoint(rig, endpoint)
    assert await read(customer.account_id, endpoint.id, DeliveryFilter(), MAX_PAGE, None) is None


async def test_a_delivery_is_found_by_its_endpoint_and_account_only(rig: PostgresRig) -> None:
    customer, endpoint = await _one_of_each(rig)
    other, other_account = await register(rig, new_endpoint(customer)), await open_customer(rig)
    find = rig.queries.find_delivery
    for one in await _deliveries(rig, endpoint):
        assert await find(customer.account_id, endpoint.id, one.delivery.id) == one
        assert await find(customer.account_id, other.id, one.delivery.id) is None
        assert await find(other_account.account_id, endpoint.id, one.delivery.id) is None
    assert await find(customer.account_id, endpoint.id, new_id()) is None


FIRST, LAST = EventKind.WEBHOOK_TEST, EventKind.CREDIT_LOW
ALL = EventFilter(AT)


def _encoded(*events: Event) -> list[EncodedEvent]:
    return [EncodedEvent(one.id, one.kind, one.created_at, encode_event(one)) for one in events]


async def _listed(
    rig: PostgresRig, account_id: UUID, wanted: EventFilter = ALL, limit: int = MAX_PAGE
) -> Sequence[EncodedEvent]:
    return list(await rig.queries.list_events(account_id, wanted, limit, None))


async def test_events_are_filtered_by_kind_and_time(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 0)
    kinds = (FIRST, LAST, FIRST, LAST)
    made = [await post(rig, endpoint, kind, AT + timedelta(hours=hour)) for hour, kind in enumerate(kinds)]
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
    page = await rig.queries.list_events(customer.account_id, EventFilter(start, None, end), 5, made[2].id)
    assert list(page) == _encoded(made[1])


async def test_deliveries_are_filtered_by_where_they_stand(rig: PostgresRig) -> None:
    _, endpoint = await _one_of_each(rig)
    everything = await _deliveries(rig, endpoint)
    for status in DeliveryStatus:
        expected = [one for one in everything if one.delivery.status is status]
        assert await _deliveries(rig, endpoint, status) == expected
    await save_endpoint(rig, pause(endpoint))
    assert len(await _deliveries(rig, endpoint, DeliveryStatus.HELD)) == 3
