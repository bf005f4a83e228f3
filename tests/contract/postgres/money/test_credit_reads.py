"""Reads of credits: the ledger in pages, totals, and the usage under one cap."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from itertools import product

import pytest

from meetcore.domain.errors import CreditCapExceeded
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.meetings.views import LeaseView
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, TransferKind
from meetcore.domain.money.statements import DayTotal
from meetcore.domain.money.views import EntriesOfKey, TransactionFilter
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes
from tests.support.note_transactions import claim_notes, load_note_creation, queued, recorded, settle
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    adjust,
    creation,
    finish_cancelling,
    money,
    new_host,
    new_id,
    open_customer,
    reserve,
    reserved,
    rolled,
    schedule,
    scheduled,
    start_cancelling,
    top_up,
)

TODAY = cap_day(AT)


async def _found(rig: PostgresRig, customer: Customer, includes: CallerIncludes = NO_INCLUDES) -> Caller:
    caller = await rig.queries.find_caller(customer.digest, includes)
    assert caller is not None
    return caller


async def _customer_with_history(rig: PostgresRig) -> Customer:
    """A customer with entries of every kind that a store can have by now, and an open hold."""
    customer = await open_customer(rig, 100, new_host(), new_host(), new_host())
    await adjust(rig, customer, 7, "ticket:1")
    cancelled = await scheduled(rig, customer, MeetingSpec())
    await adjust(rig, customer, -3, "ticket:2")
    await scheduled(rig, customer, MeetingSpec(credits=20))
    await finish_cancelling(rig, cancelled, await start_cancelling(rig, cancelled))
    await top_up(rig, customer, 40, "second")
    await reserved(rig, customer, MeetingSpec(credits=5))
    return customer


async def test_a_listed_entry_has_the_name_of_its_key(rig: PostgresRig) -> None:
    key = ChainKey.of(bytes(32))
    customer = await open_customer(rig)
    await top_up(rig, customer, 50, "keyed", key=key)
    await top_up(rig, customer, 5, "bare")
    found = await rig.queries.list_transactions(customer.account_id, TransactionFilter(), 9, None)
    assert [each.key_id for each in found] == [b"", key.id]


@pytest.mark.parametrize("kind", [None, *TransferKind])
async def test_the_pages_of_each_kind_meet_without_gap(rig: PostgresRig, kind: TransferKind | None) -> None:
    customer = await _customer_with_history(rig)
    whole = await rig.queries.list_transactions(customer.account_id, TransactionFilter(), 50, None)
    expected = [each for each in whole if kind in (None, each.transfer.kind)]
    found: list[Entry] = []
    while page := await rig.queries.list_transactions(
        customer.account_id, TransactionFilter(kind), 2, found[-1].number if found else None
    ):
        assert len(page) <= 2
        found += page
    assert found == expected


async def test_a_range_of_time_is_from_its_first_entry_to_the_one_before_its_end(rig: PostgresRig) -> None:
    """Several entries of one instant, days without any, and every bound on, before and after one."""
    customer = await open_customer(rig)
    await adjust(rig, await open_customer(rig), 9, "another's", AT + timedelta(days=2))
    days = (0, 0, 0, 1, 4, 4, 9)
    for number, day in enumerate(days, start=1):
        await adjust(rig, customer, number, f"ticket:{number}", AT + timedelta(days=day))
    await top_up(rig, customer, 40, "at the time of the last entry")  # asked for at AT
    found = await rig.queries.list_transactions(customer.account_id, TransactionFilter(), 50, None)
    whole = list(found)
    assert len(whole) == 8
    moment = timedelta(microseconds=1)
    bounds: list[datetime | None] = [None]
    for day in (-1, *sorted(set(days))):
        bounds += [AT + timedelta(days=day) + shift for shift in (-moment, timedelta(), moment)]
    kinds = (None, TransferKind.ADJUSTMENT, TransferKind.MEETING_REFUND)
    for first, last, kind in product(bounds, bounds, kinds):
        expected = [
            each
            for each in whole
            if kind in (None, each.transfer.kind)
            and (first is None or first <= each.at)
            and (last is None or each.at < last)
        ]
        wanted = TransactionFilter(kind, first, last)
        found = await rig.queries.list_transactions(customer.account_id, wanted, 50, None)
        assert list(found) == expected, wanted
        below = [each for each in expected if each.number < 6]
        found = await rig.queries.list_transactions(customer.account_id, wanted, 2, 6)
        assert list(found) == below[:2], wanted
    filters = TransactionFilter(None, AT, AT + timedelta(days=9))
    assert list(await rig.queries.list_transactions(new_id(), filters, 50, None)) == []


@pytest.mark.parametrize("looked_at", [2, 5000])
async def test_the_entries_of_a_key_are_found_among_the_next_ones(rig: PostgresRig, looked_at: int) -> None:
    customer = await _customer_with_history(rig)
    account_id, list_ = customer.account_id, rig.queries.list_entries_of_key
    whole = await rig.queries.list_transactions(account_id, TransactionFilter(), 50, None)
    for wanted in (
        TransactionFilter(),
        TransactionFilter(TransferKind.MEETING_CHARGE),
        TransactionFilter(None, AT - timedelta(days=1), AT + timedelta(days=1)),
        TransactionFilter(None, AT + timedelta(days=1), None),
    ):
        named = await rig.queries.list_transactions(account_id, wanted, 50, None)
        expected = [each for each in named if each.transfer.api_key_id == customer.key_id]
        found = await list_(account_id, customer.key_id, wanted, 50, None)
        assert (list(found.entries), found.reached) == (expected, None)
        for each in expected[:1]:
            rest = await list_(account_id, customer.key_id, wanted, looked_at, each.number)
            assert list(rest.entries) == expected[1 : 1 + looked_at]
    assert (await list_(account_id, new_id(), TransactionFilter(), 50, None)) == EntriesOfKey([], None)
    assert whole


async def test_an_entry_counts_on_its_day_in_wib(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    midnight = datetime(2091, 3, 31, 17, tzinfo=UTC)
    await top_up(rig, customer, 9, "before")
    for credits, at in ((-2, midnight - timedelta(microseconds=1)), (7, midnight)):
        await adjust(rig, customer, credits, f"ticket:{credits}", at)
    kind = TransferKind.ADJUSTMENT
    march, april = date(2091, 3, 31), date(2091, 4, 1)
    days = await rig.queries.list_day_totals(customer.account_id, march, april)
    assert list(days) == [DayTotal(march, kind, -2, 1), DayTotal(april, kind, 7, 1)]


async def test_a_meeting_of_the_account_comes_with_it(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 50), await open_customer(rig)
    await rig.put_hosts(new_host())
    meeting = await scheduled(rig, customer)
    includes = CallerIncludes(meeting_id=meeting.id)
    caller = await _found(rig, customer, includes)
    assert caller.load_meeting() == meeting
    assert caller == await _found(rig, customer), "the caller is the same"
    assert (await _found(rig, other, includes)).load_meeting() is None
    assert (await _found(rig, customer, CallerIncludes(meeting_id=new_id()))).load_meeting() is None
    assert await rig.queries.find_caller(bytes(32), includes) is None


async def _usage(rig: PostgresRig, customer: Customer) -> CapUsage:
    """What a new meeting, a new note and the caller read, which must agree."""
    usage = (await creation(rig, customer)).usage
    assert (await load_note_creation(rig, customer, await recorded(rig, customer))).usage == usage
    caller = await rig.queries.find_caller(customer.digest, CallerIncludes(usage_on=TODAY))
    assert caller is not None
    assert caller.usage == usage
    return usage


@pytest.mark.spec("5/7")
async def test_rolled_keys_spend_under_one_cap(rig: PostgresRig) -> None:
    first = await open_customer(rig, 100, new_host(max_concurrent=9), cap=50)
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


@pytest.mark.spec("5/7")
async def test_a_hold_of_before_the_roll_ends_under_the_same_cap(rig: PostgresRig) -> None:
    first = await open_customer(rig, 100, new_host(max_concurrent=9), cap=50)
    made = await reserved(rig, first, MeetingSpec(credits=30))
    await queued(rig, first, price=7)
    second = await rolled(rig, first)
    assert await _usage(rig, second) == CapUsage(second.key_id, TODAY, 0, 37, first.key_id)
    assert await schedule(rig, made)
    (task,) = await claim_notes(rig)
    assert await settle(rig, task, price=2)
    assert await _usage(rig, second) == CapUsage(second.key_id, TODAY, 32, 0, first.key_id)


@pytest.mark.spec("5/7")
async def test_the_ledger_names_the_key_that_paid_and_its_refund_makes_room_for_all(rig: PostgresRig) -> None:
    first = await open_customer(rig, 100, new_host(max_concurrent=9), cap=50)
    second = await rolled(rig, first)
    meeting = await scheduled(rig, second, MeetingSpec(credits=50))
    assert await reserve(rig, first, MeetingSpec(credits=1)) == CreditCapExceeded.code
    await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
    assert await money(rig, first) == (100, 0, 0, 0)
    listed = await rig.queries.list_transactions(first.account_id, TransactionFilter(), 2, None)
    assert [entry.transfer.api_key_id for entry in listed] == [second.key_id] * 2


@pytest.mark.spec("5/7")
async def test_keys_that_spend_at_once_never_pass_the_cap_together(rig: PostgresRig) -> None:
    first = await open_customer(rig, 1000, new_host(max_concurrent=20), cap=50)
    keys = [first, await rolled(rig, first)] * 6
    steps = await asyncio.gather(*(reserve(rig, key, MeetingSpec(credits=10)) for key in keys))
    assert sum(isinstance(step, LeaseView) for step in steps) == 5
    assert steps.count(CreditCapExceeded.code) == 7
    assert await money(rig, first) == (1000, 50, 0, 50)
