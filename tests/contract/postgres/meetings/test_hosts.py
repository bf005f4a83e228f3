"""Hosts: the best fit, never booked twice, never refused while one is free."""

import asyncio
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meetcore.domain.errors import CreditCapExceeded, InsufficientCredits
from meetcore.domain.meetings.hosts import Host, choose_host
from meetcore.domain.meetings.views import LeaseView
from meetcore.domain.money.ledger import first_broken
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    TOMORROW,
    Customer,
    MeetingSpec,
    abandon,
    new_host,
    new_id,
    open_customer,
    provisioning,
    query_of,
    reserve,
    reserved,
    schedule,
    top_up,
)

pytestmark = pytest.mark.spec("1/credits", "5/7")


MINUTE = timedelta(minutes=1)
MANY = 40  # more than an adapter may look at one by one


async def _candidate(rig: PostgresRig, customer: Customer, spec: MeetingSpec) -> Host | None:
    view = await rig.alone.meetings.load_creation(query_of(customer, spec))
    assert not view.is_contended
    return choose_host(view.free_hosts, spec.seats)


async def _customers(rig: PostgresRig, count: int, credits: int = 100) -> list[Customer]:
    return [await open_customer(rig, credits) for _ in range(count)]


@st.composite
def _pools(draw: st.DrawFn) -> tuple[list[Host], list[bool], MeetingSpec]:
    """Hosts, which of them are busy, and the request; often many hosts that are alike."""
    often = st.sampled_from([True, True, True, False])
    days = st.sampled_from([None, AT.date(), AT.date() - timedelta(days=1)])
    throttles = st.sampled_from([None, None, AT, AT + timedelta(microseconds=1)])
    shape = st.tuples(
        st.sampled_from([10, 10, 20, 50]), st.integers(0, 2), often, days, st.integers(0, 3), throttles, often
    )
    shapes = draw(st.lists(shape, min_size=draw(st.sampled_from([0, 5])), max_size=7))
    ids = draw(st.permutations([UUID(int=number << 96) for number in range(1, len(shapes) + 1)]))
    hosts = [
        Host(id_, f"user-{id_}", capacity, 1, uses, is_active, creations, day, unavailable_until)
        for id_, (capacity, uses, is_active, day, creations, unavailable_until, _) in zip(
            ids, shapes, strict=True
        )
    ]
    spec = MeetingSpec(
        seats=draw(st.sampled_from([1, 10, 11, 20, 51])), per_day=draw(st.sampled_from([None, None, 1, 2]))
    )
    return hosts, [not is_free for *_, is_free in shapes], spec


async def test_ranges_that_touch_do_not_overlap(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await reserved(rig, customer, MeetingSpec(TOMORROW, 60))
    for start, minutes, is_free in [
        (TOMORROW - 60 * MINUTE, 60, True),
        (TOMORROW + 60 * MINUTE, 60, True),
        (TOMORROW - 59 * MINUTE, 60, False),
        (TOMORROW + 59 * MINUTE, 60, False),
        (TOMORROW + 20 * MINUTE, 10, False),
        (TOMORROW - 20 * MINUTE, 200, False),
    ]:
        assert (await _candidate(rig, customer, MeetingSpec(start, minutes)) is not None) is is_free


async def test_the_last_of_many_hosts_is_found(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 1000)
    many = [new_host(100 + number) for number in range(MANY)]
    double, last = new_host(200, max_concurrent=2), new_host(300)
    await rig.put_hosts(last, double, *many)
    for host in [*many, double]:
        for half in (TOMORROW, TOMORROW + 30 * MINUTE):
            await reserved(rig, customer, MeetingSpec(half, 30, seats=host.capacity, credits=1))
    # Both meetings of the double host are in one slot: the other is free for the whole hour.
    assert (await reserved(rig, customer, MeetingSpec(credits=1))).meeting.host_id == double.id
    for start, minutes, host in [
        (TOMORROW, 1, last),
        (TOMORROW + 59 * MINUTE, 600, last),
        (TOMORROW - 600 * MINUTE, 601, last),
        (TOMORROW + 60 * MINUTE, 60, many[0]),
    ]:
        found = await _candidate(rig, customer, MeetingSpec(start, minutes))
        assert found is not None
        assert found.id == host.id
    assert (await reserved(rig, customer, MeetingSpec(credits=1))).meeting.host_id == last.id
    assert await reserve(rig, customer, MeetingSpec(minutes=1)) is None


@pytest.mark.parametrize("gone", ["taken", "disabled", "unknown"])
async def test_a_host_taken_meanwhile_is_reported_and_nothing_is_kept(rig: PostgresRig, gone: str) -> None:
    customer = await open_customer(rig, 1000)
    host = new_host()
    await rig.put_hosts(host)
    query = query_of(customer, MeetingSpec(key="k"))
    view = await rig.alone.meetings.load_creation(query)
    made = provisioning(customer, MeetingSpec(key="k"), view, query)
    if gone == "taken":
        await reserved(rig, await open_customer(rig, 100), MeetingSpec())
    elif gone == "disabled":
        await rig.alone.registry.set_host_active(host.id, is_active=False)
    else:
        made = evolve(made, meeting=evolve(made.meeting, host_id=new_id()))
    before = await rig.registry.list_hosts()
    assert not await rig.alone.meetings.save_provisioning(made)
    assert list(await rig.registry.list_hosts()) == list(before)
    assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) is None
    after = await rig.alone.meetings.load_creation(query)
    assert (after.funds, after.usage, after.idempotency.record) == (view.funds, view.usage, None)


@pytest.mark.parametrize("is_one_account", [True, False])
async def test_twenty_race_for_five_hosts(rig: PostgresRig, is_one_account: bool) -> None:
    hosts = [new_host(capacity) for capacity in (10, 10, 20, 50, 50)]
    await rig.put_hosts(*hosts)
    customers = await _customers(rig, 1, 1000) * 20 if is_one_account else await _customers(rig, 20)
    outcomes = await asyncio.gather(*(reserve(rig, one, MeetingSpec()) for one in customers))
    made = [one for one in outcomes if isinstance(one, LeaseView)]
    assert {one.meeting.host_id for one in made} == {host.id for host in hosts}
    assert (len(made), outcomes.count(None)) == (5, 15)


async def test_twenty_race_for_the_slots_of_two_hosts(rig: PostgresRig) -> None:
    await rig.put_hosts(new_host(max_concurrent=3), new_host(max_concurrent=4))
    outcomes = await asyncio.gather(*(reserve(rig, one, MeetingSpec()) for one in await _customers(rig, 20)))
    assert sum(isinstance(outcome, LeaseView) for outcome in outcomes) == 7
    assert sorted(host.uses for host in await rig.registry.list_hosts()) == [3, 4]


async def test_as_many_hosts_as_requests_refuse_no_request(rig: PostgresRig) -> None:
    await rig.put_hosts(*(new_host(capacity) for capacity in range(10, 30)))
    outcomes = await asyncio.gather(*(reserve(rig, one, MeetingSpec()) for one in await _customers(rig, 20)))
    made = [one for one in outcomes if isinstance(one, LeaseView)]
    assert len({one.meeting.host_id for one in made}) == 20


async def test_small_meetings_in_a_race_leave_the_large_hosts_to_large_ones(rig: PostgresRig) -> None:
    await rig.put_hosts(new_host(10, max_concurrent=4), *(new_host(1000) for _ in range(4)))
    specs = [MeetingSpec(seats=10), MeetingSpec(seats=1000)] * 4
    customers = await _customers(rig, len(specs))
    outcomes = await asyncio.gather(*map(reserve, [rig] * len(customers), customers, specs))
    assert all(isinstance(outcome, LeaseView) for outcome in outcomes)


async def test_two_meetings_race_for_the_last_credits(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 10, new_host(), new_host())
    outcomes = await asyncio.gather(*(reserve(rig, customer, MeetingSpec(credits=10)) for _ in range(2)))
    assert sum(isinstance(outcome, LeaseView) for outcome in outcomes) == 1
    assert outcomes.count(InsufficientCredits.code) == 1
    assert await rig.holds(customer.account_id) == [10]


async def test_meetings_race_for_the_remainder_of_a_cap(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 1000, *(new_host() for _ in range(8)), cap=35)
    outcomes = await asyncio.gather(*(reserve(rig, customer, MeetingSpec(credits=10)) for _ in range(8)))
    assert outcomes.count(CreditCapExceeded.code) == 5
    assert await rig.holds(customer.account_id) == [10] * 3


async def test_making_meetings_and_topping_up_at_once_adds_up(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 35, *(new_host() for _ in range(10)))

    async def make() -> object:
        made = await reserve(rig, customer, MeetingSpec(credits=10))
        if isinstance(made, LeaseView):
            assert await schedule(rig, made) is not None
        return made

    top_ups = [top_up(rig, customer, 5, f"INV-{n}") for n in range(8)]
    outcomes = await asyncio.gather(*(make() for _ in range(8)), *top_ups)
    refused = outcomes.count(InsufficientCredits.code)
    entries = await rig.entries(customer.account_id)
    assert first_broken(customer.account_id, entries) is None
    assert entries[-1].balance_after == 35 + 8 * 5 - (8 - refused) * 10
    assert min(entry.balance_after for entry in entries) >= 0
    assert sum(amount for _, amount in await rig.legs(customer.account_id)) == 0


@given(pool=_pools())
@settings(
    max_examples=40,
    deadline=None,
    database=None,
    # The rig is emptied in each example, and the instances that share this test keep no state.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
async def test_the_candidate_is_the_choice_among_all_that_are_free(
    rig: PostgresRig, pool: tuple[list[Host], list[bool], MeetingSpec]
) -> None:
    hosts, busy, spec = pool
    await rig.reset()
    customer = await open_customer(rig, 1000)
    for host, is_busy in zip(hosts, busy, strict=True):
        if is_busy:
            await rig.put_hosts(evolve(host, is_active=True, capacity=1000, unavailable_until=None))
            await reserved(rig, customer, MeetingSpec(seats=1000, minutes=30))
    await rig.put_hosts(*hosts)
    free = [
        host
        for host, is_busy in zip(hosts, busy, strict=True)
        if not is_busy and host.can_take(AT, spec.per_day)
    ]
    assert await _candidate(rig, customer, spec) == choose_host(free, spec.seats)


async def test_a_new_day_counts_anew(rig: PostgresRig) -> None:
    host = evolve(new_host(), creations=2, creations_on=AT.date() - timedelta(days=1))
    await rig.put_hosts(host)
    await reserved(rig, await open_customer(rig, 100), MeetingSpec(per_day=2))
    assert list(await rig.registry.list_hosts()) == [
        evolve(host, uses=1, creations=1, creations_on=AT.date())
    ]


async def test_a_request_of_yesterday_that_comes_late_counts_for_today(rig: PostgresRig) -> None:
    today = evolve(new_host(), creations=2, creations_on=AT.date() + timedelta(days=1))
    await rig.put_hosts(today)
    await reserved(rig, await open_customer(rig, 100), MeetingSpec(per_day=2))
    assert list(await rig.registry.list_hosts()) == [evolve(today, uses=1, creations=3)]


async def test_what_was_not_made_counts_for_nothing_in_the_day(rig: PostgresRig) -> None:
    host = new_host()
    customer = await open_customer(rig, 100, host)
    for uses in (1, 2):
        made = await reserved(rig, customer, MeetingSpec(per_day=1))
        assert await abandon(rig, made)
        assert list(await rig.registry.list_hosts()) == [
            evolve(host, uses=uses, creations=0, creations_on=AT.date())
        ]


async def test_what_was_not_made_yesterday_is_not_given_back_today(rig: PostgresRig) -> None:
    host = new_host()
    await rig.put_hosts(host)
    made = await reserved(rig, await open_customer(rig, 100), MeetingSpec())
    today = evolve(host, creations=3, creations_on=AT.date() + timedelta(days=1))
    await rig.put_hosts(today)
    assert await abandon(rig, made)
    assert list(await rig.registry.list_hosts()) == [today]


async def test_a_throttle_is_never_shortened(rig: PostgresRig) -> None:
    until = AT + timedelta(hours=2)
    host = new_host()
    await rig.put_hosts(host)
    made = await reserved(rig, await open_customer(rig, 100), MeetingSpec())
    await rig.put_hosts(evolve(host, unavailable_until=until))
    assert await abandon(rig, made, unavailable_until=until - timedelta(hours=1))
    assert (await rig.registry.list_hosts())[0].unavailable_until == until


async def test_postgres_itself_refuses_two_meetings_on_one_slot(rig: PostgresRig):
    await rig.put_hosts(new_host())
    made = await reserved(rig, await open_customer(rig, 100), MeetingSpec())
    with pytest.raises(psycopg.errors.ExclusionViolation):
        await rig.rows(
            """INSERT INTO host_reservations
            SELECT account_id, gen_random_uuid(), host_id, slot, during FROM host_reservations
            WHERE meeting_id = %(id)s""",
            id=made.meeting.id,
        )


async def test_a_free_host_in_other_hands_is_contended_and_waited_for(rig: PostgresRig):
    await rig.put_hosts(new_host())
    one, other = await open_customer(rig, 100), await open_customer(rig, 100)
    query = query_of(one, MeetingSpec())
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query)
        assert len(view.free_hosts) == 1
        async with rig.store.begin() as existing_note:
            other_view = await existing_note.meetings.load_creation(query_of(other, MeetingSpec()))
            assert (list(other_view.free_hosts), other_view.is_contended) == ([], True)
        waiting = asyncio.create_task(reserve(rig, other, MeetingSpec()))
        made = provisioning(one, MeetingSpec(), view, query)
        assert await tx.meetings.save_provisioning(made)
    assert await waiting is None
