"""Removing a webhook endpoint: what waits goes with it, what is final stays, its URL is free."""

import asyncio

import pytest

from meetcore.domain.webhooks.deliveries import Attempt, DeliveryStatus
from meetcore.domain.webhooks.endpoints import pause
from meetcore.testing.contracts.outbox import BAD, GOOD, claim, outbox, record, sweep
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    KIND,
    new_endpoint,
    new_id,
    open_customer,
    register,
    remove_endpoint,
    save_endpoint,
    top_up,
)


@pytest.mark.asyncio
class EndpointRemoval:
    """A part of `EndpointRepositoryContract`."""

    async def test_a_removed_endpoint_is_gone_and_its_url_is_free(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        assert await remove_endpoint(rig, endpoint)
        assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) is None
        async with rig.store.begin() as tx:
            assert await tx.endpoints.load_locked(customer.account_id, endpoint.id) is None
        again = new_endpoint(customer, url=endpoint.url, url_key=endpoint.url_key)
        assert await register(rig, again) == again

    async def test_what_waits_goes_and_what_is_final_stays(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 4)
        found, lease = await claim(rig, limit=3)
        done, tried, _ = found
        assert await record(rig, done, lease.token, GOOD)
        assert await record(rig, tried, lease.token, BAD)
        assert await remove_endpoint(rig, endpoint)
        left = await rig.deliveries(customer.account_id)
        assert {id_: one.status for id_, one in left.items()} == {done.delivery_id: DeliveryStatus.SUCCEEDED}
        assert await rig.attempts(customer.account_id) == [1]

    async def test_a_worker_passes_over_what_a_removed_endpoint_left(self, rig: StoreRig) -> None:
        _, endpoint = await outbox(rig, 2)
        found, lease = await claim(rig, limit=1)
        assert await record(rig, found[0], lease.token, GOOD)
        assert await remove_endpoint(rig, endpoint)
        assert (await claim(rig))[0] == []
        assert await sweep(rig) == 0

    async def test_what_is_held_goes_too(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 2)
        await save_endpoint(rig, pause(endpoint))
        assert await remove_endpoint(rig, pause(endpoint))
        assert await rig.deliveries(customer.account_id) == {}

    async def test_a_post_in_flight_finds_its_claim_lost(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        assert await remove_endpoint(rig, endpoint)
        assert not await record(rig, claimed, lease.token, BAD)
        assert await rig.deliveries(customer.account_id) == {}
        assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) is None

    async def test_removing_takes_nothing_from_others(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        second = await register(rig, new_endpoint(customer))
        other, other_endpoint = await outbox(rig)
        await top_up(rig, customer, 5, "both", KIND)
        assert await remove_endpoint(rig, endpoint)
        (kept,) = (await rig.deliveries(customer.account_id)).values()
        assert (kept.endpoint_id, kept.status) == (second.id, DeliveryStatus.PENDING)
        assert len(await rig.deliveries(other.account_id)) == 1
        assert await rig.queries.find_endpoint(other.account_id, other_endpoint.id) == other_endpoint
        assert await rig.queries.find_endpoint(customer.account_id, second.id) == second

    async def test_what_is_not_the_accounts_is_not_removed(self, rig: StoreRig) -> None:
        owner, endpoint = await outbox(rig)
        other = await open_customer(rig)
        async with rig.store.begin() as tx:
            await tx.lock_account(other.account_id)
            assert not await tx.endpoints.remove(other.account_id, endpoint.id)
            assert not await tx.endpoints.remove(other.account_id, new_id())
        assert await rig.queries.find_endpoint(owner.account_id, endpoint.id) == endpoint
        assert len(await rig.deliveries(owner.account_id)) == 1

    async def test_of_concurrent_removals_one_succeeds(self, rig: StoreRig) -> None:
        _, endpoint = await outbox(rig)
        removed = await asyncio.gather(*(remove_endpoint(rig, endpoint) for _ in range(5)))
        assert sorted(removed) == [False] * 4 + [True]

    async def test_a_removal_that_is_rolled_back_took_nothing(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)

        async def remove_and_fail() -> None:
            async with rig.store.begin() as tx:
                await tx.lock_account(customer.account_id)
                assert await tx.endpoints.remove(customer.account_id, endpoint.id)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await remove_and_fail()
        assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) == endpoint
        assert len((await claim(rig))[0]) == 1

    async def test_an_event_that_races_with_a_removal_leaves_nothing_that_waits(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        top_ups = [top_up(rig, customer, 5, f"race-{number}", KIND) for number in range(6)]
        await asyncio.gather(*top_ups[:3], remove_endpoint(rig, endpoint), *top_ups[3:])
        assert await rig.deliveries(customer.account_id) == {}
        assert await top_up(rig, customer, 5, "later", KIND) == 0

    @pytest.mark.parametrize("attempt", [GOOD, BAD], ids=["succeeded", "failed"])
    async def test_an_attempt_that_races_with_a_removal_leaves_nothing_that_waits(
        self, rig: StoreRig, attempt: Attempt
    ) -> None:
        customer, endpoint = await outbox(rig, 6)
        found, lease = await claim(rig)
        recording = [record(rig, one, lease.token, attempt) for one in found]
        outcomes = await asyncio.gather(*recording[:3], remove_endpoint(rig, endpoint), *recording[3:])
        assert outcomes[3]
        left = (await rig.deliveries(customer.account_id)).values()
        assert {one.status for one in left} <= {DeliveryStatus.SUCCEEDED}
        recorded = sum(outcomes) - 1
        assert len(left) == (recorded if attempt is GOOD else 0)
        assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) is None
