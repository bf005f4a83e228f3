"""Pages of meetings in a store: what a customer sees of them, the newest first, filtered by what is shown."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meetcore.domain.meetings.meetings import (
    VISIBLE,
    Meeting,
    MeetingEvent,
    MeetingStatus,
    shown_status,
    transition,
)
from meetcore.domain.meetings.title_search import has_words, search_words
from meetcore.ports.queries import MAX_PAGE, MeetingFilter
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import (
    Customer,
    MeetingSpec,
    abandon,
    finish_cancelling,
    new_host,
    open_customer,
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
    rig: QueriesRig, customer: Customer, spec: MeetingSpec, steps: Sequence[MeetingEvent]
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
    status = reduce(transition, steps[1:], meeting.status)
    changed = evolve(meeting, status=status, credits_refunded=refunded)
    if status in (MeetingStatus.STARTED, MeetingStatus.ENDED):
        async with rig.store.begin() as tx:
            await tx.meetings.save_lifecycle(changed, [], invalidates_host_key=False)
    return changed


async def _list(
    rig: QueriesRig, customer: Customer, wanted: MeetingFilter, limit: int = MAX_PAGE
) -> list[Meeting]:
    return list(await rig.queries.list_meetings(customer.account_id, wanted, limit, None))


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


@pytest.mark.asyncio
class MeetingQueries:
    """A part of `QueriesContract`."""

    async def test_meetings_are_listed_newest_first_each_account_its_own(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 1000), await open_customer(rig, 1000)
        await rig.put_hosts(new_host(max_concurrent=20))
        made = [await _live(rig, customer, MeetingSpec(SOON + n * HOUR), ENDS[2]) for n in (3, 1, 2)]
        await _live(rig, other, MeetingSpec(SOON), ENDS[2])
        wanted = MeetingFilter(SOON - HOUR)
        assert await _list(rig, customer, wanted) == made[::-1]
        assert await _list(rig, await open_customer(rig), wanted) == []

    @pytest.mark.parametrize("steps", ENDS, ids=lambda steps: "-".join(steps) or "made")
    async def test_where_a_meeting_stands_is_what_the_clock_shows(
        self, rig: QueriesRig, steps: Sequence[MeetingEvent]
    ) -> None:
        customer = await open_customer(rig, 1000)
        await rig.put_hosts(new_host())
        made = [await _live(rig, customer, MeetingSpec(SOON), steps)]
        for minutes in (-1, 0, 30, 60, 61):
            now = SOON + timedelta(minutes=minutes)
            for status in SHOWN:
                wanted = MeetingFilter(now, status)
                assert await _list(rig, customer, wanted) == _expected(made, wanted), (now, status)
                wanted = MeetingFilter(now, status, SOON, SOON + HOUR)
                assert await _list(rig, customer, wanted) == _expected(made, wanted), (now, status)

    async def test_a_range_has_its_beginning_and_not_its_end(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 1000)
        await rig.put_hosts(new_host())
        made = [await _live(rig, customer, MeetingSpec(SOON + n * HOUR), ENDS[2]) for n in range(4)]

        async def found(first: datetime | None = None, last: datetime | None = None) -> list[Meeting]:
            return await _list(rig, customer, MeetingFilter(SOON - HOUR, None, first, last))

        tick = timedelta(microseconds=1)
        assert await found(SOON + HOUR) == made[:0:-1]
        assert await found(SOON + HOUR + tick) == made[:1:-1]
        assert await found(None, SOON + HOUR) == made[:1]
        assert await found(None, SOON + HOUR + tick) == made[1::-1]
        assert await found(SOON + HOUR, SOON + 3 * HOUR) == made[2:0:-1]
        assert await found(SOON + HOUR, SOON + HOUR) == []

    @pytest.mark.parametrize(
        "wanted",
        [
            MeetingFilter(SOON - HOUR),
            MeetingFilter(SOON - HOUR, MeetingStatus.SCHEDULED),
            MeetingFilter(SOON - HOUR, None, SOON, SOON + 9 * HOUR),
        ],
        ids=["all", "status", "range"],
    )
    async def test_meetings_come_in_pages(self, rig: QueriesRig, wanted: MeetingFilter) -> None:
        customer = await open_customer(rig, 1000)
        await rig.put_hosts(new_host())
        made = [await _live(rig, customer, MeetingSpec(SOON + n * HOUR), ENDS[2]) for n in range(5)][::-1]
        pages: list[list[Meeting]] = []
        before: UUID | None = None
        while page := list(await rig.queries.list_meetings(customer.account_id, wanted, 2, before)):
            pages.append(page)
            before = page[-1].id
        assert pages == [made[:2], made[2:4], made[4:]]

    async def test_meetings_are_found_by_words_of_their_titles(self, rig: QueriesRig) -> None:
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
            expected = [each for each in made if has_words(each.title, words)]
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
        account_histories=_HISTORIES,
        filters=st.lists(_FILTERS, min_size=1, max_size=12),
        limit=st.integers(1, 4),
    )
    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        # Each example opens an account of its own, and the instances that share this test keep no state.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    async def test_a_filter_is_that_of_the_domain(
        self,
        rig: QueriesRig,
        account_histories: list[tuple[int, int, Sequence[MeetingEvent]]],
        filters: list[MeetingFilter],
        limit: int,
    ) -> None:
        customer = await open_customer(rig, 1000)
        await rig.put_hosts(new_host(max_concurrent=10))
        made = [
            await _live(rig, customer, MeetingSpec(SOON + hour * HOUR, minutes=60 * hours), steps)
            for hour, hours, steps in account_histories
        ]
        for wanted in filters:
            expected = _expected(made, wanted)
            assert await _list(rig, customer, wanted) == expected
            assert await _list(rig, customer, wanted, limit) == expected[:limit]
