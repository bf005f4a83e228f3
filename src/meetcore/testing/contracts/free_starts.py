"""When a host is free next, in a store: held against asking for every half hour."""

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meetcore.domain.meetings.hosts import Host, next_creation_day
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.ports.queries import FREE_START_WITHIN, MAX_ENDS_LOOKED_AT, FreeStartQuery
from meetcore.testing.contracts.reads import is_free
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import MeetingSpec, new_host, open_customer, reserve, reserved

SOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=3)
NOW = SOON - timedelta(days=1)
HALF_HOUR = timedelta(minutes=30)
PER_DAY = 3
_EVENING = 16  # half hours after which there are no reservations


@frozen
class HostPool:
    """Hosts, the meetings requested while all hosts are active, and the meeting to place."""

    hosts: list[Host]
    specs: list[MeetingSpec]
    seats: int
    start: int
    halves: int


def _hosts() -> st.SearchStrategy[Host]:
    return st.builds(
        new_host,
        st.sampled_from([10, 20, 50]),
        max_concurrent=st.integers(1, 2),
        is_active=st.sampled_from([True, True, True, False]),
        creations=st.integers(0, PER_DAY),
        creations_on=st.sampled_from([None, NOW.date(), NOW.date() - timedelta(days=1)]),
        unavailable_until=st.sampled_from([None, None, NOW, NOW + timedelta(seconds=1)]),
    )


def _host_pools() -> st.SearchStrategy[HostPool]:
    specs = st.builds(
        lambda at, halves, seats: MeetingSpec(SOON + at * HALF_HOUR, 30 * halves, seats, credits=1),
        st.integers(0, 10), st.integers(1, 5), st.sampled_from([5, 15, 30]),
    )  # fmt: skip
    seats = st.sampled_from([5, 15, 30, 60])
    return st.builds(
        HostPool, st.lists(_hosts(), max_size=3), st.lists(specs, max_size=14), seats, st.integers(0, 9),
        st.integers(1, 4),
    )  # fmt: skip


def _plain(host: Host, *, is_active: bool = True) -> Host:
    """The host with nothing against it but, perhaps, that it is disabled."""
    return Host(host.id, host.provider_user_id, host.capacity, host.max_concurrent, is_active=is_active)


def _query(start_at: datetime = SOON, now: datetime = NOW) -> FreeStartQuery:
    return FreeStartQuery(10, start_at, 60, now)


@pytest.mark.asyncio
class FreeStartQueries:
    """A part of `QueriesContract`."""

    @given(pool=_host_pools())
    @settings(
        max_examples=30,
        deadline=None,
        database=None,
        # Each example has hosts of its own: those of the one before are disabled.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    async def test_the_next_free_start_is_the_first_half_hour_at_which_one_could_reserve(
        self, rig: QueriesRig, pool: HostPool
    ) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(*(evolve(host, is_active=False) for host in await rig.registry.list_hosts()))
        await rig.put_hosts(*(_plain(one) for one in pool.hosts))
        for spec in pool.specs:
            await reserve(rig, customer, spec)
        uses = {host.id: host.uses for host in await rig.registry.list_hosts()}
        await rig.put_hosts(*(evolve(one, uses=uses[one.id]) for one in pool.hosts))
        start_at, minutes = SOON + pool.start * HALF_HOUR, 30 * pool.halves
        found = await rig.queries.next_free_start(FreeStartQuery(pool.seats, start_at, minutes, NOW, PER_DAY))
        await rig.put_hosts(*(_plain(one, is_active=one.can_take(NOW, PER_DAY)) for one in pool.hosts))
        first = None
        for half in range(pool.start, _EVENING):
            spec = MeetingSpec(SOON + half * HALF_HOUR, minutes, pool.seats)
            if first is None and await is_free(rig, customer, spec):
                first = spec.start_at
        assert found == first

    async def test_a_start_is_returned_up_to_seven_days_later(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        week = FREE_START_WITHIN // timedelta(minutes=1)
        await reserved(rig, customer, MeetingSpec(SOON, week))
        assert await rig.queries.next_free_start(_query()) == SOON + FREE_START_WITHIN
        await reserved(rig, customer, MeetingSpec(SOON + FREE_START_WITHIN, 30))
        assert await rig.queries.next_free_start(_query()) is None
        assert await rig.queries.next_free_start(_query(SOON + HALF_HOUR)) == (
            SOON + FREE_START_WITHIN + HALF_HOUR
        )

    async def test_a_start_is_returned_as_far_ahead_as_a_meeting_may_be_made(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await reserved(rig, customer, MeetingSpec(SOON))
        free = SOON + 2 * HALF_HOUR
        on_time = free - timedelta(days=MAX_DAYS_AHEAD)
        tick = timedelta(microseconds=1)
        assert await rig.queries.next_free_start(_query(now=on_time)) == free
        assert await rig.queries.next_free_start(_query(now=on_time - tick)) is None
        assert await rig.queries.next_free_start(_query(free, now=on_time)) == free
        assert await rig.queries.next_free_start(_query(free, now=on_time - tick)) is None

    async def test_only_so_many_reservations_are_looked_at(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 10_000)
        await rig.put_hosts(new_host(10), new_host(5, max_concurrent=MAX_ENDS_LOOKED_AT))
        await reserved(rig, customer, MeetingSpec(SOON, 60, seats=10, credits=1))
        for _ in range(MAX_ENDS_LOOKED_AT - 1):
            await reserved(rig, customer, MeetingSpec(SOON, 30, seats=5, credits=1))
        assert await rig.queries.next_free_start(_query()) == SOON + 2 * HALF_HOUR
        await reserved(rig, customer, MeetingSpec(SOON, 30, seats=5, credits=1))
        assert await rig.queries.next_free_start(_query()) is None

    async def test_the_next_creation_is_when_a_host_with_the_seats_may_take_one(
        self, rig: QueriesRig
    ) -> None:
        later = NOW + timedelta(hours=1)
        midnight = next_creation_day(NOW)
        two_o_clock = midnight + timedelta(hours=2)
        await rig.put_hosts(*(evolve(host, is_active=False) for host in await rig.registry.list_hosts()))
        assert await rig.queries.next_creation_at(_query()) is None
        full = {"creations": PER_DAY, "creations_on": NOW.date()}
        wanted = evolve(_query(), per_day=PER_DAY)
        for host, first in (
            (new_host(9), None),
            (new_host(10, **full, unavailable_until=two_o_clock), two_o_clock),
            (new_host(10, **full), midnight),
            (new_host(10, unavailable_until=later), later),
            (new_host(10, unavailable_until=NOW), NOW),
        ):
            await rig.put_hosts(host)
            assert await rig.queries.next_creation_at(wanted) == first
        assert await rig.queries.next_creation_at(evolve(wanted, seats=101)) is None

    async def test_a_throttle_past_midnight_ends_in_a_new_day(self, rig: QueriesRig) -> None:
        await rig.put_hosts(*(evolve(host, is_active=False) for host in await rig.registry.list_hosts()))
        tomorrow = next_creation_day(NOW)
        await rig.put_hosts(
            new_host(10, creations=PER_DAY, creations_on=tomorrow.date(), unavailable_until=tomorrow)
        )
        wanted = evolve(_query(), per_day=PER_DAY)
        assert await rig.queries.next_creation_at(wanted) == tomorrow + timedelta(days=1)
