"""The first step of a meeting: credits, cap and host held together, or not at all."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits, NotFound
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds
from meetcore.testing.contracts.reads import creation, is_free, money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    load_leased,
    new_host,
    new_id,
    open_customer,
    provisioning,
    query_of,
    reserve,
    reserved,
    schedule,
)


@pytest.mark.asyncio
class MeetingCreationContract:
    """Making a meeting, up to the lease. A part of `MeetingRepositoryContract`."""

    async def test_an_unknown_account_makes_no_meetings(self, rig: StoreRig) -> None:
        with pytest.raises(NotFound):
            await creation(rig, Customer(new_id(), new_id(), b""))

    async def test_a_fresh_account_has_used_nothing(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, cap=40)
        view = await creation(rig, customer)
        assert view.funds == Funds(customer.account_id, low_threshold=0)
        assert view.usage == CapUsage(customer.key_id, cap_day(AT))
        assert (view.daily_cap, view.charged, view.idempotency.record) == (40, None, None)
        assert (list(view.free_hosts), view.is_contended) == ([], False)

    async def test_a_reservation_holds_credits_cap_and_host(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100, cap=50)
        host = new_host()
        await rig.put_hosts(host)
        made = await reserved(rig, customer, MeetingSpec(credits=30))
        assert await money(rig, customer) == (100, 30, 0, 30)
        assert await rig.holds(customer.account_id) == [30]
        assert not await is_free(rig, customer)
        assert (await rig.registry.list_hosts())[0] == host.used(AT)
        assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) == made.meeting

    async def test_a_key_that_is_not_kept_pays_without_a_cap(self, rig: StoreRig) -> None:
        """The account's own id, say, which stands for what is done by hand."""
        account_id = (await open_customer(rig, 100, cap=5)).account_id
        customer = Customer(account_id, account_id, b"")
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(credits=30))
        assert await money(rig, customer) == (100, 30, 0, 30)
        assert await schedule(rig, made)
        assert await money(rig, customer) == (70, 0, 30, 0)

    async def test_what_is_rolled_back_leaves_nothing(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec())
        before = await load_leased(rig, made)

        async def abandon_and_fail() -> None:
            async with rig.store.begin() as tx:
                view = await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.token)
                assert view is not None
                assert made.hold is not None
                back = holds.release(view.funds, view.usage, made.hold)
                await tx.meetings.save_abandoned(view, made.meeting, back.funds, back.usage)
                raise RuntimeError("too late")

        with pytest.raises(RuntimeError, match="too late"):
            await abandon_and_fail()
        assert before is not None
        assert await load_leased(rig, made) == before
        assert not await is_free(rig, customer)

    async def test_the_lease_owner_loads_what_was_reserved(self, rig: StoreRig) -> None:
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
        assert view is not None
        assert (view.meeting, view.hold, view.claim) == (made.meeting, made.hold, made.claim)
        assert (view.funds, view.usage, view.charge) == (made.funds, made.usage, None)
        assert view.provider_user_id == host.provider_user_id
        assert await load_leased(rig, leased, new_id()) is None

    async def test_an_abandoned_meeting_gives_everything_back(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(credits=30))
        assert await abandon(rig, made)
        assert await money(rig, customer) == (100, 0, 0, 0)
        assert await rig.holds(customer.account_id) == []
        assert await is_free(rig, customer)
        stored = await rig.queries.find_meeting(customer.account_id, made.meeting.id)
        assert stored == evolve(made.meeting, status=MeetingStatus.ABANDONED)
        assert not await abandon(rig, made)
        assert await schedule(rig, made) is None

    async def test_what_the_domain_refuses_leaves_no_trace(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 20, cap=15)
        await rig.put_hosts(new_host())
        before = await money(rig, customer)
        assert await reserve(rig, customer, MeetingSpec(credits=21)) == InsufficientCredits.code
        assert await reserve(rig, customer, MeetingSpec(credits=16)) == CreditCapExceeded.code
        assert await money(rig, customer) == before
        assert await is_free(rig, customer)

    async def test_a_read_after_a_lock_wait_returns_what_the_lock_holder_wrote(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100, cap=50)
        await rig.put_hosts(new_host(), new_host())
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

    async def test_a_write_returns_the_view_to_continue_from(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        query = query_of(customer, MeetingSpec())
        async with rig.store.begin() as tx:
            view = await tx.meetings.load_creation(query)
            made = provisioning(customer, MeetingSpec(), view, query)
            returned = await tx.meetings.save_provisioning(made)
        assert returned is not None
        assert returned.token == made.lease.token
        assert returned == await load_leased(rig, returned)
