"""Which meeting shows the key of its host, in a store: only the host's next one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting, MeetingEvent, transition
from meetcore.domain.records.meetings import meeting_record
from meetcore.ports.queries import MAX_PAGE, MeetingFilter
from meetcore.testing.contracts.host_keys import claim_keys, save_key
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import (
    Customer,
    MeetingSpec,
    finish_cancelling,
    new_host,
    open_customer,
    scheduled,
    start_cancelling,
)

SOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=3)
MINUTE = timedelta(minutes=1)
KEY = "123456"


async def _with_key(rig: QueriesRig, key: str = KEY, **fields: Any) -> Host:
    """A host whose key is in place."""
    host = new_host(**fields)
    await rig.put_hosts(evolve(host, max_concurrent=1, is_active=True))
    (due,) = await claim_keys(rig)
    assert await save_key(rig, due, key)
    await rig.put_hosts(host)
    return host


async def _keys(rig: QueriesRig, customer: Customer, *meetings: Meeting) -> list[str | None]:
    """Return the key that each meeting shows, alone and in a list."""
    listed = await rig.queries.list_meetings(customer.account_id, MeetingFilter(SOON), MAX_PAGE, None)
    by_id = {meeting.id: meeting for meeting in listed}
    for meeting in meetings:
        found = await rig.queries.find_meeting(customer.account_id, meeting.id)
        assert found == by_id[meeting.id]
        assert evolve(found, host_key=None) == meeting
    return [by_id[meeting.id].host_key for meeting in meetings]


async def _make(rig: QueriesRig, customer: Customer, hours: int = 0, seats: int = 10) -> Meeting:
    return await scheduled(rig, customer, MeetingSpec(SOON + timedelta(hours=hours), seats=seats, credits=1))


async def _end(rig: QueriesRig, meeting: Meeting, *, invalidates: bool) -> None:
    ended = evolve(meeting, status=transition(meeting.status, MeetingEvent.END))
    async with rig.store.begin() as tx:
        await tx.meetings.save_lifecycle(ended, [], invalidates_host_key=invalidates)


@pytest.mark.asyncio
class HostKeyQueries:
    """A part of `QueriesContract`."""

    async def test_a_meeting_has_the_key_of_its_own_host(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig, "111111", capacity=10)
        await _with_key(rig, "222222", capacity=20)
        small, large = await _make(rig, customer, seats=5), await _make(rig, customer, seats=15)
        assert await _keys(rig, customer, small, large) == ["111111", "222222"]

    async def test_the_key_is_shown_from_15_minutes_before_the_start_until_the_end(
        self, rig: QueriesRig
    ) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig)
        meeting = await _make(rig, customer)
        found = await rig.queries.find_meeting(customer.account_id, meeting.id)
        assert found is not None
        moments = {-16: None, -15: KEY, 0: KEY, 59: KEY, 60: None, 100: None}
        assert {
            minutes: meeting_record(found, SOON + minutes * MINUTE).host_key for minutes in moments
        } == moments

    async def test_a_later_meeting_waits_until_the_host_is_left(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
        await _with_key(rig)
        later = await _make(rig, customer, hours=1)
        assert await _keys(rig, customer, later) == [KEY]
        earlier = await _make(rig, other)
        assert await _keys(rig, customer, later) == [None]
        assert await _keys(rig, other, earlier) == [KEY]
        await finish_cancelling(rig, earlier, await start_cancelling(rig, earlier))
        assert await _keys(rig, customer, later) == [KEY]

    async def test_a_host_of_several_meetings_at_a_time_has_no_key_to_show(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig, max_concurrent=2)
        assert await _keys(rig, customer, await _make(rig, customer)) == [None]

    async def test_a_key_that_is_due_is_shown_in_no_meeting(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await _make(rig, customer)
        assert await _keys(rig, customer, meeting) == [None]
        (due,) = await claim_keys(rig)
        assert await _keys(rig, customer, meeting) == [None]
        assert await save_key(rig, due, KEY)
        assert await _keys(rig, customer, meeting) == [KEY]

    @pytest.mark.parametrize("is_ended", [True, False], ids=["ended", "cancelled"])
    async def test_a_meeting_that_is_over_has_no_key(self, rig: QueriesRig, is_ended: bool) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig)
        meeting = await _make(rig, customer)
        if is_ended:
            await _end(rig, meeting, invalidates=True)
        else:
            await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        found = await rig.queries.find_meeting(customer.account_id, meeting.id)
        assert found is not None
        assert found.host_key is None

    async def test_the_end_of_a_meeting_invalidates_the_key_for_the_next(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig)
        first, second = await _make(rig, customer), await _make(rig, customer, hours=1)
        await _end(rig, first, invalidates=True)
        assert await _keys(rig, customer, second) == [None]
        (due,) = await claim_keys(rig)
        assert await save_key(rig, due, "654321")
        assert await _keys(rig, customer, second) == ["654321"]

    async def test_a_cancellation_near_the_start_invalidates_the_key_and_an_early_one_does_not(
        self, rig: QueriesRig
    ) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig)
        early, late, last = [await _make(rig, customer, hours=hours) for hours in range(3)]
        await finish_cancelling(rig, early, await start_cancelling(rig, early), invalidates_host_key=False)
        assert await claim_keys(rig) == []
        assert await _keys(rig, customer, late) == [KEY]
        await finish_cancelling(rig, late, await start_cancelling(rig, late), invalidates_host_key=True)
        assert await _keys(rig, customer, last) == [None]
        assert len(await claim_keys(rig)) == 1

    async def test_a_meeting_that_had_to_wait_invalidates_no_key(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig)
        running, waiting = await _make(rig, customer), await _make(rig, customer, hours=1)
        await finish_cancelling(rig, waiting, await start_cancelling(rig, waiting), invalidates_host_key=True)
        assert await _keys(rig, customer, running) == [KEY]
        assert await claim_keys(rig) == []

    async def test_a_key_that_is_being_replaced_when_a_meeting_ends_is_not_kept(
        self, rig: QueriesRig
    ) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        first, second = await _make(rig, customer), await _make(rig, customer, hours=1)
        (due,) = await claim_keys(rig)
        await _end(rig, first, invalidates=True)
        assert not await save_key(rig, due, KEY)
        assert await _keys(rig, customer, second) == [None]
        (again,) = await claim_keys(rig)
        assert again.host_id == due.host_id

    async def test_only_a_customers_own_read_returns_the_key(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await _with_key(rig)
        meeting = await _make(rig, customer)
        assert meeting.provider_meeting_id is not None
        at_provider = "sandbox", meeting.provider_meeting_id
        assert await rig.queries.find_at_provider(*at_provider) == meeting
        async with rig.store.begin() as tx:
            assert await tx.meetings.load_by_provider_id(*at_provider) == meeting
            view = await tx.meetings.load_locked(customer.account_id, meeting.id, None)
        assert view is not None
        assert view.meeting == meeting
