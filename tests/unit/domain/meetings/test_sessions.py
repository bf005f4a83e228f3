"""The sessions of a meeting: the order of their events is of no account."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings import sessions
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.sessions import Session, Sessions
from tests.unit.domain.meetings.test_meetings import END, MEETING, START

MINUTE = timedelta(minutes=1)


def at(minutes: int) -> datetime:
    return START + minutes * MINUTE


def held(*times: tuple[int | None, int | None]) -> Sessions:
    """Sessions from and to so many minutes after the start of the meeting; `None` is not told."""
    return tuple(
        Session(
            str(number), None if begin is None else at(begin), None if end is None else at(end)
        )
        for number, (begin, end) in enumerate(times)
    )  # fmt: skip


def recorded(reported: Iterable[Session]) -> Sessions:
    known: Sessions = ()
    for one in reported:
        known = sessions.record(known, one)
    return known


def reports() -> st.SearchStrategy[list[Session]]:
    times = st.integers(-60, 120).map(at)
    starts = st.builds(Session, st.sampled_from("abc"), times, st.none())
    ends = st.builds(Session, st.sampled_from("abc"), st.none(), times)
    return st.lists(starts | ends, max_size=8)


@given(reports(), st.randoms(use_true_random=False))
def test_the_order_and_the_number_of_the_reports_change_nothing(reported, random) -> None:
    shuffled = [*reported, *reported]
    random.shuffle(shuffled)
    assert recorded(shuffled) == recorded(reported)


@given(reports())
def test_each_session_is_there_once_with_what_was_told_of_it(reported: list[Session]) -> None:
    known = recorded(reported)
    assert {one.id for one in known} == {one.id for one in reported}
    for one in known:
        told = [each for each in reported if each.id == one.id]
        starts = [each.started_at for each in told if each.started_at is not None]
        ends = [each.ended_at for each in told if each.ended_at is not None]
        assert one == Session(one.id, min(starts, default=None), max(ends, default=None))


def test_the_sessions_beyond_the_limit_are_not_recorded() -> None:
    full = tuple(Session(str(number), at(0), at(1)) for number in range(sessions.MAX_SESSIONS))
    assert sessions.record(full, Session("another", at(5))) == full
    changed = sessions.record(full, Session("7", None, at(9)))
    assert len(changed) == len(full)
    assert Session("7", at(0), at(9)) in changed


@pytest.mark.parametrize(("known", "is_running", "was_held", "empty_since"), [
    ((), False, False, None),
    (held((-30, None)), True, False, None),
    (held((-30, -20)), False, False, None),
    (held((-30, 0)), False, False, None),
    (held((-30, 1)), False, True, 1),
    (held((0, None)), True, True, None),
    (held((None, 5)), False, True, 5),
    (held((5, 10), (10, 30)), False, True, 30),
    (held((5, 30), (10, 20)), False, True, 30),
    (held((5, 10), (12, None)), True, True, None),
    (held((-30, -20), (-10, None)), True, False, None),
])  # fmt: skip
def test_what_is_known_of_a_meeting(
    known: Sessions, is_running: bool, was_held: bool, empty_since: int | None
) -> None:
    assert sessions.is_running(known) is is_running
    assert sessions.was_held(MEETING, known) is was_held
    assert sessions.empty_since(MEETING, known) == (None if empty_since is None else at(empty_since))


def test_a_meeting_is_over_at_its_end_or_when_it_was_empty_for_long_enough() -> None:
    wait = timedelta(minutes=10)
    assert sessions.over_at(MEETING, (), wait) == END
    assert sessions.over_at(MEETING, held((-30, -20)), wait) == END
    assert sessions.over_at(MEETING, held((0, None)), wait) == END
    assert sessions.over_at(MEETING, held((0, 5)), wait) == at(15)
    almost = int((END - START) / MINUTE) - 5
    assert sessions.over_at(MEETING, held((0, almost)), wait) == END


STARTED, SCHEDULED = MeetingStatus.STARTED, MeetingStatus.SCHEDULED


@pytest.mark.parametrize("status", MeetingStatus)
@pytest.mark.parametrize("known", [held((0, None)), held((0, 5)), ()])
def test_only_a_meeting_that_is_not_over_follows_its_sessions(status: MeetingStatus, known: Sessions) -> None:
    followed = sessions.follow(evolve(MEETING, status=status), known)
    expected = status
    if status in (SCHEDULED, STARTED):
        expected = STARTED if sessions.is_running(known) else SCHEDULED
    assert followed == evolve(MEETING, status=expected)


@pytest.mark.parametrize("status", MeetingStatus)
def test_what_runs_under_a_meeting_that_is_over_is_to_be_ended(status: MeetingStatus) -> None:
    meeting = evolve(MEETING, status=status)
    is_over = status in (MeetingStatus.ENDED, MeetingStatus.CANCELLED)
    assert sessions.needs_clearing(meeting, held((0, None))) is is_over
    assert not sessions.needs_clearing(meeting, held((0, 5)))
