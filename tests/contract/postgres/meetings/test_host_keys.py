"""Host keys: due, claimed and replaced by one worker, shown in the right meeting alone."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.machine import step
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import TRANSITIONS, Meeting, MeetingEvent
from meetcore.domain.meetings.views import DueHostKey, MeetingFilter
from meetcore.ports.queries import MAX_PAGE
from tests.support.postgres_rig import PostgresRig
from tests.support.records import claim_keys, save_key
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    finish_cancelling,
    new_host,
    open_customer,
    scheduled,
    start_cancelling,
)


async def _postpone(rig: PostgresRig, due: DueHostKey, seconds: float) -> None:
    await rig.alone.host_keys.postpone(due.host_id, due.token, seconds)


async def _due(rig: PostgresRig, limit: int = 100) -> list[UUID]:
    """Whose keys are due; they stay so."""
    return [due.host_id for due in await claim_keys(rig, limit, seconds=-1.0)]


async def _put_hosts(rig: PostgresRig, count: int) -> list[Host]:
    hosts = [new_host() for _ in range(count)]
    await rig.put_hosts(*hosts)
    return hosts


async def test_a_host_that_is_added_is_due_at_once(rig: PostgresRig) -> None:
    host = new_host()
    await rig.alone.registry.add_host(host, AT)
    (due,) = await claim_keys(rig)
    assert (due.host_id, due.provider_user_id) == (host.id, host.provider_user_id)


async def test_only_the_claim_owner_postpones(rig: PostgresRig) -> None:
    await _put_hosts(rig, 1)
    (late,) = await claim_keys(rig, seconds=-1.0)
    (due,) = await claim_keys(rig)
    await _postpone(rig, late, -1.0)
    assert await _due(rig) == []
    assert await save_key(rig, due, "111111")
    await _postpone(rig, due, -1.0)
    assert await _due(rig) == []


async def test_the_longest_due_come_first(rig: PostgresRig) -> None:
    hosts = await _put_hosts(rig, 4)
    since = {host.id: float(-10 * place) for place, host in enumerate(hosts, 1)}
    for due in await claim_keys(rig):
        await _postpone(rig, due, since[due.host_id])
    first = [host.id for host in hosts[:1:-1]]
    assert set(await _due(rig, 2)) == set(first)


async def test_hosts_that_have_no_key_to_show_are_never_due(rig: PostgresRig) -> None:
    await rig.put_hosts(new_host(is_active=False), new_host(max_concurrent=2))
    host = new_host()
    await rig.alone.registry.add_host(host, AT)
    await rig.alone.registry.add_host(new_host(max_concurrent=3), AT)
    assert await _due(rig) == [host.id]
    await rig.alone.registry.set_host_active(host.id, is_active=False)
    assert await _due(rig) == []


async def test_concurrent_claims_never_share_a_host(rig: PostgresRig) -> None:
    hosts = await _put_hosts(rig, 12)
    claimed = await asyncio.gather(*(claim_keys(rig, 3) for _ in range(8)))
    ids = [due.host_id for some in claimed for due in some]
    assert len(set(ids)) == len(ids)
    remaining = [due.host_id for due in await claim_keys(rig)]
    assert sorted(ids + remaining) == sorted(host.id for host in hosts)


SOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=3)
KEY = "123456"


async def _with_key(rig: PostgresRig, key: str = KEY, **fields: Any) -> Host:
    """A host whose key is in place."""
    host = new_host(**fields)
    await rig.put_hosts(evolve(host, max_concurrent=1, is_active=True))
    (due,) = await claim_keys(rig)
    assert await save_key(rig, due, key)
    await rig.put_hosts(host)
    return host


async def _keys(rig: PostgresRig, customer: Customer, *meetings: Meeting) -> list[str | None]:
    """Return the key that each meeting shows, alone and in a list."""
    listed = await rig.queries.list_meetings(customer.account_id, MeetingFilter(SOON), MAX_PAGE, None)
    by_id = {meeting.id: meeting for meeting in listed}
    for meeting in meetings:
        found = await rig.queries.find_meeting(customer.account_id, meeting.id)
        assert found == by_id[meeting.id]
        assert evolve(found, host_key=None) == meeting
    return [by_id[meeting.id].host_key for meeting in meetings]


async def _make(rig: PostgresRig, customer: Customer, hours: int = 0, seats: int = 10) -> Meeting:
    return await scheduled(rig, customer, MeetingSpec(SOON + timedelta(hours=hours), seats=seats, credits=1))


async def _end(rig: PostgresRig, meeting: Meeting, *, invalidates: bool) -> None:
    ended = evolve(meeting, status=step(TRANSITIONS, meeting.status, MeetingEvent.END))
    async with rig.store.begin() as tx:
        await tx.meetings.save_ended(ended, [])
        await tx.meetings.save_cleared(ended, invalidates_host_key=invalidates)


async def test_a_meeting_has_the_key_of_its_own_host(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    await _with_key(rig, "111111", capacity=10)
    await _with_key(rig, "222222", capacity=20)
    small, large = await _make(rig, customer, seats=5), await _make(rig, customer, seats=15)
    assert await _keys(rig, customer, small, large) == ["111111", "222222"]


async def test_a_later_meeting_waits_until_the_host_is_left(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
    await _with_key(rig)
    later = await _make(rig, customer, hours=1)
    assert await _keys(rig, customer, later) == [KEY]
    earlier = await _make(rig, other)
    assert await _keys(rig, customer, later) == [None]
    assert await _keys(rig, other, earlier) == [KEY]
    await finish_cancelling(rig, earlier, await start_cancelling(rig, earlier))
    assert await _keys(rig, customer, later) == [KEY]


async def test_a_meeting_made_before_one_that_shows_its_key_has_another(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
    await _with_key(rig)
    start = datetime.now(UTC) + timedelta(minutes=14)
    await scheduled(rig, customer, MeetingSpec(start, credits=1))
    assert await claim_keys(rig) == []
    await scheduled(rig, other, MeetingSpec(start - timedelta(minutes=10), minutes=10, credits=1))
    assert len(await claim_keys(rig)) == 1


async def test_a_host_of_several_meetings_at_a_time_has_no_key_to_show(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    await _with_key(rig, max_concurrent=2)
    assert await _keys(rig, customer, await _make(rig, customer)) == [None]


async def test_a_key_that_is_due_is_shown_in_no_meeting(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    meeting = await _make(rig, customer)
    assert await _keys(rig, customer, meeting) == [None]
    (due,) = await claim_keys(rig)
    assert await _keys(rig, customer, meeting) == [None]
    assert await save_key(rig, due, KEY)
    assert await _keys(rig, customer, meeting) == [KEY]


@pytest.mark.parametrize("is_ended", [True, False], ids=["ended", "cancelled"])
async def test_a_meeting_that_is_over_has_no_key(rig: PostgresRig, is_ended: bool) -> None:
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


async def test_the_end_of_a_meeting_invalidates_the_key_for_the_next(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    await _with_key(rig)
    first, second = await _make(rig, customer), await _make(rig, customer, hours=1)
    await _end(rig, first, invalidates=True)
    assert await _keys(rig, customer, second) == [None]
    (due,) = await claim_keys(rig)
    assert await save_key(rig, due, "654321")
    assert await _keys(rig, customer, second) == ["654321"]


async def test_the_key_of_a_disabled_host_is_replaced_between_its_meetings(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    host = await _with_key(rig)
    first, second = await _make(rig, customer), await _make(rig, customer, hours=1)
    await rig.alone.registry.set_host_active(host.id, is_active=False)
    await _end(rig, first, invalidates=True)
    (due,) = await claim_keys(rig)
    assert await save_key(rig, due, "654321")
    assert await _keys(rig, customer, second) == ["654321"]
    await _end(rig, second, invalidates=True)
    assert await _due(rig) == []


async def test_a_cancellation_near_the_start_invalidates_the_key_and_an_early_one_does_not(
    rig: PostgresRig,
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


async def test_a_meeting_that_had_to_wait_invalidates_no_key(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    await _with_key(rig)
    running, waiting = await _make(rig, customer), await _make(rig, customer, hours=1)
    await finish_cancelling(rig, waiting, await start_cancelling(rig, waiting), invalidates_host_key=True)
    assert await _keys(rig, customer, running) == [KEY]
    assert await claim_keys(rig) == []


async def test_a_key_that_is_being_replaced_when_a_meeting_ends_is_not_kept(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    first, second = await _make(rig, customer), await _make(rig, customer, hours=1)
    (due,) = await claim_keys(rig)
    await _end(rig, first, invalidates=True)
    assert not await save_key(rig, due, KEY)
    assert await _keys(rig, customer, second) == [None]
    (again,) = await claim_keys(rig)
    assert again.host_id == due.host_id


async def test_only_a_customers_own_read_returns_the_key(rig: PostgresRig) -> None:
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
