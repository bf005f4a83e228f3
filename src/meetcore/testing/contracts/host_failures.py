"""What a store does when a destination host fails: part of `DeliveryRepositoryContract`."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, Endpoint, EndpointState
from meetcore.ports.deliveries import Claimed
from meetcore.testing.contracts.outbox import BAD, GOOD, claim, record_all, record_batch
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    KIND,
    Customer,
    new_endpoint,
    open_customer,
    register,
    top_up,
)

ACTIVE, DISABLED = EndpointState.ACTIVE, EndpointState.DISABLED


async def _customer(
    rig: StoreRig, endpoints: int, host: str = "hooks.example"
) -> tuple[Customer, list[Endpoint]]:
    """An account with so many endpoints at a host."""
    customer = await open_customer(rig)
    made = [new_endpoint(customer) for _ in range(endpoints)]
    urls = [f"https://{host}/{one.id}" for one in made]
    at_host = [evolve(one, url=url, url_key=url) for one, url in zip(made, urls, strict=True)]
    return customer, [await register(rig, one) for one in at_host]


async def _posts(rig: StoreRig, customer: Customer, events: int, name: str = "event") -> list[Claimed]:
    """Claim a delivery of each event for each endpoint that is active."""
    for number in range(events):
        await top_up(rig, customer, 5, f"{name}-{number}", KIND)
    found, _ = await claim(rig, 1_000)
    return [one for one in found if one.account_id == customer.account_id]


async def _states(rig: StoreRig, endpoints: list[Endpoint]) -> list[EndpointState]:
    return [(await _load(rig, one)).state for one in endpoints]


async def _load(rig: StoreRig, endpoint: Endpoint) -> Endpoint:
    async with rig.store.begin() as tx:
        found = await tx.endpoints.load_locked(endpoint.account_id, endpoint.id)
    assert found is not None
    return found


@pytest.mark.asyncio
class HostFailuresContract:
    """Failures are counted at a host for each account, over all its endpoints there."""

    async def test_twenty_failures_at_a_host_disable_every_endpoint_there_that_fails(
        self, rig: StoreRig
    ) -> None:
        customer, endpoints = await _customer(rig, 10)
        await record_all(rig, await _posts(rig, customer, 1), BAD)
        assert await _states(rig, endpoints) == [ACTIVE] * 10
        await record_all(rig, await _posts(rig, customer, 1, "more"), BAD)
        for one in endpoints:
            found = await _load(rig, one)
            assert (found.state, found.consecutive_failures) == (DISABLED, DISABLE_AFTER_FAILURES)
            assert found.disabled_at is not None
        statuses = {one.status for one in (await rig.deliveries(customer.account_id)).values()}
        assert statuses == {DeliveryStatus.HELD}

    async def test_endpoints_of_the_host_that_are_not_in_the_batch_are_disabled_too(
        self, rig: StoreRig
    ) -> None:
        customer, endpoints = await _customer(rig, 4)
        posts = await _posts(rig, customer, 5)
        await record_all(rig, posts[:19], BAD)
        saved = await record_batch(rig, posts[19:], BAD)
        assert saved is not None
        others = [one for one in endpoints if one.url != posts[19].url]
        assert sorted(one.id for one in saved.disabled) == sorted(one.id for one in others)
        assert {one.state for one in saved.disabled} == {DISABLED}
        assert await _states(rig, endpoints) == [DISABLED] * 4

    async def test_an_endpoint_whose_last_delivery_succeeded_stays_active(self, rig: StoreRig) -> None:
        customer, endpoints = await _customer(rig, 3)
        posts = await _posts(rig, customer, 11)
        healthy = [one for one in posts if one.url == endpoints[0].url]
        await record_all(rig, healthy[:1], GOOD)
        await record_all(rig, [one for one in posts if one not in healthy][:20], BAD)
        assert await _states(rig, endpoints) == [ACTIVE, DISABLED, DISABLED]

    async def test_a_success_at_the_host_starts_the_count_again(self, rig: StoreRig) -> None:
        customer, endpoints = await _customer(rig, 3)
        posts = await _posts(rig, customer, 13)
        healthy = [one for one in posts if one.url == endpoints[0].url]
        others = [one for one in posts if one not in healthy]
        await record_all(rig, others[:12], BAD)
        await record_all(rig, healthy[:1], GOOD)
        await record_all(rig, others[12:], BAD)
        assert await _states(rig, endpoints) == [ACTIVE] * 3

    async def test_failures_of_one_account_disable_nothing_of_another(self, rig: StoreRig) -> None:
        customer, endpoints = await _customer(rig, 2)
        other_account, other_endpoints = await _customer(rig, 2)
        posts = await _posts(rig, other_account, 1)
        await record_all(rig, posts, BAD)
        await record_all(rig, await _posts(rig, customer, 10), BAD)
        assert await _states(rig, endpoints) == [DISABLED] * 2
        assert await _states(rig, other_endpoints) == [ACTIVE] * 2

    async def test_failures_at_one_host_disable_nothing_at_another(self, rig: StoreRig) -> None:
        customer, endpoints = await _customer(rig, 2)
        other = new_endpoint(customer, url="https://b.example/", url_key="https://b.example/")
        await register(rig, other)
        posts = await _posts(rig, customer, 10)
        await record_all(rig, [one for one in posts if one.url == other.url][:1], BAD)
        await record_all(rig, [one for one in posts if one.url != other.url], BAD)
        assert await _states(rig, [*endpoints, other]) == [DISABLED, DISABLED, ACTIVE]

    async def test_failures_recorded_at_once_are_all_counted(self, rig: StoreRig) -> None:
        customer, endpoints = await _customer(rig, 10)
        posts = await _posts(rig, customer, 2)
        # Batches that overlap in their endpoints, in different orders: none may deadlock.
        batches = [posts[start::5][:: 1 if start % 2 else -1] for start in range(5)]
        await asyncio.gather(*(record_all(rig, batch, BAD) for batch in batches))
        assert await _states(rig, endpoints) == [DISABLED] * 10

    async def test_the_last_endpoint_at_a_host_takes_the_count_with_it(self, rig: StoreRig) -> None:
        customer, endpoints = await _customer(rig, 2)
        posts = await _posts(rig, customer, 9)
        await record_all(rig, posts, BAD)
        for one in endpoints:
            async with rig.store.begin() as tx:
                await tx.lock_account(customer.account_id)
                assert await tx.endpoints.remove(customer.account_id, one.id)
        again = await register(
            rig, new_endpoint(customer, url=endpoints[0].url, url_key=endpoints[0].url_key)
        )
        await record_all(rig, await _posts(rig, customer, 2, "again"), BAD)
        assert await _states(rig, [again]) == [ACTIVE]
