"""One daily cap for a key and those that were rolled from it; the ledger names the key that paid."""

import asyncio

import pytest

from meetcore.domain.errors import CreditCapExceeded
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import CapUsage
from meetcore.ports.meetings import LeaseView
from meetcore.ports.queries import CallerIncludes, TransactionFilter
from meetcore.testing.contracts.note_transactions import (
    claim_notes,
    load_note_creation,
    queued,
    recorded,
    settle,
)
from meetcore.testing.contracts.reads import creation, money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    finish_cancelling,
    new_host,
    open_customer,
    reserve,
    reserved,
    rolled,
    schedule,
    scheduled,
    start_cancelling,
)

TODAY = cap_day(AT)


async def _usage(rig: StoreRig, customer: Customer) -> CapUsage:
    """What a new meeting, a new note and the caller read, which must agree."""
    usage = (await creation(rig, customer)).usage
    assert (await load_note_creation(rig, customer, await recorded(rig, customer))).usage == usage
    caller = await rig.queries.find_caller(customer.digest, CallerIncludes(usage_on=TODAY))
    assert caller is not None
    assert caller.usage == usage
    return usage


@pytest.mark.asyncio
class SharedCapContract:
    """Keys that were rolled, in every repository that counts a cap. A part of `StoreContract`."""

    async def test_rolled_keys_spend_under_one_cap(self, rig: StoreRig) -> None:
        first = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host(max_concurrent=9))
        second = await rolled(rig, first)
        third = await rolled(rig, second)
        await scheduled(rig, first, MeetingSpec(credits=30))
        for key in (first, second, third):
            assert await _usage(rig, key) == CapUsage(key.key_id, TODAY, 30, 0, first.key_id)
        assert await reserve(rig, third, MeetingSpec(credits=21)) == CreditCapExceeded.code
        made = await reserved(rig, third, MeetingSpec(credits=20))
        assert await reserve(rig, first, MeetingSpec(credits=1)) == CreditCapExceeded.code
        assert await abandon(rig, made)
        assert await _usage(rig, second) == CapUsage(second.key_id, TODAY, 30, 0, first.key_id)

    async def test_a_hold_of_before_the_roll_ends_under_the_same_cap(self, rig: StoreRig) -> None:
        first = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host(max_concurrent=9))
        made = await reserved(rig, first, MeetingSpec(credits=30))
        await queued(rig, first, price=7)
        second = await rolled(rig, first)
        assert await _usage(rig, second) == CapUsage(second.key_id, TODAY, 0, 37, first.key_id)
        assert await schedule(rig, made)
        (task,) = await claim_notes(rig)
        assert await settle(rig, task, price=2)
        assert await _usage(rig, second) == CapUsage(second.key_id, TODAY, 32, 0, first.key_id)

    async def test_the_ledger_names_the_key_that_paid_and_its_refund_makes_room_for_all(
        self, rig: StoreRig
    ) -> None:
        first = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host(max_concurrent=9))
        second = await rolled(rig, first)
        meeting = await scheduled(rig, second, MeetingSpec(credits=50))
        assert await reserve(rig, first, MeetingSpec(credits=1)) == CreditCapExceeded.code
        await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        assert await money(rig, first) == (100, 0, 0, 0)
        listed = await rig.queries.list_transactions(first.account_id, TransactionFilter(), 2, None)
        assert [entry.transfer.api_key_id for entry in listed] == [second.key_id] * 2

    async def test_keys_that_spend_at_once_never_pass_the_cap_together(self, rig: StoreRig) -> None:
        first = await open_customer(rig, 1000, cap=50)
        await rig.put_hosts(new_host(max_concurrent=20))
        keys = [first, await rolled(rig, first)] * 6
        steps = await asyncio.gather(*(reserve(rig, key, MeetingSpec(credits=10)) for key in keys))
        assert sum(isinstance(step, LeaseView) for step in steps) == 5
        assert steps.count(CreditCapExceeded.code) == 7
        assert await money(rig, first) == (1000, 50, 0, 50)
