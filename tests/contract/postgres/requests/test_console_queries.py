"""Reads of the console: search, pages of accounts, liability, bookings and queues."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from enum import StrEnum
from random import Random
from uuid import UUID

import pytest

from meetcore.domain.ids import instant_of
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members.roles import Role
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.money.views import MonthTotal
from meetcore.domain.records.pages import AccountPage, AccountSearch, HostBooking, QueueName, Queues
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.requests.views import NewAccount
from meetcore.domain.webhooks.deliveries import Attempt, DeliveryStatus
from tests.support.outbox import claim, outbox, record
from tests.support.postgres_rig import PostgresRig
from tests.support.records import post, put_member
from tests.support.transactions import (
    AT,
    KIND,
    Customer,
    MeetingSpec,
    adjust,
    email_of,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    remove_endpoint,
    reserved,
    rolled,
    scheduled,
    start_cancelling,
    top_up,
)


async def _found(rig: PostgresRig, limit: int = 9, **wanted: object) -> list[UUID]:
    listed = await rig.queries.search_accounts(AccountSearch(**wanted), limit)  # type: ignore[arg-type]
    return [account.id for account in listed]


async def _page(rig: PostgresRig, account_id: UUID, keys: int = 9, last: int = 9) -> AccountPage:
    page = await rig.queries.find_account_page(account_id, keys, last)
    assert page is not None
    return page


async def test_accounts_are_found_by_the_beginning_of_address_or_name(rig: PostgresRig) -> None:
    ids = [new_id() for _ in range(3)]
    mark = f"T{ids[0].hex}"
    names = [f"{mark} Maju", f"{mark} Mundur", f"Toko {mark}"]
    for id_, name in zip(ids, names, strict=True):
        account = NewAccount(id_, new_id(), email_of(id_), name, 0, AT)
        await rig.alone.registry.add_account(account)
    assert await _found(rig, text=mark.lower()) == [ids[1], ids[0]]
    assert await _found(rig, text=f"{mark} MU") == [ids[1]]
    assert await _found(rig, text=mark, limit=1) == [ids[1]]
    assert await _found(rig, text=email_of(ids[2])[:20].upper()) == [ids[2]]
    assert await _found(rig, text=f"{mark}%") == await _found(rig) == []
    assert [one.id for one in await rig.queries.search_accounts(AccountSearch(id=ids[0]), 9)] == [ids[0]]
    assert await rig.registry.find_account(ids[0]) in await rig.queries.search_accounts(
        AccountSearch(text=mark), 9
    )


async def test_accounts_are_found_by_a_member(rig: PostgresRig) -> None:
    first, second = await open_customer(rig), await open_customer(rig)
    user = await put_member(rig, first.account_id)
    await put_member(rig, second.account_id, Role.VIEWER, user)
    both = [second.account_id, first.account_id]
    assert await _found(rig, text=user.email.upper()) == both
    assert await _found(rig, id=user.id) == both
    assert await _found(rig, text=user.email[:-1]) == []


async def test_an_account_is_found_by_what_belongs_to_it(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
    await rig.put_hosts(new_host(max_concurrent=9))
    meeting = await scheduled(rig, customer)
    await scheduled(rig, other)
    _, endpoint = await outbox(rig, 0)
    event = await post(rig, endpoint, KIND, AT)
    for id_, account_id in (
        (customer.account_id, customer.account_id),
        (customer.key_id, customer.account_id),
        (meeting.id, customer.account_id),
        (event.id, endpoint.account_id),
    ):
        assert await _found(rig, id=id_, id_made_at=instant_of(id_)) == [account_id]
    assert await _found(rig, id=new_id(), id_made_at=AT) == []


async def test_an_account_is_found_by_a_key_or_its_end(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    end = new_id().hex[-8:]
    for each in (customer, other):
        key = ApiKey(new_id(), each.account_id, (), None, AT, last_four=end)
        await rig.alone.registry.add_key(key, key.id.bytes * 2)
    assert await _found(rig, last_four=end) == [other.account_id, customer.account_id]
    assert await _found(rig, last_four=end.upper() + "-") == []
    assert await _found(rig, key_digest=customer.digest) == [customer.account_id]
    assert await _found(rig, key_digest=new_id().bytes * 2) == []


async def test_a_page_has_what_belongs_to_the_account(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, cap=50)
    account_id = customer.account_id
    assert await rig.queries.find_account_page(new_id(), 9, 9) is None
    user = await put_member(rig, account_id)
    await rolled(rig, customer)
    await adjust(rig, customer, -30, "a slip")
    page = await _page(rig, account_id)
    assert page.account == await rig.registry.find_account(account_id)
    assert page.members == await rig.queries.list_members(account_id)
    assert [each.user for each in page.members] == [user]
    assert page.keys == await rig.registry.list_keys(account_id)
    assert [(each.kind, each.amount, each.balance_after) for each in page.entries] == [
        (TransferKind.ADJUSTMENT, -30, 70),
        (TransferKind.TOPUP, 100, 100),
    ]
    assert page.entries[1].reference_id == "opening"
    assert page.entries[1].at == AT
    assert page.deliveries == []


async def test_a_delivery_is_shown_with_its_last_attempt(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 1)
    [line] = (await _page(rig, customer.account_id)).deliveries
    assert (line.status, line.attempts_made, line.url) == (DeliveryStatus.PENDING, 0, endpoint.url)
    assert (line.last_status_code, line.last_error) == (None, None)
    [claimed], lease = await claim(rig)
    assert await record(rig, claimed, lease.token, Attempt(AT, 5, 500, "bad_status"))
    [line] = (await _page(rig, customer.account_id)).deliveries
    assert (line.attempts_made, line.last_status_code, line.last_error) == (1, 500, "bad_status")
    found = await rig.queries.find_delivery(customer.account_id, endpoint.id, line.id)
    assert found is not None
    assert (line.event_id, line.event_kind) == (found.delivery.event_id, found.delivery.event_kind)
    assert (line.created_at, line.next_attempt_at) == (
        found.delivery.created_at,
        found.delivery.next_attempt_at,
    )
    await top_up(rig, customer, 1, "another")
    await remove_endpoint(rig, endpoint)
    assert {each.url for each in (await _page(rig, customer.account_id)).deliveries} <= {None}


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_owed_and_moved_by_month_agrees_with_the_ledger(rig: PostgresRig, seed: int) -> None:
    chance = Random(seed)
    await rig.put_hosts(new_host(max_concurrent=99))
    before, months_before = await rig.queries.find_liability()
    customers = [await open_customer(rig, chance.randrange(50, 99)) for _ in range(2)]
    for number in range(chance.randrange(1, 12)):
        await _move(rig, chance.choice(customers), number, chance)
    await reserved(rig, customers[0], MeetingSpec(credits=1))
    after, months_after = await rig.queries.find_liability()
    entries = [entry for each in customers for entry in await rig.entries(each.account_id)]
    accounts = [await rig.registry.find_account(each.account_id) for each in customers]
    assert after.accounts - before.accounts == 2
    assert after.balance - before.balance == sum(each.balance for each in accounts)
    assert after.balance - before.balance == sum(entry.amount for entry in entries)
    assert after.held - before.held == sum(each.held for each in accounts) == 1
    assert after.debt - before.debt == -sum(min(each.balance, 0) for each in accounts)
    expected: Totals = Counter()
    for entry in entries:
        month = cap_day(entry.at).replace(day=1)
        expected[month, entry.transfer.kind, "credits"] += entry.amount
        expected[month, entry.transfer.kind, "entries"] += 1
    moved = _counted(months_after)
    moved.subtract(_counted(months_before))
    assert {key: n for key, n in moved.items() if n} == {key: n for key, n in expected.items() if n}


async def test_bookings_are_the_meetings_that_occupy_hosts_in_a_range(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    host = new_host(max_concurrent=9)
    await rig.put_hosts(host)
    first = await scheduled(rig, customer)
    gone = await scheduled(rig, customer)
    await finish_cancelling(rig, gone, await start_cancelling(rig, gone))
    [booking] = await rig.queries.list_bookings(
        first.start_at - timedelta(days=1), first.end_at + timedelta(days=1), 9
    )
    assert booking == HostBooking(
        host.id, customer.account_id, "A Customer", first.id, first.title, first.start_at, first.end_at
    )
    second = timedelta(seconds=1)
    for begins_at, ends_at, is_in in (
        (first.start_at, first.start_at + second, True),
        (first.end_at - second, first.end_at + second, True),
        (first.end_at, first.end_at + second, False),
        (first.start_at - second, first.start_at, False),
    ):
        assert len(await rig.queries.list_bookings(begins_at, ends_at, 9)) == is_in
    await scheduled(rig, customer)
    assert len(await rig.queries.list_bookings(first.start_at, first.end_at, 1)) == 1


async def test_a_queue_has_what_is_due_and_since_when(rig: PostgresRig) -> None:
    before_it = rig.now()
    empty = await rig.queries.find_queues()
    slack = timedelta(seconds=5)
    assert before_it - slack < empty.now < rig.now() + slack
    assert {each.name for each in empty.queues} == set(QueueName)
    before = _due(empty)
    customer, _ = await outbox(rig, 2)
    await rig.put_hosts(new_host(max_concurrent=9))
    await top_up(rig, customer, 100, "more")
    await reserved(rig, customer, MeetingSpec(lease_s=-60, orphan_window_s=0.0))
    await reserved(rig, customer, MeetingSpec(lease_s=60, orphan_window_s=60.0))
    found = await rig.queries.find_queues()
    due = _due(found)
    assert due[QueueName.DELIVERIES] - before[QueueName.DELIVERIES] == 2
    assert due[QueueName.MEETINGS] - before[QueueName.MEETINGS] == 1
    assert due[QueueName.REMOVALS] - before[QueueName.REMOVALS] == 1
    for each in found.queues:
        assert (each.oldest_due_at is None) == (each.due == 0)
        assert each.oldest_due_at is None or each.oldest_due_at <= found.now
    claimed, _ = await claim(rig)
    assert len(claimed) >= 2
    assert _due(await rig.queries.find_queues())[QueueName.DELIVERIES] == 0, "claimed for a while"


def _due(found: Queues) -> dict[QueueName, int]:
    return {each.name: each.due for each in found.queues}


Totals = Counter[tuple[date, StrEnum, str]]


async def _move(rig: PostgresRig, customer: Customer, number: int, chance: Random) -> None:
    """Move some credits at an instant of the next months, in any way that there is."""
    at = AT + timedelta(hours=chance.randrange(2500))
    match chance.randrange(4):
        case 0:
            await top_up(rig, customer, chance.randrange(1, 50), f"INV-{number}")
        case 1:
            await adjust(rig, customer, chance.choice((-3, 2, 5)), f"slip-{number}", at)
        case 2:
            await scheduled(rig, customer, MeetingSpec(credits=chance.randrange(1, 4)))
        case _:
            meeting = await scheduled(rig, customer, MeetingSpec(credits=1))
            await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))


def _counted(totals: Sequence[MonthTotal]) -> Totals:
    found: Totals = Counter()
    for each in totals:
        found[each.month, each.kind, "credits"] += each.credits
        found[each.month, each.kind, "entries"] += each.entries
    return found
