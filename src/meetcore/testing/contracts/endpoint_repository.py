"""Webhook endpoints in a store: once for each URL, and their deliveries follow their state."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointState, pause, resume
from meetcore.domain.webhooks.events import EventKind
from meetcore.testing.contracts.endpoint_posting import EndpointPosting
from meetcore.testing.contracts.endpoint_removal import EndpointRemoval
from meetcore.testing.contracts.outbox import release
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    Customer,
    new_endpoint,
    new_id,
    open_customer,
    register,
    save_endpoint,
    top_up,
)


async def _load(rig: StoreRig, endpoint: Endpoint) -> Endpoint | None:
    async with rig.store.begin() as tx:
        return await tx.endpoints.load_locked(endpoint.account_id, endpoint.id)


async def _statuses(rig: StoreRig, customer: Customer) -> list[DeliveryStatus]:
    return [one.status for one in (await rig.deliveries(customer.account_id)).values()]


@pytest.mark.asyncio
class EndpointRepositoryContract(EndpointRemoval, EndpointPosting):
    """What `ports.store.EndpointRepository` promises."""

    async def test_an_unknown_account_cannot_be_locked(self, rig: StoreRig) -> None:
        with pytest.raises(NotFound):
            async with rig.store.begin() as tx:
                await tx.lock_account(new_id())

    async def test_the_endpoints_of_an_account_are_counted_the_inactive_ones_too(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        first = await register(rig, new_endpoint(customer))
        await save_endpoint(rig, pause(first))
        await register(rig, new_endpoint(customer))
        await register(rig, new_endpoint(other))
        async with rig.store.begin() as tx:
            await tx.lock_account(customer.account_id)
            assert await tx.endpoints.count(customer.account_id) == 2
            await tx.endpoints.remove(customer.account_id, first.id)
            assert await tx.endpoints.count(customer.account_id) == 1
            assert await tx.endpoints.count(new_id()) == 0

    @pytest.mark.parametrize("description", [None, "Rapat ✓ \U0001f600"])
    async def test_an_endpoint_is_read_back_as_it_was_written(
        self, rig: StoreRig, description: str | None
    ) -> None:
        customer = await open_customer(rig)
        endpoint = new_endpoint(customer, *EventKind, description=description)
        await register(rig, endpoint)
        assert await _load(rig, endpoint) == endpoint
        async with rig.store.begin() as tx:
            assert await tx.endpoints.find_by_url(customer.account_id, endpoint.url_key) == endpoint

    async def test_another_accounts_endpoint_is_not_there(self, rig: StoreRig) -> None:
        owner, other = await open_customer(rig), await open_customer(rig)
        endpoint = await register(rig, new_endpoint(owner))
        assert await _load(rig, evolve(endpoint, account_id=other.account_id)) is None
        async with rig.store.begin() as tx:
            assert await tx.endpoints.find_by_url(other.account_id, endpoint.url_key) is None

    async def test_two_accounts_may_register_one_url(self, rig: StoreRig) -> None:
        owner, other = await open_customer(rig), await open_customer(rig)
        endpoint = await register(rig, new_endpoint(owner))
        duplicate = new_endpoint(other, url=endpoint.url, url_key=endpoint.url_key)
        assert await register(rig, duplicate) == duplicate

    async def test_a_url_is_registered_once_even_without_a_prior_check(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer))
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await tx.endpoints.add(new_endpoint(customer, url_key=endpoint.url_key))

    async def test_two_registrations_of_one_url_are_one_endpoint(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        wanted = [
            new_endpoint(customer, url="https://a.example/", url_key="https://a.example/") for _ in "ab"
        ]
        first, second = await asyncio.gather(*(register(rig, endpoint) for endpoint in wanted))
        assert first == second
        assert first in wanted

    async def test_saving_writes_what_an_update_may_change_and_nothing_else(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer))
        changed = evolve(
            endpoint,
            url="https://elsewhere.example",
            url_key="https://elsewhere.example",
            created_by="creator",
            description=None,
            event_types=(EventKind.CREDIT_LOW,),
            state=EndpointState.DISABLED,
            consecutive_failures=20,
            disabled_at=AT,
            secret="whsec_new",
            previous_secret="whsec_old",
            previous_secret_until=AT,
        )
        await save_endpoint(rig, changed)
        kept = evolve(changed, url=endpoint.url, url_key=endpoint.url_key, created_by=endpoint.created_by)
        assert await _load(rig, endpoint) == kept
        await save_endpoint(rig, evolve(kept, previous_secret=None, previous_secret_until=None))
        assert await _load(rig, endpoint) == evolve(kept, previous_secret=None, previous_secret_until=None)

    async def test_pausing_holds_what_waits_and_resuming_releases_it(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer))
        await top_up(rig, customer, 5, "INV-1", KIND)
        await save_endpoint(rig, pause(endpoint))
        assert await top_up(rig, customer, 5, "INV-2", KIND) == 0
        assert await _statuses(rig, customer) == [DeliveryStatus.HELD] * 2
        await save_endpoint(rig, resume(pause(endpoint)))
        assert await release(rig, endpoint) == 2
        found = (await rig.deliveries(customer.account_id)).values()
        assert {one.status for one in found} == {DeliveryStatus.PENDING}
        assert all(one.next_attempt_at is not None and one.held_at is None for one in found)

    async def test_pausing_leaves_other_endpoints_alone(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer))
        other = await register(rig, new_endpoint(customer))
        await top_up(rig, customer, 5, "INV-1", KIND)
        await save_endpoint(rig, pause(endpoint))
        found = (await rig.deliveries(customer.account_id)).values()
        assert {one.endpoint_id: one.status for one in found} == {
            endpoint.id: DeliveryStatus.HELD,
            other.id: DeliveryStatus.PENDING,
        }

    async def test_only_subscribers_get_a_delivery(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer, KIND, EventKind.CREDIT_LOW))
        await register(rig, new_endpoint(customer, EventKind.MEETING_ENDED))
        await register(rig, new_endpoint(other))
        assert await top_up(rig, customer, 5, "INV-1", KIND, EventKind.NOTE_FAILED) == 1
        (delivery,) = (await rig.deliveries(customer.account_id)).values()
        assert (delivery.endpoint_id, delivery.event_kind, delivery.created_at) == (endpoint.id, KIND, AT)
        assert delivery.id.version == 7
        assert await rig.deliveries(other.account_id) == {}
