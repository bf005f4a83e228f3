"""Recovering deliveries in a store: what failed or expired since a time, once, at a pace."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import HELD_FOR, Delivery, DeliveryStatus, ReleasePace, hold, recover
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.deliveries import Recorded
from meetcore.testing.contracts.outbox import BAD, GOOD, claim, outbox, record, release, sweep
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import new_endpoint, register

ONCE = RetrySchedule(())
LONG = timedelta(hours=1)


async def _recover(rig: StoreRig, endpoint: Endpoint, since: datetime, most: int = 100) -> int:
    async with rig.store.begin() as tx:
        assert await tx.endpoints.load_locked(endpoint.account_id, endpoint.id) == endpoint
        return await tx.deliveries.recover(endpoint.account_id, endpoint.id, since, most)


async def _failed(rig: StoreRig, count: int) -> Endpoint:
    """An endpoint with so many deliveries that failed; no failure counts against it any more."""
    _, endpoint = await outbox(rig, count)
    claimed, lease = await claim(rig)
    for one in claimed:
        assert await record(rig, one, lease.token, BAD, ONCE)
    async with rig.store.begin() as tx:
        await tx.endpoints.save(endpoint)
    return endpoint


async def _there(rig: StoreRig, endpoint: Endpoint) -> Sequence[Delivery]:
    found = (await rig.deliveries(endpoint.account_id)).values()
    return [one for _, one in sorted((one.id, one) for one in found if one.endpoint_id == endpoint.id)]


@pytest.mark.asyncio
class RecoveryContract:
    """A part of `DeliveryRepositoryContract`."""

    async def test_what_failed_is_held_for_release_as_the_domain_decides(self, rig: StoreRig) -> None:
        endpoint = await _failed(rig, 2)
        before = await _there(rig, endpoint)
        assert {one.status for one in before} == {DeliveryStatus.FAILED}
        assert await _recover(rig, endpoint, rig.now() - LONG) == 2
        after = await _there(rig, endpoint)
        assert [
            recover(one, found.held_at or rig.now()) for one, found in zip(before, after, strict=True)
        ] == after
        assert await release(rig, endpoint) == 2
        claimed, lease = await claim(rig)
        assert {one.delivery_id for one in claimed} == {one.id for one in before}
        assert await record(rig, claimed[0], lease.token, GOOD)
        assert await record(rig, claimed[1], lease.token, BAD, ONCE)
        assert sorted(await rig.attempts(endpoint.account_id)) == [1, 1, 2, 2]

    async def test_what_expired_is_recovered(self, rig: StoreRig) -> None:
        _, endpoint = await outbox(rig)
        ((claimed,), _) = await claim(rig)
        long_ago = rig.now() - HELD_FOR - timedelta(seconds=1)
        async with rig.store.begin() as tx:
            (view,) = await tx.deliveries.load_claimed([claimed])
            held = hold(view.delivery, long_ago)
            await tx.deliveries.save_attempts([Recorded(held, BAD)], [view.endpoint], [])
        await sweep(rig)
        (expired,) = await _there(rig, endpoint)
        assert (expired.status, expired.held_at) == (DeliveryStatus.EXPIRED, None)
        assert await _recover(rig, endpoint, rig.now() - LONG) == 1
        (recovered,) = await _there(rig, endpoint)
        assert (recovered.status, recovered.failed_at) == (DeliveryStatus.HELD, None)

    async def test_nothing_else_is_recovered(self, rig: StoreRig) -> None:
        foreign = await _failed(rig, 1)
        customer, endpoint = await outbox(rig, 3)
        other = await register(rig, new_endpoint(customer))
        (done, _, _), lease = await claim(rig, limit=3)
        assert await record(rig, done, lease.token, GOOD)
        before = await _there(rig, endpoint)
        for one in (endpoint, other, evolve(foreign, account_id=customer.account_id)):
            async with rig.store.begin() as tx:
                assert await tx.deliveries.recover(one.account_id, one.id, rig.now() - LONG, 100) == 0
        assert await _there(rig, endpoint) == before
        assert [one.status for one in await _there(rig, foreign)] == [DeliveryStatus.FAILED]

    async def test_what_failed_before_stays(self, rig: StoreRig) -> None:
        endpoint = await _failed(rig, 1)
        (failed,) = await _there(rig, endpoint)
        assert failed.failed_at is not None
        assert await _recover(rig, endpoint, failed.failed_at + timedelta(microseconds=1)) == 0
        assert await _recover(rig, endpoint, failed.failed_at) == 1

    async def test_one_request_recovers_a_bounded_number_and_the_next_the_rest(self, rig: StoreRig) -> None:
        endpoint = await _failed(rig, 5)
        since = rig.now() - LONG
        assert [await _recover(rig, endpoint, since, most=2) for _ in range(4)] == [2, 2, 1, 0]

    async def test_recovering_twice_at_once_sends_nothing_twice(self, rig: StoreRig) -> None:
        endpoint = await _failed(rig, 4)
        since = rig.now() - LONG
        found = await asyncio.gather(*(_recover(rig, endpoint, since) for _ in range(3)))
        assert sorted(found) == [0, 0, 4]
        assert await release(rig, endpoint) == 4
        assert await _recover(rig, endpoint, since) == 0
        assert len((await claim(rig))[0]) == 4

    async def test_what_is_recovered_comes_at_the_pace_of_a_release(self, rig: StoreRig) -> None:
        endpoint = await _failed(rig, 5)
        assert await _recover(rig, endpoint, rig.now() - LONG) == 5
        pace = ReleasePace(2, timedelta(hours=1))
        assert await release(rig, endpoint, pace) == 2
        assert await sweep(rig, pace) == 0, "the first portion is not through"
        due = sorted(
            one.next_attempt_at for one in await _there(rig, endpoint) if one.next_attempt_at is not None
        )
        assert due[1] - due[0] == pace.every
