"""Deliveries that no subscription decided: a test event, and an earlier delivery again."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import pause
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.testing.contracts.outbox import BAD, GOOD, claim, outbox, post_again, post_test, record
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    new_endpoint,
    new_id,
    open_customer,
    register,
    remove_endpoint,
    save_endpoint,
    top_up,
)

TEST = EventKind.WEBHOOK_TEST


@pytest.mark.asyncio
class EndpointPosting:
    """A part of `EndpointRepositoryContract`."""

    async def test_a_post_reaches_its_endpoint_though_it_did_not_subscribe(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        posted = await post_test(rig, endpoint, note="Rapat ✓")
        assert posted is not None
        assert (posted.status, posted.endpoint_id) == (DeliveryStatus.PENDING, endpoint.id)
        assert await rig.deliveries(customer.account_id) == {posted.id: posted}
        ((claimed,), _) = await claim(rig)
        assert (claimed.delivery_id, claimed.event_id) == (posted.id, posted.event_id)
        assert (claimed.event_kind, claimed.url, claimed.secret) == (
            TEST.value,
            endpoint.url,
            endpoint.secret,
        )
        assert "Rapat ✓" in claimed.body.decode()

    @pytest.mark.parametrize("cause", [None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
    async def test_a_post_has_the_cause_of_its_event(self, rig: StoreRig, cause: str | None) -> None:
        _, endpoint = await outbox(rig, 0)
        posted = await post_test(rig, endpoint, cause)
        ((claimed,), lease) = await claim(rig)
        assert claimed.cause == cause
        await record(rig, claimed, lease.token, GOOD)
        assert posted is not None
        await post_again(rig, endpoint, posted.id)
        ((again,), _) = await claim(rig)
        assert again.cause == cause

    async def test_a_post_reaches_no_other_subscriber(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        await register(rig, new_endpoint(customer, TEST))
        assert await post_test(rig, endpoint) is not None
        (delivery,) = (await rig.deliveries(customer.account_id)).values()
        assert delivery.endpoint_id == endpoint.id

    async def test_a_post_to_an_inactive_endpoint_is_held(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        await save_endpoint(rig, pause(endpoint))
        posted = await post_test(rig, endpoint)
        assert posted is not None
        assert posted.status is DeliveryStatus.HELD
        assert await rig.deliveries(customer.account_id) == {posted.id: posted}

    async def test_posting_again_sends_the_same_bytes_in_a_delivery_of_its_own(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        ((first,), lease) = await claim(rig)
        assert await record(rig, first, lease.token, GOOD)
        before = (await rig.deliveries(customer.account_id))[first.delivery_id]
        posted = await post_again(rig, endpoint, first.delivery_id)
        assert posted is not None
        assert await rig.deliveries(customer.account_id) == {before.id: before, posted.id: posted}
        ((second,), lease) = await claim(rig)
        assert (second.delivery_id, second.event_id) == (posted.id, first.event_id)
        assert (second.body, second.event_kind) == (first.body, first.event_kind)
        assert await record(rig, second, lease.token, BAD)
        assert (await rig.deliveries(customer.account_id))[before.id] == before

    async def test_a_view_returns_the_event_and_its_target(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        (earlier,) = (await rig.deliveries(customer.account_id)).values()
        async with rig.store.begin() as tx:
            view = await tx.endpoints.load_for_posting(customer.account_id, endpoint.id, earlier.id)
            bare = await tx.endpoints.load_for_posting(customer.account_id, endpoint.id)
        assert view is not None
        assert bare is not None
        assert (view.endpoint, view.earlier) == (endpoint, earlier)
        assert (bare.endpoint, bare.earlier) == (endpoint, None)
        assert abs((view.now - rig.now()).total_seconds()) < 60
        assert abs((bare.now - rig.now()).total_seconds()) < 60

    async def test_what_is_not_the_endpoints_is_not_there(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        (earlier,) = await rig.deliveries(customer.account_id)
        second = await register(rig, new_endpoint(customer))
        foreign = await open_customer(rig)
        async with rig.store.begin() as tx:
            load = tx.endpoints.load_for_posting
            assert await load(customer.account_id, second.id, earlier) is None
            assert await load(customer.account_id, endpoint.id, new_id()) is None
            assert await load(customer.account_id, new_id()) is None
            assert await load(foreign.account_id, endpoint.id) is None
            assert await load(foreign.account_id, endpoint.id, earlier) is None

    async def test_an_event_that_is_gone_is_not_posted_again(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        posted = await post_test(rig, endpoint)
        assert posted is not None
        async with rig.store.begin() as tx:
            lost = evolve(posted, id=new_id(), event_id=new_id())
            assert not await tx.endpoints.post_again(lost)
        assert await rig.deliveries(customer.account_id) == {posted.id: posted}

    async def test_an_event_is_written_once(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        posted = await post_test(rig, endpoint)
        assert posted is not None
        event = Event(posted.event_id, customer.account_id, TEST, AT, {})
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await tx.endpoints.post_event(event, evolve(posted, id=new_id()))
        assert await rig.deliveries(customer.account_id) == {posted.id: posted}

    async def test_a_post_that_races_with_a_pause_does_not_stay_due(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        (earlier,) = await rig.deliveries(customer.account_id)
        await asyncio.gather(
            post_test(rig, endpoint), post_again(rig, endpoint, earlier), save_endpoint(rig, pause(endpoint)),
            post_test(rig, endpoint), post_again(rig, endpoint, earlier),
        )  # fmt: skip
        found = (await rig.deliveries(customer.account_id)).values()
        assert [one.status for one in found] == [DeliveryStatus.HELD] * 5

    async def test_a_post_that_races_with_a_removal_leaves_nothing_that_waits(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        (earlier,) = await rig.deliveries(customer.account_id)
        await asyncio.gather(
            post_test(rig, endpoint), post_again(rig, endpoint, earlier), remove_endpoint(rig, endpoint),
            post_test(rig, endpoint), post_again(rig, endpoint, earlier),
        )  # fmt: skip
        assert await rig.deliveries(customer.account_id) == {}

    async def test_a_new_secret_signs_what_waits(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        await save_endpoint(rig, evolve(endpoint, secret="whsec_new"))
        await top_up(rig, customer, 5, "later", KIND)
        assert [one.secret for one in (await claim(rig))[0]] == ["whsec_new"] * 2

    @pytest.mark.parametrize(("hours", "signs"), [(1, True), (-1, False)])
    async def test_the_previous_secret_signs_until_its_end(
        self, rig: StoreRig, hours: int, signs: bool
    ) -> None:
        _, endpoint = await outbox(rig)
        until = rig.now() + timedelta(hours=hours)
        await save_endpoint(
            rig,
            evolve(endpoint, secret="whsec_new", previous_secret="whsec_old", previous_secret_until=until),
        )
        ((claimed,), _) = await claim(rig)
        assert (claimed.secret, claimed.previous_secret) == ("whsec_new", "whsec_old" if signs else None)
