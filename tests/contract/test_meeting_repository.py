"""A meeting's life in every store: reserved, paid or given back, cancelled, taken over."""

import asyncio
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain import holds
from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits, NotFound
from meetcore.domain.holds import CapUsage
from meetcore.domain.idempotency import IdempotencyRecord
from meetcore.domain.ledger import Funds, TransferKind
from meetcore.domain.meetings import Meeting, MeetingStatus, Provisioned
from meetcore.domain.schedule import cap_day
from meetcore.ports.lease import Lease
from meetcore.ports.store import Claim, CreationView, LeaseView, MeetingView, Provisioning
from tests.contract.acts import (
    AT,
    KIND,
    Customer,
    Wish,
    abandon,
    finish_cancelling,
    load_leased,
    new_endpoint,
    new_event,
    new_host,
    new_id,
    open_customer,
    provisioning,
    query_of,
    register,
    reserved,
    schedule,
    scheduled,
    start_cancelling,
    top_up,
)
from tests.contract.rigs import PostgresRig, Rig, until_somebody_waits


async def creation(rig: Rig, customer: Customer, wish: Wish | None = None) -> CreationView:
    async with rig.store.begin() as tx:
        return await tx.meetings.load_creation(query_of(customer, wish or Wish()))


async def cancel_view(rig: Rig, meeting: Meeting, key: str | None = None) -> MeetingView | None:
    async with rig.store.begin() as tx:
        return await tx.meetings.load_for_cancel(meeting.account_id, meeting.id, key)


async def money(rig: Rig, customer: Customer) -> tuple[int, int, int, int]:
    """Balance, held, and what the key spent and holds of its day."""
    view = await creation(rig, customer)
    return view.funds.balance, view.funds.held, view.usage.spent, view.usage.held


async def is_free(rig: Rig, customer: Customer, wish: Wish | None = None) -> bool:
    return bool((await creation(rig, customer, wish)).free_hosts)


async def take_over(rig: Rig, account_id: UUID, meeting_id: UUID, lease: Lease) -> bool:
    async with rig.store.begin() as tx:
        lapsed = await tx.meetings.lease_lapsed(account_id, meeting_id, lease)
    return lapsed is not None and lapsed.token == lease.token


async def test_an_unknown_account_is_not_found(rig: Rig):
    with pytest.raises(NotFound):
        await creation(rig, Customer(new_id(), new_id(), b""))


async def test_a_fresh_account_has_used_nothing(rig: Rig):
    customer = await open_customer(rig, cap=40)
    view = await creation(rig, customer)
    assert view.funds == Funds(customer.account_id, low_threshold=0)
    assert view.usage == CapUsage(customer.key_id, cap_day(AT))
    assert (view.daily_cap, view.charged, view.idempotency.record) == (40, None, None)
    assert (list(view.free_hosts), view.is_contended) == ([], False)


async def test_a_reservation_holds_credits_cap_and_host(rig: Rig):
    customer = await open_customer(rig, 100, cap=50)
    host = new_host()
    await rig.plant(host)
    made = await reserved(rig, customer, Wish(credits=30))
    assert await money(rig, customer) == (100, 30, 0, 30)
    assert await rig.holds(customer.account_id) == [30]
    assert not await is_free(rig, customer)
    assert (await rig.registry.list_hosts())[0] == evolve(host, uses=1)
    assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) == made.meeting


async def test_what_is_rolled_back_leaves_nothing(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    made = await reserved(rig, customer, Wish())
    before = await load_leased(rig, made)

    async def abandon_and_fail() -> None:
        async with rig.store.begin() as tx:
            view = await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.lease.token)
            assert view is not None
            back = holds.release(view.funds, view.usage, made.hold)
            await tx.meetings.save_abandoned(view, made.meeting, back.funds, back.usage)
            raise RuntimeError("too late")

    with pytest.raises(RuntimeError, match="too late"):
        await abandon_and_fail()
    assert before is not None
    assert await load_leased(rig, made) == before
    assert not await is_free(rig, customer)


async def test_the_bearer_of_the_lease_loads_what_was_reserved(rig: Rig):
    customer = await open_customer(rig, 100)
    host = new_host()
    await rig.plant(host)
    made = await reserved(rig, customer, Wish(key="k"))
    view = await load_leased(rig, made)
    assert view is not None
    assert (view.meeting, view.hold, view.claim) == (made.meeting, made.hold, made.claim)
    assert (view.funds, view.usage, view.charge) == (made.funds, made.usage, None)
    assert view.provider_user_id == host.provider_user_id
    assert await load_leased(rig, made, new_id()) is None


async def test_a_scheduled_meeting_is_charged_and_told(rig: Rig):
    customer = await open_customer(rig, 100)
    await register(rig, new_endpoint(customer))
    await rig.plant(new_host())
    made = await reserved(rig, customer, Wish(credits=30))
    meeting = await schedule(rig, made, new_event(customer, KIND))
    assert meeting is not None
    assert await rig.queries.find_meeting(customer.account_id, meeting.id) == meeting
    assert await money(rig, customer) == (70, 0, 30, 0)
    assert await rig.holds(customer.account_id) == []
    charge = (await rig.entries(customer.account_id))[-1]
    assert (charge.transfer.id, charge.amount) == (meeting.charge_id, -30)
    assert (charge.transfer.kind, charge.transfer.operation) == (
        TransferKind.MEETING_CHARGE,
        made.hold.operation,
    )
    assert len(await rig.deliveries(customer.account_id)) == 1
    assert not await is_free(rig, customer)
    assert await schedule(rig, made) is None


async def test_a_charge_is_found_under_its_operation_for_ever(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    await schedule(rig, await reserved(rig, customer, Wish(key="k")))
    (charge,) = (await rig.entries(customer.account_id))[1:]
    assert (await creation(rig, customer, Wish(key="k"))).charged == charge.transfer


@pytest.mark.parametrize("password", [None, "ABC-123"])
async def test_the_providers_password_is_the_one_that_counts(rig: Rig, password: str | None):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    meeting = await schedule(rig, await reserved(rig, customer, Wish()), password=password)
    assert meeting is not None
    stored = await rig.queries.find_meeting(customer.account_id, meeting.id)
    assert stored is not None
    assert stored.password == password


async def test_an_abandoned_meeting_gives_everything_back(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    made = await reserved(rig, customer, Wish(credits=30))
    assert await abandon(rig, made)
    assert await money(rig, customer) == (100, 0, 0, 0)
    assert await rig.holds(customer.account_id) == []
    assert await is_free(rig, customer)
    stored = await rig.queries.find_meeting(customer.account_id, made.meeting.id)
    assert stored == evolve(made.meeting, status=MeetingStatus.ABANDONED)
    assert not await abandon(rig, made)
    assert await schedule(rig, made) is None


async def test_a_meeting_is_loaded_for_cancelling_with_its_key(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    made = await reserved(rig, customer, Wish(key="k"))
    view = await cancel_view(rig, made.meeting, "k")
    assert view is not None
    assert (view.meeting, view.is_leased) == (made.meeting, True)
    assert view.idempotency.record is not None
    meeting = await schedule(rig, made)
    later = await cancel_view(rig, made.meeting, None)
    assert later is not None
    assert (later.meeting, later.is_leased, later.idempotency.record) == (meeting, False, None)


@pytest.mark.spec("5/8")
async def test_another_accounts_meeting_is_not_there(rig: Rig):
    customer, other = await open_customer(rig, 100), await open_customer(rig)
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer)
    assert await cancel_view(rig, evolve(meeting, account_id=other.account_id)) is None
    assert await cancel_view(rig, evolve(meeting, id=new_id())) is None
    assert await rig.queries.find_meeting(other.account_id, meeting.id) is None


@pytest.mark.spec("3/cancel-before")
async def test_a_cancelled_meeting_returns_credits_cap_and_host(rig: Rig):
    customer = await open_customer(rig, 100)
    await register(rig, new_endpoint(customer))
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer, Wish(credits=30))
    lease = await start_cancelling(rig, meeting)
    assert not await is_free(rig, customer)
    view = await cancel_view(rig, meeting)
    assert view is not None
    assert (view.meeting.status, view.is_leased) == (MeetingStatus.CANCELLING, True)
    assert await finish_cancelling(rig, meeting, lease, new_event(customer)) == 1
    assert await money(rig, customer) == (100, 0, 0, 0)
    assert await is_free(rig, customer)
    stored = await rig.queries.find_meeting(customer.account_id, meeting.id)
    assert stored == evolve(meeting, status=MeetingStatus.CANCELLED, credits_refunded=30)
    refund = (await rig.entries(customer.account_id))[-1].transfer
    assert refund.reverses == meeting.charge_id


@pytest.mark.spec("3/cancel-running")
async def test_a_meeting_that_was_ended_returns_nothing_and_frees_its_host(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer, Wish(credits=30))
    lease = await start_cancelling(rig, meeting)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        ended = evolve(view.meeting, status=MeetingStatus.ENDED)
        assert await tx.meetings.save_cancelled(view, ended, None, [], None) == 0
    assert await money(rig, customer) == (70, 0, 30, 0)
    assert await is_free(rig, customer)
    assert await rig.queries.find_meeting(customer.account_id, meeting.id) == ended


async def test_a_cancellation_that_failed_leaves_the_meeting_as_it_was(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer)
    lease = await start_cancelling(rig, meeting)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        await tx.meetings.save_cancel_failed(view, meeting)
    later = await cancel_view(rig, meeting)
    assert later is not None
    assert (later.meeting, later.is_leased) == (meeting, False)
    assert not await is_free(rig, customer)


async def test_a_meeting_is_found_by_the_providers_id(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer)
    assert meeting.provider_meeting_id is not None
    async with rig.store.begin() as tx:
        assert await tx.meetings.load_by_provider_id("sandbox", meeting.provider_meeting_id) == meeting
        assert await tx.meetings.load_by_provider_id("zoom", meeting.provider_meeting_id) is None
        assert await tx.meetings.load_by_provider_id("sandbox", "room-x") is None


@pytest.mark.parametrize(
    ("status", "frees"), [(MeetingStatus.STARTED, False), (MeetingStatus.ENDED, True)], ids=str
)
async def test_a_lifecycle_change_is_told_and_an_end_frees_the_host(
    rig: Rig, status: MeetingStatus, frees: bool
):
    customer = await open_customer(rig, 100)
    await register(rig, new_endpoint(customer))
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer)
    async with rig.store.begin() as tx:
        assert await tx.meetings.save_lifecycle(evolve(meeting, status=status), [new_event(customer)]) == 1
    assert await rig.queries.find_meeting(customer.account_id, meeting.id) == evolve(meeting, status=status)
    assert await is_free(rig, customer) is frees


async def test_a_lapsed_lease_is_taken_over_once(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host(max_concurrent=2))
    made = await reserved(rig, customer, Wish(lease_s=-1, key="k"))
    await reserved(rig, customer, Wish(lease_s=60))
    view = await cancel_view(rig, made.meeting)
    assert view is not None
    assert not view.is_leased
    lease = Lease(new_id(), 60)
    async with rig.store.begin() as tx:
        (lapsed,) = await tx.meetings.claim_lapsed(10, lease)
        assert (lapsed.account_id, lapsed.meeting_id, lapsed.token) == (
            customer.account_id,
            made.meeting.id,
            lease.token,
        )
        assert await tx.meetings.claim_lapsed(10, lease) == []
    assert await schedule(rig, made) is None
    assert await schedule(rig, evolve(made, lease=lease)) is not None


async def test_a_lease_is_taken_over_only_when_it_lapsed(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    made = await reserved(rig, customer, Wish(lease_s=60))
    assert not await take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))
    assert not await take_over(rig, customer.account_id, new_id(), Lease(new_id(), 60))
    assert await abandon(rig, made)
    assert not await take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))


async def test_one_lapsed_meeting_is_taken_over(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    made = await reserved(rig, customer, Wish(lease_s=-1))
    lease = Lease(new_id(), 60)
    assert await take_over(rig, customer.account_id, made.meeting.id, lease)
    assert not await take_over(rig, customer.account_id, made.meeting.id, Lease(new_id(), 60))
    assert await load_leased(rig, made) is None
    assert await load_leased(rig, made, lease.token) is not None


async def test_what_the_domain_refuses_leaves_no_trace(rig: Rig):
    customer = await open_customer(rig, 20, cap=15)
    await rig.plant(new_host())
    before = await money(rig, customer)
    with pytest.raises(InsufficientCredits):
        await reserved(rig, customer, Wish(credits=21))
    with pytest.raises(CreditCapExceeded):
        await reserved(rig, customer, Wish(credits=16))
    assert await money(rig, customer) == before
    assert await is_free(rig, customer)


async def test_a_read_that_waited_sees_what_the_lock_holder_wrote(rig: Rig):
    customer = await open_customer(rig, 100, cap=50)
    await rig.plant(new_host(), new_host())
    wish = Wish(key="k", credits=30)
    query = query_of(customer, wish)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query)
        waiting = asyncio.create_task(creation(rig, customer, wish))
        made = provisioning(customer, wish, view, view.free_hosts[0], query.operation)
        await until_somebody_waits(rig)
        assert await tx.meetings.save_provisioning(made)
    seen = await waiting
    assert (seen.funds, seen.usage) == (made.funds, made.usage)
    assert seen.idempotency.record is not None
    assert seen.idempotency.record.subject_id == made.meeting.id
    assert made.meeting.host_id not in {host.id for host in seen.free_hosts}


async def test_a_key_read_that_waited_sees_what_the_lock_holder_wrote(rig: Rig):
    customer = await open_customer(rig)
    done = IdempotencyRecord("k", b"f" * 32, is_done=True, answer=b"x")

    async def read() -> IdempotencyRecord | None:
        async with rig.store.begin() as tx:
            return (await tx.idempotency.load(customer.account_id, "k")).record

    async with rig.store.begin() as tx:
        await tx.idempotency.load(customer.account_id, "k")
        waiting = asyncio.create_task(read())
        await until_somebody_waits(rig)
        await tx.idempotency.save(customer.account_id, done)
    assert await waiting == done


async def test_a_cancellation_that_waited_sees_what_the_lock_holder_wrote(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    meeting = await scheduled(rig, customer)
    cancelling = evolve(meeting, status=MeetingStatus.CANCELLING)
    async with rig.store.begin() as tx:
        await tx.meetings.load_for_cancel(meeting.account_id, meeting.id, "k")
        waiting = asyncio.create_task(cancel_view(rig, meeting, "k"))
        await until_somebody_waits(rig)
        claim = Claim("k", b"f" * 32, meeting.id)
        await tx.meetings.save_cancelling(cancelling, Lease(new_id(), 60), claim)
    seen = await waiting
    assert seen is not None
    assert (seen.meeting, seen.is_leased) == (cancelling, True)
    assert seen.idempotency.record is not None


async def test_a_meeting_in_a_bearers_hands_is_not_taken_over(postgres_rig: PostgresRig):
    """Its lease lapsed, but the transaction that loaded it is about to finish the meeting."""
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    made: Provisioning = await reserved(rig, customer, Wish(lease_s=-1))
    async with rig.store.begin() as tx:
        assert await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.lease.token)
        async with rig.store.begin() as other:
            assert await other.meetings.claim_lapsed(10, Lease(new_id(), 60)) == []


async def settled_by(rig: Rig, view: LeaseView, *, at_once: bool = True) -> int | None:
    """The hold becomes the charge, as it is decided on a view that may be out of date."""
    assert view.hold is not None
    done = holds.settle(view.funds, view.usage, view.hold, view.hold.amount, new_id(), AT)
    assert done.posting.entry is not None
    room = Provisioned(f"room-{view.meeting.id}", "https://meet.example/x", "pw")
    meeting = view.meeting.as_provisioned(room, done.posting.entry.transfer.id)
    async with rig.store.at_once() if at_once else rig.store.begin() as tx:
        return await tx.meetings.save_scheduled(
            view, meeting, done.posting.funds, done.usage, done.posting.entry, [], None
        )


async def provisioned_view(rig: Rig, customer: Customer) -> LeaseView:
    made = await reserved(rig, customer, Wish())
    view = await load_leased(rig, made)
    assert view is not None
    return view


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_view_that_is_still_true_is_settled_in_one_statement(rig: Rig, at_once: bool):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    view = await provisioned_view(rig, customer)
    assert await settled_by(rig, view, at_once=at_once) == 0
    assert await rig.holds(customer.account_id) == []
    assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, -10]


async def test_nothing_is_settled_on_an_account_that_has_changed(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    view = await provisioned_view(rig, customer)
    await top_up(rig, customer, 5, "meanwhile")
    assert await settled_by(rig, view) is None
    assert await rig.holds(customer.account_id) == [10]
    assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, 5]


async def test_nothing_is_settled_twice(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    view = await provisioned_view(rig, customer)
    told = await asyncio.gather(*(settled_by(rig, view) for _ in range(5)))
    assert sorted(told, key=str) == [0, None, None, None, None]
    assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, -10]


async def test_nothing_is_settled_without_the_lease(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    view = await provisioned_view(rig, customer)
    assert await settled_by(rig, evolve(view, token=new_id())) is None
    assert await rig.holds(customer.account_id) == [10]


async def test_what_is_written_tells_the_view_to_go_on_from(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
    query = query_of(customer, Wish())
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query)
        made = provisioning(customer, Wish(), view, view.free_hosts[0], query.operation)
        told = await tx.meetings.save_provisioning(made)
    assert told == await load_leased(rig, made)
