"""Steps of a meeting after its creation: settled, cancelled, ended, and leases that expire."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.machine import step
from meetcore.domain.meetings.meetings import TRANSITIONS, Meeting, MeetingEvent, MeetingStatus, Provisioned
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.meetings.views import DueMeeting, LeaseView
from meetcore.domain.requests.views import Claim
from meetcore.ports.runtime import Lease
from meetcore.usecases.meetings.creation import settle
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    RUNTIME,
    Customer,
    MeetingSpec,
    abandon,
    cancel_view,
    finish_cancelling,
    load_leased,
    new_host,
    new_id,
    open_customer,
    open_with_host,
    reserved,
    schedule,
    scheduled,
    start_cancelling,
)


async def _take_over(rig: PostgresRig, account_id: UUID, meeting_id: UUID, lease: Lease) -> bool:
    expired = await rig.alone.meetings.lease_expired(account_id, meeting_id, lease)
    return expired is not None and expired.token == lease.token


async def test_a_meeting_is_found_by_the_providers_id(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    meeting = await scheduled(rig, customer)
    assert meeting.provider_meeting_id is not None
    async with rig.store.begin() as tx:
        assert await tx.meetings.load_by_provider_id("sandbox", meeting.provider_meeting_id) == meeting
        assert await tx.meetings.load_by_provider_id("zoom", meeting.provider_meeting_id) is None
        assert await tx.meetings.load_by_provider_id("sandbox", "room-x") is None
    assert await rig.queries.find_at_provider("sandbox", meeting.provider_meeting_id) == meeting
    assert await rig.queries.find_at_provider("zoom", meeting.provider_meeting_id) is None
    assert await rig.queries.find_at_provider("sandbox", "room-x") is None


async def test_a_provider_may_give_an_id_again_when_what_had_it_is_over(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(max_concurrent=2))
    before = await schedule(rig, await reserved(rig, customer, MeetingSpec()), room="room-7")
    assert before is not None
    ended = evolve(before, status=MeetingStatus.ENDED)
    await rig.alone.meetings.save_ended(ended, [])
    after = await schedule(rig, await reserved(rig, customer, MeetingSpec()), room="room-7")
    assert await rig.alone.meetings.load_by_provider_id("sandbox", "room-7") == after
    assert await rig.queries.find_at_provider("sandbox", "room-7") == after


async def test_an_expired_lease_is_taken_over_once(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(max_concurrent=2))
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


async def test_a_lease_is_taken_over_only_when_it_expired(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    made = await reserved(rig, customer, MeetingSpec(lease_s=60))
    assert not await _take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))
    assert not await _take_over(rig, customer.account_id, new_id(), Lease(new_id(), 60))
    assert await abandon(rig, made)
    assert not await _take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))


async def _due(rig: PostgresRig, limit: int = 10, again_s: float = 60) -> list[DueMeeting]:
    return list(await rig.alone.meetings.claim_due(limit, again_s))


def _over(rig: PostgresRig, hours_ago: int = 1) -> MeetingSpec:
    """A meeting that lasted an hour, until so many hours ago by the store's clock."""
    return MeetingSpec(start_at=rig.now() - timedelta(hours=hours_ago + 1))


async def _end(rig: PostgresRig, meeting: Meeting) -> None:
    async with rig.store.begin() as tx:
        ended = evolve(meeting, status=step(TRANSITIONS, meeting.status, MeetingEvent.END))
        await tx.meetings.save_ended(ended, [])
        await tx.meetings.save_cleared(ended, invalidates_host_key=False)


async def _stop(rig: PostgresRig, meeting: Meeting) -> None:
    """A cancellation that found it running."""
    lease = await start_cancelling(rig, meeting)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        ended = evolve(view.meeting, status=step(TRANSITIONS, view.meeting.status, MeetingEvent.END))
        await tx.meetings.save_cancelled(view, ended, None, [], None)
        await tx.meetings.save_cleared(ended, invalidates_host_key=False)


async def test_the_longest_due_come_first_up_to_the_limit(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    made = [await scheduled(rig, customer, _over(rig, hours)) for hours in (2, 4, 3)]
    assert [due.meeting for due in await _due(rig, 2)] == [made[1], made[2]]
    assert [due.meeting for due in await _due(rig, 2)] == [made[0]]


async def test_a_meeting_that_ended_or_was_cancelled_is_due_no_more(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
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
    rig: PostgresRig, is_stopped: bool
) -> None:
    meeting = await scheduled(
        rig, await open_with_host(rig), MeetingSpec(start_at=rig.now() + timedelta(hours=1))
    )
    await (_stop if is_stopped else _end)(rig, meeting)
    ended = evolve(meeting, status=MeetingStatus.ENDED)
    assert await _due(rig, again_s=60) == [DueMeeting(ended, "host-9", 1, is_cleared=True)]
    assert await _due(rig) == []


async def test_a_meeting_that_is_over_keeps_its_host_and_is_due_until_it_is_cleared(rig: PostgresRig) -> None:
    meeting = await scheduled(rig, await open_with_host(rig), evolve(_over(rig), with_recording=False))
    ended = evolve(meeting, status=MeetingStatus.ENDED)
    await rig.alone.meetings.save_ended(ended, [])
    assert await _due(rig) == []
    rig.write("UPDATE meetings SET due_at = clock_timestamp()")
    assert await _due(rig, again_s=0) == [DueMeeting(ended, "host-9", 0, is_cleared=False)]
    assert len(rig.read("SELECT 1 FROM host_reservations")) == 1
    await rig.alone.meetings.save_cleared(ended, invalidates_host_key=False)
    assert (await _due(rig), len(rig.read("SELECT 1 FROM host_reservations"))) == ([], 0)
    await rig.alone.meetings.save_uncleared(ended)
    assert await _due(rig) == [DueMeeting(ended, "host-9", 0, is_cleared=False)]


async def test_a_host_is_kept_up_to_its_next_reservation(rig: PostgresRig) -> None:
    await rig.put_hosts(new_host())
    customer = await open_customer(rig, 100)
    stuck = await scheduled(rig, customer, _over(rig))
    await rig.alone.meetings.keep_host(stuck, 600)
    (row,) = rig.read(
        "SELECT upper(during) > clock_timestamp() + interval '9 minutes' AS kept FROM host_reservations"
    )
    assert row["kept"]
    await scheduled(rig, customer, MeetingSpec(start_at=rig.now() + timedelta(minutes=20)))
    await rig.alone.meetings.keep_host(stuck, 3600)
    (row,) = rig.read(
        "SELECT upper(during) < clock_timestamp() + interval '11 minutes' AS kept FROM host_reservations"
        " ORDER BY during LIMIT 1"
    )
    assert row["kept"]


async def test_a_session_is_kept_as_it_was_reported_last(rig: PostgresRig) -> None:
    meeting = await scheduled(rig, await open_with_host(rig))
    begun, ended = Session("/a//b==", AT), Session("/a//b==", AT, AT + timedelta(minutes=1))
    other = Session("c", None, AT - timedelta(hours=1))
    async with rig.store.begin() as tx:
        for session in (begun, other, ended):
            await tx.meetings.save_session(meeting, session)
        assert await tx.meetings.load_sessions(meeting.account_id, meeting.id) == (other, ended)
        await tx.meetings.save_progress(evolve(meeting, status=MeetingStatus.STARTED), rig.now())
    ((due),) = await _due(rig)
    assert due.meeting.status is MeetingStatus.STARTED


async def test_one_in_creation_or_given_up_is_never_due(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    await reserved(rig, customer, _over(rig))
    for look_again_s in (None, 0):
        assert await abandon(rig, await reserved(rig, customer, _over(rig)), look_again_s=look_again_s)
    assert await _due(rig) == []


async def _settled_by(rig: PostgresRig, view: LeaseView, *, at_once: bool = True) -> int | None:
    """The hold becomes the charge, as it is decided on a view that may be out of date."""
    room = Provisioned(f"room-{view.meeting.id}", "https://meet.example/x", "pw")
    async with rig.store.at_once() if at_once else rig.store.begin() as tx:
        outcome = await settle(tx, RUNTIME, view, room, AT)
    return None if outcome is None else outcome.due


async def _provisioned_view(rig: PostgresRig, customer: Customer) -> LeaseView:
    made = await reserved(rig, customer, MeetingSpec())
    view = await load_leased(rig, made)
    assert view is not None
    return view


@pytest.mark.parametrize("password", [None, "ABC-123"])
async def test_the_providers_password_is_the_one_that_counts(rig: PostgresRig, password: str | None) -> None:
    customer = await open_customer(rig, 100, new_host())
    meeting = await schedule(rig, await reserved(rig, customer, MeetingSpec()), password=password)
    assert meeting is not None
    stored = await rig.queries.find_meeting(customer.account_id, meeting.id)
    assert stored is not None
    assert stored.password == password


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_view_that_is_still_true_is_settled_in_one_statement(rig: PostgresRig, at_once: bool) -> None:
    customer = await open_customer(rig, 100, new_host())
    view = await _provisioned_view(rig, customer)
    assert await _settled_by(rig, view, at_once=at_once) == 0
    assert await rig.holds(customer.account_id) == []
    assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, -10]


async def test_nothing_is_settled_twice(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    view = await _provisioned_view(rig, customer)
    results = await asyncio.gather(*(_settled_by(rig, view) for _ in range(5)))
    assert sorted(results, key=str) == [0, None, None, None, None]
    assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, -10]


async def test_nothing_is_settled_without_the_lease(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    view = await _provisioned_view(rig, customer)
    assert await _settled_by(rig, evolve(view, token=new_id())) is None
    assert await rig.holds(customer.account_id) == [10]


async def test_a_leased_meeting_is_not_taken_over(rig: PostgresRig):
    """Its lease expired, but the transaction that loaded it is about to finish the meeting."""
    customer = await open_customer(rig, 100, new_host())
    made = await reserved(rig, customer, MeetingSpec(lease_s=-1))
    async with rig.store.begin() as tx:
        assert await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.token)
        async with rig.store.begin() as other:
            assert await other.meetings.claim_expired(10, Lease(new_id(), 60)) == []


@pytest.mark.spec("3/cancel-before", "3/cancel-running")
async def test_a_cancellation_after_a_lock_wait_reads_what_the_lock_holder_wrote(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
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


@pytest.mark.spec("3/cancel-before", "3/cancel-running")
async def test_another_accounts_meeting_is_not_there(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig)
    await rig.put_hosts(new_host())
    meeting = await scheduled(rig, customer)
    assert await cancel_view(rig, evolve(meeting, account_id=other.account_id)) is None
    assert await cancel_view(rig, evolve(meeting, id=new_id())) is None
    assert await rig.queries.find_meeting(other.account_id, meeting.id) is None
