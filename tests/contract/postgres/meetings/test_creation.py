"""Reservations: credits, cap and host held together or not at all, locked or on unchanged funds."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.hosts import DayCreations
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.meetings.views import CreationQuery, LeaseView
from meetcore.domain.money.views import AccountState
from meetcore.ports.queries import CallerIncludes
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Transaction
from meetcore.usecases.meetings.creation import Creation, CreationTerms, claim_unlocked
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    RUNTIME,
    Customer,
    MeetingSpec,
    creation,
    draft,
    is_free,
    load_leased,
    money,
    new_host,
    new_id,
    open_customer,
    provisioning,
    query_of,
    reserved,
    schedule,
    scheduled,
    start_erasure,
    top_up,
)


@pytest.mark.spec("5/8")
async def test_an_unknown_account_makes_no_meetings(rig: PostgresRig) -> None:
    with pytest.raises(NotFound):
        await creation(rig, Customer(new_id(), new_id(), b""))


@pytest.mark.spec("5/8")
async def test_a_key_that_is_not_kept_pays_without_a_cap(rig: PostgresRig) -> None:
    """As the id of the account, which stands for work by hand."""
    account_id = (await open_customer(rig, 100, cap=5)).account_id
    customer = Customer(account_id, account_id, b"")
    await rig.put_hosts(new_host())
    made = await reserved(rig, customer, MeetingSpec(credits=30))
    assert await money(rig, customer) == (100, 30, 0, 30)
    assert await schedule(rig, made)
    assert await money(rig, customer) == (70, 0, 30, 0)


@pytest.mark.spec("5/8")
async def test_the_lease_owner_loads_what_was_reserved(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    host = new_host()
    await rig.put_hosts(host)
    query = query_of(customer, MeetingSpec(key="k"))
    async with rig.store.begin() as tx:
        found = await tx.meetings.load_creation(query)
        made = provisioning(customer, MeetingSpec(key="k"), found, query)
        leased = await tx.meetings.save_provisioning(made)
    assert leased is not None
    view = await load_leased(rig, leased)
    assert view == leased
    assert view is not None
    assert (view.meeting, view.hold, view.claim) == (made.meeting, made.hold, made.claim)
    assert (view.funds, view.usage, view.charge) == (made.funds, made.usage, None)
    assert view.provider_user_id == host.provider_user_id
    assert await load_leased(rig, leased, new_id()) is None


@pytest.mark.spec("5/8")
async def test_a_read_after_a_lock_wait_returns_what_the_lock_holder_wrote(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(), new_host(), cap=50)
    spec = MeetingSpec(key="k", credits=30)
    query = query_of(customer, spec)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query)
        waiting = asyncio.create_task(creation(rig, customer, spec))
        made = provisioning(customer, spec, view, query)
        await rig.until_lock_contended()
        assert await tx.meetings.save_provisioning(made)
    loaded = await waiting
    assert (loaded.funds, loaded.usage) == (made.funds, made.usage)
    assert loaded.idempotency.record is not None
    assert loaded.idempotency.record.subject_id == made.meeting.id
    assert made.meeting.host_id not in {host.id for host in loaded.free_hosts}


async def _creations(rig: PostgresRig, customer: Customer, spec: MeetingSpec) -> DayCreations | None:
    return (await rig.alone.meetings.load_creation(query_of(customer, spec))).creations


@pytest.mark.spec("5/8")
async def test_what_an_account_has_made_in_a_day_is_counted_on_hosts_with_the_seats(rig: PostgresRig) -> None:
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


@pytest.mark.spec("5/8")
async def test_creations_at_once_of_one_account_are_all_counted(rig: PostgresRig) -> None:
    await rig.put_hosts(new_host(max_concurrent=20))
    customer, spec = await open_customer(rig, 1000), MeetingSpec(per_day=50)
    await asyncio.gather(*(reserved(rig, customer, spec) for _ in range(8)))
    assert await _creations(rig, customer, spec) == DayCreations(used=8, left=42)


@pytest.mark.spec("5/8")
async def test_hosts_that_cannot_take_a_meeting_have_no_creations_left(rig: PostgresRig) -> None:
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


async def state_of(rig: PostgresRig, customer: Customer) -> AccountState:
    """The account as a creation reads it with its caller."""
    caller = await rig.queries.find_caller(customer.digest, CallerIncludes(state_on=cap_day(AT)))
    assert caller is not None
    assert caller.state is not None
    return caller.state


async def reserve_on(
    rig: PostgresRig,
    customer: Customer,
    spec: MeetingSpec,
    state: AccountState,
    query: CreationQuery | None = None,
) -> LeaseView | None:
    """Reserve on an account as it was read; `None` where that does not do."""
    async with rig.store.at_once() as tx:
        done = await _claim(tx, customer, spec, state, query)
    return None if done is None else done[0]


async def _claim(
    tx: Transaction,
    customer: Customer,
    spec: MeetingSpec,
    state: AccountState,
    query: CreationQuery | None = None,
) -> tuple[LeaseView, AccountState] | None:
    terms = CreationTerms(spec.lease_s, orphan_window_s=spec.orphan_window_s)
    lease, meeting = Lease(new_id(), spec.lease_s), draft(customer, spec, None)
    query = query or query_of(customer, spec)
    return await claim_unlocked(tx, Creation(RUNTIME, meeting, query, spec.request, terms), state, lease)


async def test_it_is_reserved_as_under_the_lock(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, cap=50)
    used, fresh, larger = new_host(uses=5), new_host(), new_host(300)
    await rig.put_hosts(used, larger, fresh)
    made = await reserve_on(rig, customer, MeetingSpec(credits=30, key="k"), await state_of(rig, customer))
    assert made is not None
    assert (made.meeting.host_id, made.provider_user_id) == (fresh.id, fresh.provider_user_id)
    assert await money(rig, customer) == (100, 30, 0, 30)
    assert await rig.holds(customer.account_id) == [30]
    assert fresh.used(AT) in await rig.registry.list_hosts()
    assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) == made.meeting
    assert made == await load_leased(rig, made)
    assert await schedule(rig, made) is not None
    assert await money(rig, customer) == (70, 0, 30, 0)


async def test_an_account_that_has_changed_is_left_alone(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(), new_host(), cap=50)
    state = await state_of(rig, customer)
    await top_up(rig, customer, 5, "INV-1")
    assert await reserve_on(rig, customer, MeetingSpec(), state) is None
    state = await state_of(rig, customer)
    async with rig.store.begin() as tx:
        await tx.registry.load_key(customer.key_id)
        await tx.registry.set_daily_cap(customer.key_id, 1)
    assert await reserve_on(rig, customer, MeetingSpec(), state) is None
    assert await money(rig, customer) == (105, 0, 0, 0)
    assert await is_free(rig, customer)


async def test_what_is_known_of_the_key_is_decided_under_the_lock(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(), new_host(), new_host())
    spec = MeetingSpec(key="k")
    await reserved(rig, customer, spec)
    assert await reserve_on(rig, customer, spec, await state_of(rig, customer)) is None
    includes = CallerIncludes(state_on=cap_day(AT), idempotency_key="k")
    caller = await rig.queries.find_caller(customer.digest, includes)
    assert caller is not None
    assert caller.state is None
    await scheduled(rig, customer, MeetingSpec(key="paid"))
    query = evolve(
        query_of(customer, MeetingSpec(key="new")),
        operation=query_of(customer, MeetingSpec(key="paid")).operation,
    )
    assert (
        await reserve_on(rig, customer, MeetingSpec(key="new"), await state_of(rig, customer), query) is None
    )
    assert await rig.holds(customer.account_id) == [10]


async def test_an_account_that_is_to_be_erased_makes_no_meetings(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await start_erasure(rig, customer.account_id)
    assert await reserve_on(rig, customer, MeetingSpec(), await state_of(rig, customer)) is None
    assert await rig.holds(customer.account_id) == []


async def test_without_a_free_host_nothing_is_written(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await reserved(rig, await open_customer(rig, 100), MeetingSpec())
    state = await state_of(rig, customer)
    assert await reserve_on(rig, customer, MeetingSpec(key="k"), state) is None
    assert await state_of(rig, customer) == state
    later = MeetingSpec(MeetingSpec().end_at)
    assert await reserve_on(rig, customer, later, state) is not None


async def test_of_many_on_one_state_one_is_written(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, *(new_host() for _ in range(8)))
    state = await state_of(rig, customer)
    tries = [reserve_on(rig, customer, MeetingSpec(key=f"k{n}"), state) for n in range(8)]
    assert sum(made is not None for made in await asyncio.gather(*tries)) == 1
    assert await money(rig, customer) == (100, 10, 0, 10)


async def test_accounts_that_reserve_at_once_share_no_slot(rig: PostgresRig) -> None:
    hosts = [new_host() for _ in range(3)]
    await rig.put_hosts(*hosts)
    customers = [await open_customer(rig, 100) for _ in range(8)]
    states = [await state_of(rig, customer) for customer in customers]
    made = await asyncio.gather(
        *(
            reserve_on(rig, customer, MeetingSpec(), state)
            for customer, state in zip(customers, states, strict=True)
        )
    )
    taken = [view.meeting.host_id for view in made if view is not None]
    assert 1 <= len(taken) == len(set(taken)) <= 3
    uses = {host.id: host.uses for host in await rig.registry.list_hosts()}
    assert {host.id: uses[host.id] for host in hosts} == {host.id: int(host.id in taken) for host in hosts}


async def test_under_the_lock_one_state_follows_from_the_other(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(), new_host(), cap=50)
    before = await state_of(rig, customer)
    async with rig.store.begin() as tx:
        state = await tx.meetings.load_state(customer.account_id, customer.key_id, cap_day(AT))
        assert state == evolve(before, version=None)
        for key in ("one", "other"):
            done = await _claim(tx, customer, MeetingSpec(key=key), state)
            assert done is not None
            state = done[1]
    assert await money(rig, customer) == (100, 20, 0, 20)
    assert evolve(await state_of(rig, customer), version=None) == state
