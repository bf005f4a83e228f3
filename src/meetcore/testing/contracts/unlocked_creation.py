"""A meeting reserved on an account that is not locked: as under the lock, or not at all."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import CapUsage
from meetcore.ports.account_state import AccountState
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, LeaseView, Provisioning
from meetcore.ports.queries import CallerIncludes
from meetcore.testing.contracts.reads import funds_of, is_free, money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    RUNTIME,
    Customer,
    MeetingSpec,
    draft,
    load_leased,
    new_host,
    new_id,
    open_customer,
    query_of,
    reserved,
    schedule,
    scheduled,
    top_up,
)
from meetcore.usecases.reserve_meeting import ReservationTerms, unlocked_provisioning


async def state_of(rig: StoreRig, customer: Customer) -> AccountState:
    """The account as a creation reads it with its caller."""
    caller = await rig.queries.find_caller(customer.digest, CallerIncludes(state_on=cap_day(AT)))
    assert caller is not None
    assert caller.state is not None
    return caller.state


async def reserve_on(
    rig: StoreRig,
    customer: Customer,
    spec: MeetingSpec,
    state: AccountState,
    query: CreationQuery | None = None,
) -> LeaseView | None:
    """Reserve on an account as it was read; `None` where that does not do."""
    query = query or query_of(customer, spec)
    made = _made(customer, spec, state, query)
    async with rig.store.at_once() as tx:
        return await tx.meetings.save_if_unchanged(query, made, state)


def _made(customer: Customer, spec: MeetingSpec, state: AccountState, query: CreationQuery) -> Provisioning:
    terms = ReservationTerms(spec.lease_s, orphan_window_s=spec.orphan_window_s)
    lease, meeting = Lease(new_id(), spec.lease_s), draft(customer, spec, None)
    return unlocked_provisioning(RUNTIME, meeting, query, state, spec.request, terms, lease)


@pytest.mark.asyncio
class UnlockedCreationContract:
    """Reserving without the account's lock. A part of `MeetingRepositoryContract`."""

    async def test_the_state_of_an_account_comes_with_its_caller(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host())
        await reserved(rig, customer, MeetingSpec(credits=30))
        state = await state_of(rig, customer)
        assert state.funds == await funds_of(rig, customer)
        assert state.usage == CapUsage(customer.key_id, cap_day(AT), 0, 30)
        assert state.daily_cap == 50

    async def test_it_is_reserved_as_under_the_lock(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100, cap=50)
        used, fresh, larger = new_host(uses=5), new_host(), new_host(300)
        await rig.put_hosts(used, larger, fresh)
        made = await reserve_on(
            rig, customer, MeetingSpec(credits=30, key="k"), await state_of(rig, customer)
        )
        assert made is not None
        assert (made.meeting.host_id, made.provider_user_id) == (fresh.id, fresh.provider_user_id)
        assert await money(rig, customer) == (100, 30, 0, 30)
        assert await rig.holds(customer.account_id) == [30]
        assert fresh.used(AT) in await rig.registry.list_hosts()
        assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) == made.meeting
        assert made == await load_leased(rig, made)
        assert await schedule(rig, made) is not None
        assert await money(rig, customer) == (70, 0, 30, 0)

    async def test_a_provider_without_hosts_needs_none(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        spec = MeetingSpec(needs_host=False)
        made = await reserve_on(rig, customer, spec, await state_of(rig, customer))
        assert made is not None
        assert (made.meeting.host_id, made.provider_user_id) == (None, "")
        assert await schedule(rig, made) is not None

    async def test_an_account_that_has_changed_is_left_alone(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host(), new_host())
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

    async def test_what_is_known_of_the_key_is_decided_under_the_lock(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host(), new_host(), new_host())
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
            await reserve_on(rig, customer, MeetingSpec(key="new"), await state_of(rig, customer), query)
            is None
        )
        assert await rig.holds(customer.account_id) == [10]

    async def test_an_account_that_is_to_be_erased_makes_no_meetings(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        async with rig.store.begin() as tx:
            await tx.lock_account(customer.account_id)
            await tx.erasures.start(customer.account_id, AT)
        assert await reserve_on(rig, customer, MeetingSpec(), await state_of(rig, customer)) is None
        assert await rig.holds(customer.account_id) == []

    async def test_without_a_free_host_nothing_is_written(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await reserved(rig, await open_customer(rig, 100), MeetingSpec())
        state = await state_of(rig, customer)
        assert await reserve_on(rig, customer, MeetingSpec(key="k"), state) is None
        assert await state_of(rig, customer) == state
        later = MeetingSpec(MeetingSpec().end_at)
        assert await reserve_on(rig, customer, later, state) is not None

    async def test_of_many_on_one_state_one_is_written(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(*(new_host() for _ in range(8)))
        state = await state_of(rig, customer)
        tries = [reserve_on(rig, customer, MeetingSpec(key=f"k{n}"), state) for n in range(8)]
        assert sum(made is not None for made in await asyncio.gather(*tries)) == 1
        assert await money(rig, customer) == (100, 10, 0, 10)

    async def test_accounts_that_reserve_at_once_share_no_slot(self, rig: StoreRig) -> None:
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
        assert {host.id: uses[host.id] for host in hosts} == {
            host.id: int(host.id in taken) for host in hosts
        }

    async def test_under_the_lock_one_state_follows_from_the_other(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host(), new_host())
        before = await state_of(rig, customer)
        async with rig.store.begin() as tx:
            state = await tx.meetings.load_state(customer.account_id, customer.key_id, cap_day(AT))
            assert state == evolve(before, version=None)
            for key in ("one", "other"):
                query = query_of(customer, MeetingSpec(key=key))
                made = _made(customer, MeetingSpec(key=key), state, query)
                assert await tx.meetings.save_if_unchanged(query, made, state) is not None
                state = evolve(state, funds=made.funds, usage=made.usage)
        assert await money(rig, customer) == (100, 20, 0, 20)
        assert evolve(await state_of(rig, customer), version=None) == state
