"""Reads of meetings: pages by the shown status, and the next free start."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial, reduce

from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meetcore.domain.machine import step
from meetcore.domain.meetings.hosts import Host, next_creation_day
from meetcore.domain.meetings.meetings import (
    TRANSITIONS,
    VISIBLE,
    Meeting,
    MeetingEvent,
    MeetingStatus,
    shown_status,
)
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.domain.meetings.views import (
    FREE_START_WITHIN,
    MAX_ENDS_LOOKED_AT,
    FreeStartQuery,
    MeetingFilter,
    StartCursor,
)
from meetcore.domain.texts import search_words
from meetcore.ports.queries import MAX_PAGE
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    Customer,
    MeetingSpec,
    abandon,
    finish_cancelling,
    is_free,
    new_host,
    open_customer,
    reserve,
    reserved,
    schedule,
    start_cancelling,
)

# After every id that the suites make: a meeting is made before it starts, and a store may count on it.
SOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=3)
HOUR = timedelta(hours=1)
# How far each meeting of an account is taken.
ENDS: tuple[Sequence[MeetingEvent], ...] = (
    (),
    (MeetingEvent.ABANDON,),
    (MeetingEvent.PROVISIONED,),
    (MeetingEvent.PROVISIONED, MeetingEvent.START),
    (MeetingEvent.PROVISIONED, MeetingEvent.END),
    (MeetingEvent.PROVISIONED, MeetingEvent.CANCEL),
    (MeetingEvent.PROVISIONED, MeetingEvent.CANCEL, MeetingEvent.CANCELLED),
)
SHOWN = (None, *(MeetingStatus(name) for name in ("scheduled", "started", "ended", "cancelled")))


async def _live(
    rig: PostgresRig, customer: Customer, spec: MeetingSpec, steps: Sequence[MeetingEvent]
) -> Meeting:
    """A meeting that is taken so far."""
    made = await reserved(rig, customer, spec)
    if not steps:
        return made.meeting
    if steps[0] is MeetingEvent.ABANDON:
        assert await abandon(rig, made)
        return evolve(made.meeting, status=MeetingStatus.ABANDONED)
    meeting = await schedule(rig, made)
    assert meeting is not None
    refunded = None
    if MeetingEvent.CANCEL in steps:
        lease = await start_cancelling(rig, meeting)
        if MeetingEvent.CANCELLED in steps:
            await finish_cancelling(rig, meeting, lease)
            refunded = meeting.credits
    status = reduce(partial(step, TRANSITIONS), steps[1:], meeting.status)
    changed = evolve(meeting, status=status, credits_refunded=refunded)
    if status is MeetingStatus.STARTED:
        await rig.alone.meetings.save_progress(changed, changed.end_at)
    elif status is MeetingStatus.ENDED:
        await rig.alone.meetings.save_ended(changed, [])
    return changed


async def _list(
    rig: PostgresRig, customer: Customer, wanted: MeetingFilter, limit: int = MAX_PAGE
) -> list[Meeting]:
    return list(await rig.queries.list_meetings(customer.account_id, wanted, limit, None))


async def _pages_by_start(
    rig: PostgresRig, customer: Customer, wanted: MeetingFilter, limit: int, *, is_ascending: bool
) -> list[Meeting]:
    """Every page in the order of the starts, joined."""
    found: list[Meeting] = []
    while True:
        after = StartCursor(found[-1].start_at, found[-1].id) if found else None
        page = await rig.queries.list_meetings_by_start(
            customer.account_id, wanted, limit, after, is_ascending=is_ascending
        )
        found += page
        if len(page) < limit:
            return found


def _expected(made: Sequence[Meeting], wanted: MeetingFilter) -> list[Meeting]:
    """Apply the filter without a store."""

    def is_wanted(meeting: Meeting) -> bool:
        is_in_time = (wanted.starts_from or SOON - HOUR) <= meeting.start_at
        is_before = wanted.starts_before is None or meeting.start_at < wanted.starts_before
        stands = wanted.status in (None, shown_status(meeting, wanted.now))
        return meeting.status in VISIBLE and stands and is_in_time and is_before

    return [meeting for meeting in reversed(made) if is_wanted(meeting)]


def _hours(low: int, high: int) -> st.SearchStrategy[datetime]:
    """Full hours, and the instants right before and after them."""
    ticks = st.sampled_from([-1, 0, 0, 1])
    return st.builds(
        lambda hours, tick: SOON + hours * HOUR + timedelta(microseconds=tick), st.integers(low, high), ticks
    )


_HISTORIES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 2), st.sampled_from(ENDS)), min_size=1, max_size=6
)
_FILTERS = st.builds(
    MeetingFilter,
    now=_hours(-1, 7),
    status=st.sampled_from(SHOWN),
    starts_from=st.none() | _hours(-1, 5),
    starts_before=st.none() | _hours(-1, 5),
)


async def test_meetings_are_found_by_words_of_their_titles(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 1000), await open_customer(rig, 1000)
    await rig.put_hosts(new_host(max_concurrent=20))
    titles = ("Rapat Anggaran 2026", "rapat-besar (Q3)", "Demo: budi@example.com", "RAPAT besar", "***")
    made = [
        await _live(rig, customer, MeetingSpec(SOON + n * HOUR, title=title), ENDS[2])
        for n, title in enumerate(titles)
    ][::-1]
    await _live(rig, other, MeetingSpec(SOON, title="Rapat besar"), ENDS[2])
    searches = (
        "rapat",
        "RAP",
        "besar rapat",
        "q3",
        "example bud",
        "anggaran 20",
        "apat",
        "rapat demo",
        "'\\:*&|!()",
    )
    for search in searches:
        words = search_words(search)
        expected = [each for each in made if _has_words(each.title, words)]
        for wanted in (
            MeetingFilter(SOON - HOUR, words=words),
            MeetingFilter(SOON - HOUR, MeetingStatus.SCHEDULED, words=words),
            MeetingFilter(SOON - HOUR, None, SOON - HOUR, SOON + 99 * HOUR, words),
        ):
            assert await _list(rig, customer, wanted) == expected, search
            assert await _list(rig, customer, wanted, 1) == expected[:1], search
        later = MeetingFilter(SOON - HOUR, None, SOON + HOUR, words=words)
        assert await _list(rig, customer, later) == [one for one in expected if one != made[-1]]
        ended = MeetingFilter(SOON - HOUR, MeetingStatus.ENDED, words=words)
        assert await _list(rig, customer, ended) == []


@given(
    account_histories=_HISTORIES, filters=st.lists(_FILTERS, min_size=1, max_size=12), limit=st.integers(1, 4)
)
@settings(
    max_examples=25,
    deadline=None,
    database=None,
    # Each example opens an account of its own, and the instances that share this test keep no state.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
async def test_a_filter_is_that_of_the_domain(
    rig: PostgresRig,
    account_histories: list[tuple[int, int, Sequence[MeetingEvent]]],
    filters: list[MeetingFilter],
    limit: int,
) -> None:
    customer = await open_customer(rig, 1000, new_host(max_concurrent=10))
    made = [
        await _live(rig, customer, MeetingSpec(SOON + hour * HOUR, minutes=60 * hours), steps)
        for hour, hours, steps in account_histories
    ]
    for wanted in filters:
        expected = _expected(made, wanted)
        assert await _list(rig, customer, wanted) == expected
        assert await _list(rig, customer, wanted, limit) == expected[:limit]
        by_start = sorted(expected, key=lambda one: (one.start_at, one.id))
        assert await _pages_by_start(rig, customer, wanted, limit, is_ascending=True) == by_start
        assert await _pages_by_start(rig, customer, wanted, limit, is_ascending=False) == by_start[::-1]


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


@given(pool=_host_pools())
@settings(
    max_examples=30,
    deadline=None,
    database=None,
    # Each example has hosts of its own: those of the one before are disabled.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
async def test_the_next_free_start_is_the_first_half_hour_at_which_one_could_reserve(
    rig: PostgresRig, pool: HostPool
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


async def test_a_start_is_returned_up_to_seven_days_later(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    week = FREE_START_WITHIN // timedelta(minutes=1)
    await reserved(rig, customer, MeetingSpec(SOON, week))
    assert await rig.queries.next_free_start(_query()) == SOON + FREE_START_WITHIN
    await reserved(rig, customer, MeetingSpec(SOON + FREE_START_WITHIN, 30))
    assert await rig.queries.next_free_start(_query()) is None
    assert await rig.queries.next_free_start(_query(SOON + HALF_HOUR)) == (
        SOON + FREE_START_WITHIN + HALF_HOUR
    )


async def test_a_start_is_returned_as_far_ahead_as_a_meeting_may_be_made(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await reserved(rig, customer, MeetingSpec(SOON))
    free = SOON + 2 * HALF_HOUR
    on_time = free - timedelta(days=MAX_DAYS_AHEAD)
    tick = timedelta(microseconds=1)
    assert await rig.queries.next_free_start(_query(now=on_time)) == free
    assert await rig.queries.next_free_start(_query(now=on_time - tick)) is None
    assert await rig.queries.next_free_start(_query(free, now=on_time)) == free
    assert await rig.queries.next_free_start(_query(free, now=on_time - tick)) is None


async def test_only_so_many_reservations_are_looked_at(rig: PostgresRig) -> None:
    many = [new_host(5, max_concurrent=MAX_ENDS_LOOKED_AT // 2) for _ in range(2)]
    customer = await open_customer(rig, 10_000, new_host(10), *many)
    await reserved(rig, customer, MeetingSpec(SOON, 60, seats=10, credits=1))
    for _ in range(MAX_ENDS_LOOKED_AT - 1):
        await reserved(rig, customer, MeetingSpec(SOON, 30, seats=5, credits=1))
    assert await rig.queries.next_free_start(_query()) == SOON + 2 * HALF_HOUR
    await reserved(rig, customer, MeetingSpec(SOON, 30, seats=5, credits=1))
    assert await rig.queries.next_free_start(_query()) is None


async def test_the_next_creation_is_when_a_host_with_the_seats_may_take_one(rig: PostgresRig) -> None:
    later = NOW + timedelta(hours=1)
    midnight = next_creation_day(NOW)
    two_o_clock = midnight + timedelta(hours=2)
    await rig.put_hosts(*(evolve(host, is_active=False) for host in await rig.registry.list_hosts()))
    assert await rig.queries.next_creation_at(_query()) is None
    full = {"creations": PER_DAY, "creations_on": NOW.date()}
    wanted = evolve(_query(), per_day=PER_DAY)
    for host, first in (
        (new_host(9), None),
        (
            new_host(10, creations=PER_DAY, creations_on=midnight.date(), unavailable_until=midnight),
            midnight + timedelta(days=1),
        ),
        (new_host(10, **full, unavailable_until=two_o_clock), two_o_clock),
        (new_host(10, **full), midnight),
        (new_host(10, unavailable_until=later), later),
        (new_host(10, unavailable_until=NOW), NOW),
    ):
        await rig.put_hosts(host)
        assert await rig.queries.next_creation_at(wanted) == first
    assert await rig.queries.next_creation_at(evolve(wanted, seats=101)) is None


def _has_words(title: str, words: Iterable[str]) -> bool:
    """Return whether each of some words begins a word of a title."""
    found = re.findall(r"[^\W_]+", title.lower())
    return all(any(each.startswith(word) for each in found) for word in words)
