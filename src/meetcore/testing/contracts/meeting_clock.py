"""Meetings whose time is over, in a store."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.meetings.meetings import Meeting, MeetingEvent, MeetingStatus, transition
from meetcore.ports.meetings import DueMeeting
from meetcore.testing.contracts.reads import cancel_view
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    Customer,
    MeetingSpec,
    abandon,
    finish_cancelling,
    new_host,
    open_customer,
    reserved,
    scheduled,
    start_cancelling,
)


async def _due(rig: StoreRig, limit: int = 10, again_s: float = 60) -> list[DueMeeting]:
    async with rig.store.begin() as tx:
        return list(await tx.meetings.claim_due(limit, again_s))


async def _customer(rig: StoreRig) -> Customer:
    await rig.put_hosts(evolve(new_host(max_concurrent=9), provider_user_id="host-9"))
    return await open_customer(rig, 100)


def _over(rig: StoreRig, hours_ago: int = 1) -> MeetingSpec:
    """A meeting that lasted an hour, until so many hours ago by the store's clock."""
    return MeetingSpec(start_at=rig.now() - timedelta(hours=hours_ago + 1))


async def _end(rig: StoreRig, meeting: Meeting) -> None:
    async with rig.store.begin() as tx:
        ended = evolve(meeting, status=transition(meeting.status, MeetingEvent.END))
        await tx.meetings.save_lifecycle(ended, [], invalidates_host_key=False)


async def _stop(rig: StoreRig, meeting: Meeting) -> None:
    """A cancellation that found it running."""
    lease = await start_cancelling(rig, meeting)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        ended = evolve(view.meeting, status=transition(view.meeting.status, MeetingEvent.END))
        await tx.meetings.save_cancelled(view, ended, None, [], None, invalidates_host_key=False)


async def _schedule_check(rig: StoreRig, meeting: Meeting, again_s: float | None) -> None:
    async with rig.store.begin() as tx:
        await tx.meetings.schedule_next_check(meeting, again_s)


@pytest.mark.asyncio
class MeetingClockContract:
    """Meetings that are due. A part of `MeetingRepositoryContract`."""

    async def test_a_meeting_is_due_at_its_end_and_not_before(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        over = await scheduled(rig, customer, _over(rig))
        await scheduled(rig, customer, MeetingSpec(start_at=rig.now() - timedelta(minutes=59)))
        assert await _due(rig) == [DueMeeting(over, "host-9")]

    async def test_what_is_due_is_given_to_one_and_comes_again(self, rig: StoreRig) -> None:
        over = await scheduled(rig, await _customer(rig), _over(rig))
        assert await _due(rig, again_s=60) == [DueMeeting(over, "host-9")]
        assert await _due(rig) == []
        another = await scheduled(rig, await open_customer(rig, 100), _over(rig))
        assert await _due(rig, again_s=-1) == [DueMeeting(another, "host-9")]
        assert await _due(rig) == [DueMeeting(another, "host-9")]

    async def test_the_longest_due_come_first_up_to_the_limit(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        made = [await scheduled(rig, customer, _over(rig, hours)) for hours in (2, 4, 3)]
        assert [due.meeting for due in await _due(rig, 2)] == [made[1], made[2]]
        assert [due.meeting for due in await _due(rig, 2)] == [made[0]]

    async def test_a_meeting_that_ended_or_was_cancelled_is_due_no_more(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        unrecorded = evolve(_over(rig), with_recording=False)
        ended, stopped, cancelled = [
            await scheduled(rig, customer, spec) for spec in (unrecorded, unrecorded, _over(rig))
        ]
        await _end(rig, ended)
        await _stop(rig, stopped)
        await finish_cancelling(rig, cancelled, await start_cancelling(rig, cancelled))
        assert await _due(rig) == []

    @pytest.mark.parametrize("is_stopped", [False, True])
    async def test_the_recording_of_an_ended_meeting_is_looked_for_at_once(
        self, rig: StoreRig, is_stopped: bool
    ) -> None:
        meeting = await scheduled(
            rig, await _customer(rig), MeetingSpec(start_at=rig.now() + timedelta(hours=1))
        )
        await (_stop if is_stopped else _end)(rig, meeting)
        ended = evolve(meeting, status=MeetingStatus.ENDED)
        assert await _due(rig, again_s=60) == [DueMeeting(ended, "host-9", 1)]
        assert await _due(rig) == []

    async def test_each_check_is_counted_whether_it_was_handled_or_not(self, rig: StoreRig) -> None:
        meeting = await scheduled(rig, await _customer(rig), _over(rig))
        assert [due.recording_checks for due in await _due(rig, again_s=-1)] == [0], "its end is no look"
        await _end(rig, meeting)
        assert [due.recording_checks for due in await _due(rig, again_s=-1)] == [1]
        (due,) = await _due(rig, again_s=60)
        await _schedule_check(rig, due.meeting, -1)
        assert [due.recording_checks for due in await _due(rig)] == [3]

    async def test_a_recording_is_checked_again_only_when_scheduled(self, rig: StoreRig) -> None:
        meeting = await scheduled(rig, await _customer(rig), _over(rig))
        await _end(rig, meeting)
        (due,) = await _due(rig, again_s=-1)
        await _schedule_check(rig, due.meeting, 60)
        assert await _due(rig) == []
        await _schedule_check(rig, due.meeting, -1)
        assert len(await _due(rig, again_s=-1)) == 1
        await _schedule_check(rig, due.meeting, None)
        assert await _due(rig) == []

    async def test_a_meeting_that_started_is_due_all_the_same(self, rig: StoreRig) -> None:
        meeting = await scheduled(rig, await _customer(rig), _over(rig))
        started = evolve(meeting, status=MeetingStatus.STARTED)
        async with rig.store.begin() as tx:
            await tx.meetings.save_lifecycle(started, [], invalidates_host_key=False)
        assert await _due(rig) == [DueMeeting(started, "host-9")]

    async def test_a_meeting_that_could_not_be_cancelled_is_due(self, rig: StoreRig) -> None:
        meeting = await scheduled(rig, await _customer(rig), _over(rig))
        lease = await start_cancelling(rig, meeting)
        async with rig.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
            assert view is not None
            await tx.meetings.save_cancel_failed(view, meeting)
        assert await _due(rig) == [DueMeeting(meeting, "host-9")]

    async def test_one_in_creation_is_never_due(self, rig: StoreRig) -> None:
        await reserved(rig, await _customer(rig), _over(rig))
        assert await _due(rig) == []

    async def test_one_that_was_given_up_is_never_due(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        for look_again_s in (None, 0):
            made = await reserved(rig, customer, _over(rig))
            assert await abandon(rig, made, look_again_s=look_again_s)
        assert await _due(rig) == []

    async def test_a_scheduled_meeting_is_not_due_for_provisioning(self, rig: StoreRig) -> None:
        meeting = await scheduled(rig, await _customer(rig), _over(rig))
        view = await cancel_view(rig, meeting)
        assert view is not None
        assert not view.is_leased
