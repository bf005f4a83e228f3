"""What a store counts of the meetings that were made for an account in a day."""

import asyncio
from datetime import timedelta

import pytest

from meetcore.domain.meetings.hosts import DayCreations
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    finish_cancelling,
    new_host,
    open_customer,
    query_of,
    reserved,
    scheduled,
    start_cancelling,
)


async def _creations(rig: StoreRig, customer: Customer, spec: MeetingSpec) -> DayCreations | None:
    async with rig.store.begin() as tx:
        return (await tx.meetings.load_creation(query_of(customer, spec))).creations


@pytest.mark.asyncio
class DayCreationsContract:
    """A part of `MeetingRepositoryContract`."""

    async def test_what_an_account_has_made_in_a_day_is_counted_on_hosts_with_the_seats(
        self, rig: StoreRig
    ) -> None:
        await rig.put_hosts(new_host(10, max_concurrent=9), new_host(50, max_concurrent=9))
        one, other = await open_customer(rig, 100), await open_customer(rig, 100)
        small, large = MeetingSpec(per_day=5), MeetingSpec(per_day=5, seats=40)
        for customer, spec in ((one, small), (one, small), (one, large), (other, small)):
            await reserved(rig, customer, spec)
        assert await _creations(rig, one, small) == DayCreations(used=3, left=6)
        assert await _creations(rig, one, large) == DayCreations(used=1, left=4)
        assert await _creations(rig, other, small) == DayCreations(used=1, left=6)
        assert await _creations(rig, other, large) == DayCreations(used=0, left=4)
        assert await _creations(rig, one, MeetingSpec(per_day=5, seats=60)) == DayCreations(used=0, left=0)
        assert await _creations(rig, one, MeetingSpec()) is None

    async def test_what_was_given_up_counts_for_the_account_only_if_it_was_made(self, rig: StoreRig) -> None:
        await rig.put_hosts(new_host(max_concurrent=9))
        customer, spec = await open_customer(rig, 100), MeetingSpec(per_day=5)
        unmade, made = await reserved(rig, customer, spec), await reserved(rig, customer, spec)
        assert await _creations(rig, customer, spec) == DayCreations(used=2, left=3)
        assert await abandon(rig, unmade)
        assert await _creations(rig, customer, spec) == DayCreations(used=1, left=4)
        assert await abandon(rig, made, was_made=True)
        assert await _creations(rig, customer, spec) == DayCreations(used=1, left=4)

    async def test_a_cancelled_meeting_still_counts_for_its_account(self, rig: StoreRig) -> None:
        await rig.put_hosts(new_host())
        customer, spec = await open_customer(rig, 100), MeetingSpec(per_day=5)
        meeting = await scheduled(rig, customer, spec)
        await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        assert await _creations(rig, customer, spec) == DayCreations(used=1, left=4)

    async def test_creations_at_once_of_one_account_are_all_counted(self, rig: StoreRig) -> None:
        await rig.put_hosts(new_host(max_concurrent=20))
        customer, spec = await open_customer(rig, 1000), MeetingSpec(per_day=50)
        await asyncio.gather(*(reserved(rig, customer, spec) for _ in range(8)))
        assert await _creations(rig, customer, spec) == DayCreations(used=8, left=42)

    async def test_hosts_that_cannot_take_a_meeting_have_no_creations_left(self, rig: StoreRig) -> None:
        day = AT.date()
        await rig.put_hosts(
            new_host(is_active=False),
            new_host(unavailable_until=AT + timedelta(seconds=1)),
            new_host(unavailable_until=AT, creations=2, creations_on=day),
            new_host(creations=2, creations_on=day - timedelta(days=1)),
            new_host(creations=3, creations_on=day),
        )
        customer = await open_customer(rig, 100)
        assert await _creations(rig, customer, MeetingSpec(per_day=3)) == DayCreations(used=0, left=4)
