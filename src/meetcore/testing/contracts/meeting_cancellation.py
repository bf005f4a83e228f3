"""A meeting that is taken back: refunded, ended without a refund, or left as it was."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.idempotency import Claim
from meetcore.ports.lease import Lease
from meetcore.testing.contracts.reads import cancel_view, is_free, money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    finish_cancelling,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    schedule,
    scheduled,
    start_cancelling,
)
from meetcore.usecases.cancellation import restore


@pytest.mark.asyncio
class MeetingCancellationContract:
    """Cancelling and ending a meeting. A part of `MeetingRepositoryContract`."""

    async def test_a_meeting_is_loaded_for_cancelling_with_its_key(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(key="k"))
        view = await cancel_view(rig, made.meeting, "k")
        assert view is not None
        assert (view.meeting, view.is_leased) == (made.meeting, True)
        assert view.idempotency.record is not None
        meeting = await schedule(rig, made)
        later = await cancel_view(rig, made.meeting, None)
        assert later is not None
        assert (later.meeting, later.is_leased, later.idempotency.record) == (meeting, False, None)

    async def test_another_accounts_meeting_is_not_there(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig, 100), await open_customer(rig)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        assert await cancel_view(rig, evolve(meeting, account_id=other.account_id)) is None
        assert await cancel_view(rig, evolve(meeting, id=new_id())) is None
        assert await rig.queries.find_meeting(other.account_id, meeting.id) is None

    async def test_a_cancelled_meeting_returns_credits_cap_and_host(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer, MeetingSpec(credits=30))
        lease = await start_cancelling(rig, meeting)
        assert not await is_free(rig, customer)
        view = await cancel_view(rig, meeting)
        assert view is not None
        assert (view.meeting.status, view.is_leased) == (MeetingStatus.CANCELLING, True)
        assert (await finish_cancelling(rig, meeting, lease)).due == 0
        assert await money(rig, customer) == (100, 0, 0, 0)
        assert await is_free(rig, customer)
        stored = await rig.queries.find_meeting(customer.account_id, meeting.id)
        assert stored == evolve(meeting, status=MeetingStatus.CANCELLED, credits_refunded=30)
        refund = (await rig.entries(customer.account_id))[-1].transfer
        assert refund.reverses == meeting.charge_id

    async def test_a_meeting_that_was_ended_returns_nothing_and_frees_its_host(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await register(rig, new_endpoint(customer, EventKind.MEETING_ENDED))
        meeting = await scheduled(rig, customer, MeetingSpec(credits=30))
        lease = await start_cancelling(rig, meeting)
        over = await finish_cancelling(
            rig, meeting, lease, state=ProviderMeetingState.OVER, invalidates_host_key=True
        )
        assert over.due == 1
        assert await money(rig, customer) == (70, 0, 30, 0)
        assert await is_free(rig, customer)
        assert await rig.queries.find_meeting(customer.account_id, meeting.id) == evolve(
            meeting, status=MeetingStatus.ENDED, credits_refunded=0
        )

    async def test_a_cancellation_that_failed_leaves_the_meeting_as_it_was(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        lease = await start_cancelling(rig, meeting)
        async with rig.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
            assert view is not None
            await restore(tx, view)
        later = await cancel_view(rig, meeting)
        assert later is not None
        assert (later.meeting, later.is_leased) == (meeting, False)
        assert not await is_free(rig, customer)

    async def test_a_cancellation_after_a_lock_wait_reads_what_the_lock_holder_wrote(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        cancelling = evolve(meeting, status=MeetingStatus.CANCELLING)
        async with rig.store.begin() as tx:
            await tx.meetings.load_locked(meeting.account_id, meeting.id, "k")
            waiting = asyncio.create_task(cancel_view(rig, meeting, "k"))
            await rig.until_lock_contended()
            claim = Claim("k", b"f" * 32, meeting.id)
            await tx.meetings.save_cancelling(cancelling, Lease(new_id(), 60), claim)
        view = await waiting
        assert view is not None
        assert (view.meeting, view.is_leased) == (cancelling, True)
        assert view.idempotency.record is not None
