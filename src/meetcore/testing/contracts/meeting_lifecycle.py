"""What the provider reports of a meeting, and leases that expired."""

from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.ports.lease import Lease
from meetcore.testing.contracts.reads import cancel_view, is_free
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    abandon,
    finish_cancelling,
    load_leased,
    new_endpoint,
    new_event,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    schedule,
    scheduled,
    start_cancelling,
)


async def _take_over(rig: StoreRig, account_id: UUID, meeting_id: UUID, lease: Lease) -> bool:
    async with rig.store.begin() as tx:
        expired = await tx.meetings.lease_expired(account_id, meeting_id, lease)
    return expired is not None and expired.token == lease.token


@pytest.mark.asyncio
class MeetingLifecycleContract:
    """Following a meeting, and taking it over. A part of `MeetingRepositoryContract`."""

    async def test_a_meeting_is_found_by_the_providers_id(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        assert meeting.provider_meeting_id is not None
        async with rig.store.begin() as tx:
            assert await tx.meetings.load_by_provider_id("sandbox", meeting.provider_meeting_id) == meeting
            assert await tx.meetings.load_by_provider_id("zoom", meeting.provider_meeting_id) is None
            assert await tx.meetings.load_by_provider_id("sandbox", "room-x") is None

    async def test_a_provider_may_give_an_id_again_when_what_had_it_is_over(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=2))
        before = await schedule(rig, await reserved(rig, customer, MeetingSpec()), room="room-7")
        assert before is not None
        ended = evolve(before, status=MeetingStatus.ENDED)
        async with rig.store.begin() as tx:
            await tx.meetings.save_lifecycle(ended, [], invalidates_host_key=False)
        after = await schedule(rig, await reserved(rig, customer, MeetingSpec()), room="room-7")
        async with rig.store.begin() as tx:
            assert await tx.meetings.load_by_provider_id("sandbox", "room-7") == after
        assert await rig.queries.find_at_provider("sandbox", "room-7") == after

    @pytest.mark.parametrize(
        ("status", "frees"), [(MeetingStatus.STARTED, False), (MeetingStatus.ENDED, True)], ids=str
    )
    async def test_a_lifecycle_change_emits_an_event_and_an_end_frees_the_host(
        self, rig: StoreRig, status: MeetingStatus, frees: bool
    ) -> None:
        customer = await open_customer(rig, 100)
        await register(rig, new_endpoint(customer))
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        async with rig.store.begin() as tx:
            changed, event = evolve(meeting, status=status), new_event(customer)
            assert await tx.meetings.save_lifecycle(changed, [event], invalidates_host_key=False) == 1
        assert await rig.queries.find_meeting(customer.account_id, meeting.id) == evolve(
            meeting, status=status
        )
        assert await is_free(rig, customer) is frees

    async def test_an_expired_lease_is_taken_over_once(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=2))
        made = await reserved(rig, customer, MeetingSpec(lease_s=-1, key="k"))
        await reserved(rig, customer, MeetingSpec(lease_s=60))
        view = await cancel_view(rig, made.meeting)
        assert view is not None
        assert not view.is_leased
        lease = Lease(new_id(), 60)
        async with rig.store.begin() as tx:
            (expired,) = await tx.meetings.claim_expired(10, lease)
            assert (expired.account_id, expired.meeting_id, expired.token) == (
                customer.account_id,
                made.meeting.id,
                lease.token,
            )
            assert list(await tx.meetings.claim_expired(10, lease)) == []
        assert await schedule(rig, made) is None
        assert await schedule(rig, evolve(made, token=lease.token)) is not None

    async def test_a_meeting_is_in_progress_while_a_lease_lasts(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig, 100), await open_customer(rig)
        await rig.put_hosts(new_host(max_concurrent=2))

        async def is_in_progress(meeting: Meeting) -> bool:
            return await rig.queries.is_in_progress(meeting.account_id, meeting.id)

        expired = await reserved(rig, customer, MeetingSpec(lease_s=-1))
        made = await reserved(rig, customer, MeetingSpec(lease_s=60))
        assert not await is_in_progress(expired.meeting)
        assert await is_in_progress(made.meeting)
        assert not await is_in_progress(evolve(made.meeting, account_id=other.account_id))
        assert not await is_in_progress(evolve(made.meeting, id=new_id()))
        meeting = await schedule(rig, made)
        assert meeting is not None
        assert not await is_in_progress(meeting)
        lease = await start_cancelling(rig, meeting)
        assert await is_in_progress(meeting)
        await finish_cancelling(rig, meeting, lease)
        assert not await is_in_progress(meeting)

    async def test_a_lease_is_taken_over_only_when_it_expired(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(lease_s=60))
        assert not await _take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))
        assert not await _take_over(rig, customer.account_id, new_id(), Lease(new_id(), 60))
        assert await abandon(rig, made)
        assert not await _take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))

    async def test_a_meeting_in_progress_is_taken_from_whatever_process_has_it(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=2))
        made = await reserved(rig, customer, MeetingSpec(lease_s=60))
        leases = [Lease(new_id(), 60) for _ in range(2)]
        for lease in leases:
            async with rig.store.begin() as tx:
                taken = await tx.meetings.take_lease(customer.account_id, made.meeting.id, lease)
            assert taken is not None
            assert taken.token == lease.token
            assert await load_leased(rig, made) is None
            assert await load_leased(rig, made, lease.token) is not None
        assert not await _take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))
        assert await abandon(rig, evolve(made, token=leases[-1].token))
        over = await scheduled(rig, customer)
        async with rig.store.begin() as tx:
            for id_ in (made.meeting.id, over.id, new_id()):
                assert await tx.meetings.take_lease(customer.account_id, id_, leases[0]) is None

    async def test_one_meeting_with_an_expired_lease_is_taken_over(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(lease_s=-1))
        lease = Lease(new_id(), 60)
        assert await _take_over(rig, customer.account_id, made.meeting.id, lease)
        assert not await _take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))
        assert await load_leased(rig, made) is None
        assert await load_leased(rig, made, lease.token) is not None
