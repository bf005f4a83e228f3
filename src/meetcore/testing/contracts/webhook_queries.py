"""Pages of webhooks and of their deliveries, in a store: the newest first, each account its own."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, pause
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.endpoint_health import EndpointHealth
from meetcore.ports.queries import MAX_PAGE, DeliveryHistory
from meetcore.testing.contracts.outbox import BAD, GOOD, claim, outbox, record
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import (
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
    rig: QueriesRig, endpoint: Endpoint, status: DeliveryStatus | None = None, limit: int = MAX_PAGE
) -> list[DeliveryHistory]:
    found = await rig.queries.list_deliveries(endpoint.account_id, endpoint.id, status, limit, None)
    assert found is not None
    return list(found)


async def _one_of_each(rig: QueriesRig) -> tuple[Customer, Endpoint]:
    """A delivery that succeeded at once, one that was tried once and waits, and two untried."""
    customer, endpoint = await outbox(rig, 4)
    ((done, tried), lease) = await claim(rig, limit=2)
    assert await record(rig, done, lease.token, GOOD)
    assert await record(rig, tried, lease.token, evolve(BAD, response_excerpt="sibuk ✓"))
    return customer, endpoint


@pytest.mark.asyncio
class WebhookQueries:
    """A part of `QueriesContract`."""

    async def test_an_accounts_endpoints_are_listed_newest_first_with_their_secrets(
        self, rig: QueriesRig
    ) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        made = [await register(rig, new_endpoint(customer)) for _ in range(5)]
        await register(rig, new_endpoint(other))
        await save_endpoint(rig, pause(made[1]))
        made[1] = pause(made[1])
        assert list(await rig.queries.list_endpoints(customer.account_id, MAX_PAGE, None)) == made[::-1]
        assert list(await rig.queries.list_endpoints((await open_customer(rig)).account_id, 5, None)) == []

    async def test_endpoints_come_in_pages_despite_removals_meanwhile(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig)
        made = [await register(rig, new_endpoint(customer)) for _ in range(5)][::-1]

        async def read(before: UUID | None) -> Sequence[Endpoint]:
            return await rig.queries.list_endpoints(customer.account_id, 2, before)

        assert await _pages(read, lambda one: one.id) == [made[:2], made[2:4], made[4:]]
        assert await remove_endpoint(rig, made[1])
        assert list(await read(made[1].id)) == made[2:4]

    async def test_the_health_of_endpoints_is_that_of_their_attempts(self, rig: QueriesRig) -> None:
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

    async def test_deliveries_are_listed_newest_first_with_their_attempts(self, rig: QueriesRig) -> None:
        customer, endpoint = await _one_of_each(rig)
        found = await _deliveries(rig, endpoint)
        ids = [one.delivery.id for one in found]
        assert ids == sorted(ids, reverse=True)
        found_states = sorted((one.delivery.status, len(one.attempts)) for one in found)
        assert found_states == [("pending", 0), ("pending", 0), ("pending", 1), ("succeeded", 1)]
        for one in found:
            assert one.delivery.account_id == customer.account_id
            assert one.delivery.attempts_made == len(one.attempts)

    async def test_an_attempt_is_listed_without_the_dialled_address(self, rig: QueriesRig) -> None:
        _, endpoint = await _one_of_each(rig)
        (done,) = await _deliveries(rig, endpoint, DeliveryStatus.SUCCEEDED)
        assert GOOD.address is not None
        assert done.attempts == (evolve(GOOD, address=None),)
        (failed,) = [
            one.attempts for one in await _deliveries(rig, endpoint, DeliveryStatus.PENDING) if one.attempts
        ]
        assert failed == (evolve(BAD, response_excerpt="sibuk ✓"),)

    async def test_attempts_come_in_their_order(self, rig: QueriesRig) -> None:
        _, endpoint = await outbox(rig)
        tried = [evolve(BAD, status_code=status, error=f"status_{status}") for status in (503, 500, 502)]
        for attempt in tried:
            ((claimed,), lease) = await claim(rig)
            assert await record(rig, claimed, lease.token, attempt, RetrySchedule((0, 0)))
        (one,) = await _deliveries(rig, endpoint, DeliveryStatus.FAILED)
        assert list(one.attempts) == tried

    async def test_deliveries_are_filtered_by_where_they_stand(self, rig: QueriesRig) -> None:
        _, endpoint = await _one_of_each(rig)
        everything = await _deliveries(rig, endpoint)
        for status in DeliveryStatus:
            expected = [one for one in everything if one.delivery.status is status]
            assert await _deliveries(rig, endpoint, status) == expected
        await save_endpoint(rig, pause(endpoint))
        assert len(await _deliveries(rig, endpoint, DeliveryStatus.HELD)) == 3

    @pytest.mark.parametrize("status", [None, DeliveryStatus.PENDING])
    async def test_deliveries_come_in_pages(self, rig: QueriesRig, status: DeliveryStatus | None) -> None:
        customer, endpoint = await _one_of_each(rig)
        everything = await _deliveries(rig, endpoint, status)

        async def read(before: UUID | None) -> Sequence[DeliveryHistory]:
            found = await rig.queries.list_deliveries(customer.account_id, endpoint.id, status, 2, before)
            assert found is not None
            return found

        pages = await _pages(read, lambda one: one.delivery.id)
        assert pages == [everything[:2], everything[2:]]

    async def test_deliveries_are_those_of_one_endpoint_of_one_account(self, rig: QueriesRig) -> None:
        customer, endpoint = await _one_of_each(rig)
        empty = await register(rig, new_endpoint(customer))
        other_account = await open_customer(rig)
        assert await _deliveries(rig, empty) == []
        read = rig.queries.list_deliveries
        for status in (None, DeliveryStatus.PENDING):
            assert await read(other_account.account_id, endpoint.id, status, MAX_PAGE, None) is None
            assert await read(customer.account_id, new_id(), status, MAX_PAGE, None) is None
        assert await remove_endpoint(rig, endpoint)
        assert await read(customer.account_id, endpoint.id, None, MAX_PAGE, None) is None

    async def test_a_delivery_is_found_by_its_endpoint_and_account_only(self, rig: QueriesRig) -> None:
        customer, endpoint = await _one_of_each(rig)
        other, other_account = await register(rig, new_endpoint(customer)), await open_customer(rig)
        find = rig.queries.find_delivery
        for one in await _deliveries(rig, endpoint):
            assert await find(customer.account_id, endpoint.id, one.delivery.id) == one
            assert await find(customer.account_id, other.id, one.delivery.id) is None
            assert await find(other_account.account_id, endpoint.id, one.delivery.id) is None
        assert await find(customer.account_id, endpoint.id, new_id()) is None

    async def test_the_deliveries_of_a_removed_endpoint_are_not_found(self, rig: QueriesRig) -> None:
        customer, endpoint = await _one_of_each(rig)
        (done,) = await _deliveries(rig, endpoint, DeliveryStatus.SUCCEEDED)
        assert await remove_endpoint(rig, endpoint)
        assert await rig.queries.find_delivery(customer.account_id, endpoint.id, done.delivery.id) is None
