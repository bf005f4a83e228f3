"""Records of the operator: accounts, keys and hosts."""

import asyncio
from collections.abc import Awaitable
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.domain.requests.views import NewAccount
from meetcore.usecases.requests.administration import Administration
from tests.support.fakes import FakeNotifier
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    RUNTIME,
    Customer,
    MeetingSpec,
    email_of,
    funds_of,
    new_host,
    new_id,
    open_customer,
    query_of,
    reserved,
    rolled,
)

pytestmark = pytest.mark.spec("5/7")


DAY = timedelta(days=1)


async def _add_key(rig: PostgresRig, account_id: UUID, **fields: Any) -> ApiKey:
    key = evolve(ApiKey(new_id(), account_id, (Scope.CREDITS_READ,), None, AT), **fields)
    await rig.alone.registry.add_key(key, key.id.bytes * 2)
    return key


async def test_accounts_that_asked_are_due_for_a_statement_until_they_were_mailed(rig: PostgresRig) -> None:
    october, november = date(2026, 10, 1), date(2026, 11, 1)
    asked, other = await open_customer(rig), await open_customer(rig)
    async with rig.store.begin() as tx:
        assert (await tx.registry.load_account(asked.account_id)).statements_mailed is None
        await tx.registry.set_statements_mailed(asked.account_id, october)
        due = await tx.registry.find_statements_due(november, 10_000)
        assert asked.account_id in due
        assert other.account_id not in due
        assert asked.account_id not in await tx.registry.find_statements_due(october, 10_000)
        assert len(await tx.registry.find_statements_due(november, 0)) == 0
    assert (await rig.registry.find_account(asked.account_id)).statements_mailed == october
    async with rig.store.begin() as tx:
        await tx.registry.set_statements_mailed(asked.account_id, None)
        assert asked.account_id not in await tx.registry.find_statements_due(november, 10_000)
    with pytest.raises(NotFound):
        await rig.alone.registry.set_statements_mailed(new_id(), None)


@pytest.mark.parametrize(("threshold", "is_low"), [(0, False), (100, True)])
async def test_an_empty_account_counts_as_notified_of_low_credit(
    rig: PostgresRig, threshold: int, is_low: bool
) -> None:
    customer = await open_customer(rig, low_threshold=threshold)
    funds = await funds_of(rig, customer)
    assert (funds.low_threshold, funds.is_low) == (threshold, is_low)


async def test_an_email_address_registered_twice_at_once_belongs_to_one_account(rig: PostgresRig) -> None:
    email = email_of(new_id())
    both = (
        rig.alone.registry.add_account(NewAccount(new_id(), new_id(), email, "B", 0, AT)) for _ in range(8)
    )
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [Conflict] * 7
    assert len(await rig.registry.list_accounts(email, 9)) == 1


async def test_accounts_are_listed_newest_first_and_found(rig: PostgresRig) -> None:
    customers = [await open_customer(rig, 50, low_threshold=7) for _ in range(3)]
    listed = [one.id for one in await rig.registry.list_accounts(None, 3)]
    assert listed == [customer.account_id for customer in reversed(customers)]
    assert len(await rig.registry.list_accounts(None, 2)) == 2
    await rig.put_hosts(new_host())
    await reserved(rig, customers[0], MeetingSpec(credits=10))
    account = await rig.registry.find_account(customers[0].account_id)
    assert (account.balance, account.held, account.low_threshold) == (50, 10, 7)
    assert (account.email, account.full_name) == (email_of(account.id), "A Customer")
    assert (account.created_at, account.suspended_at) == (AT, None)
    (found,) = await rig.registry.list_accounts(account.email.upper(), 9)
    assert found == account
    assert list(await rig.registry.list_accounts("nobody@example.com", 9)) == []


@pytest.mark.parametrize(("threshold", "is_low"), [(40, False), (41, True), (0, False)])
async def test_a_threshold_is_set_against_what_is_available(
    rig: PostgresRig, threshold: int, is_low: bool
) -> None:
    customer = await open_customer(rig, 50, new_host())
    await reserved(rig, customer, MeetingSpec(credits=10))
    await rig.alone.registry.set_low_threshold(customer.account_id, threshold)
    funds = await funds_of(rig, customer)
    assert (funds.low_threshold, funds.is_low) == (threshold, is_low)


async def test_what_is_not_there_is_not_found(rig: PostgresRig) -> None:
    records, id_ = rig.alone.registry, new_id()
    calls: tuple[Awaitable[object], ...] = (
        records.set_low_threshold(id_, 5), _add_key(rig, id_), records.revoke_key(id_, AT),
        records.set_daily_cap(id_, 5), records.set_host_active(id_, is_active=False),
        records.set_host_active(id_, is_active=True),
        records.load_account(id_), records.load_key(id_), records.load_host(id_),
        rig.registry.find_account(id_), records.suspend_account(id_, AT), records.resume_account(id_),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(NotFound):
            await call


async def test_keys_are_listed_newest_first_and_by_account(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    key = await _add_key(
        rig, customer.account_id, daily_cap=7, expires_at=AT + DAY, revoked_at=AT + DAY, name="Kasir",
        last_four="abc_", created_by=new_id(), last_used_at=AT, first_key_id=customer.key_id,
    )  # fmt: skip
    keys = await rig.registry.list_keys(customer.account_id)
    assert [one.id for one in keys] == [key.id, customer.key_id]
    assert keys[0] == key
    every = [one.id for one in await rig.registry.list_keys(None)]
    assert every == sorted(every, reverse=True)
    assert {key.id, customer.key_id, other.key_id} <= set(every)


async def test_a_change_waits_for_a_transaction_that_loaded_the_record(rig: PostgresRig) -> None:
    customer = await open_customer(rig, cap=7)

    async def double() -> None:
        async with rig.store.begin() as tx:
            key = await tx.registry.load_key(customer.key_id)
            assert key.daily_cap is not None
            await tx.registry.set_daily_cap(key.id, key.daily_cap * 2)

    await asyncio.gather(*(double() for _ in range(5)))
    (key,) = await rig.registry.list_keys(customer.account_id)
    assert key.daily_cap == 7 * 2**5


async def test_a_revocation_is_never_put_off(rig: PostgresRig, customer: Customer) -> None:
    assert (await rig.alone.registry.revoke_key(customer.key_id, AT)).revoked_at == AT
    assert (await rig.alone.registry.revoke_key(customer.key_id, AT + DAY)).revoked_at == AT
    (key,) = await rig.registry.list_keys(customer.account_id)
    assert key.revoked_at == AT


async def test_a_cap_is_set_for_all_keys_that_share_it(rig: PostgresRig) -> None:
    customer = await open_customer(rig, cap=50)
    second = await rolled(rig, customer)
    third = await rolled(rig, second)
    other = await _add_key(rig, customer.account_id, daily_cap=9)
    for key, cap in ((third, 7), (customer, None), (second, 0)):
        changed = await rig.alone.registry.set_daily_cap(key.key_id, cap)
        assert (changed.id, changed.daily_cap) == (key.key_id, cap)
        caps = {one.id: one.daily_cap for one in await rig.registry.list_keys(customer.account_id)}
        assert caps.pop(other.id) == 9
        assert caps == dict.fromkeys((customer.key_id, second.key_id, third.key_id), cap)


async def test_the_end_of_a_key_is_never_put_off(rig: PostgresRig, customer: Customer) -> None:
    (key,) = await rig.registry.list_keys(customer.account_id)
    ends = ((AT + DAY, None), (AT + 2 * DAY, AT + 3 * DAY), (None, AT + 4 * DAY), (None, None))
    for expires_at, revoked_at in ends:
        await rig.alone.registry.save_key_end(evolve(key, expires_at=expires_at, revoked_at=revoked_at))
    (stored,) = await rig.registry.list_keys(customer.account_id)
    assert stored == evolve(key, expires_at=AT + DAY, revoked_at=AT + 3 * DAY)


async def test_a_roll_and_a_change_of_the_cap_at_once_leave_one_cap(rig: PostgresRig) -> None:
    customer = await open_customer(rig, cap=50)
    operator = Administration(rig.store, rig.registry, FakeNotifier(), RUNTIME, "mk")
    rolls = [operator.keys.roll(customer.key_id, 1) for _ in range(4)]
    caps = [operator.keys.set_daily_cap(customer.key_id, cap) for cap in (5, 6, 7, 8)]
    await asyncio.gather(*rolls, *caps)
    keys = await rig.registry.list_keys(customer.account_id)
    assert len(keys) == 5
    assert len({key.daily_cap for key in keys}) == 1
    assert {key.cap_key_id for key in keys} == {customer.key_id}


async def test_hosts_are_listed_smallest_first(rig: PostgresRig) -> None:
    hosts = [Host(new_id(), name, capacity) for name, capacity in (("b", 10), ("c", 5), ("a", 10))]
    for host in hosts:
        await rig.alone.registry.add_host(host, AT)
    assert list(await rig.registry.list_hosts()) == [hosts[1], hosts[2], hosts[0]]


async def test_a_provider_user_is_one_host(rig: PostgresRig) -> None:
    host = new_host()
    await rig.alone.registry.add_host(host, AT)
    with pytest.raises(Conflict) as caught:
        await rig.alone.registry.add_host(new_host(provider_user_id=host.provider_user_id), AT)
    assert caught.value.details == {"id": str(host.id)}


async def test_a_new_host_is_active_and_unused(rig: PostgresRig) -> None:
    host = new_host(max_concurrent=2)
    await rig.alone.registry.add_host(evolve(host, uses=9, is_active=False), AT)
    assert list(await rig.registry.list_hosts()) == [host]


async def test_a_disabled_host_keeps_its_meetings_and_gets_no_more(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    host = new_host(max_concurrent=2)
    await rig.alone.registry.add_host(host, AT)
    made = await reserved(rig, customer, MeetingSpec())
    assert await rig.alone.registry.set_host_active(host.id, is_active=False) == evolve(
        host.used(AT), is_active=False
    )
    assert (await rig.alone.registry.set_host_active(host.id, is_active=False)).is_active is False
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query_of(customer, MeetingSpec()))
        assert (list(view.free_hosts), view.is_contended) == ([], False)
        assert await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.token)


async def test_a_digest_is_kept_once(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    with pytest.raises(rig.refusal):
        await rig.alone.registry.add_key(
            ApiKey(new_id(), customer.account_id, (Scope.CREDITS_READ,), None, AT), customer.digest
        )
