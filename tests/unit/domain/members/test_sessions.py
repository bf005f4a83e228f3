"""When a session may be used, and when it is fresh."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.members import sessions
from meetcore.domain.members.roles import Role

AT = datetime(2026, 12, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def session(**fields: Any) -> sessions.Session:
    new = sessions.Session(
        id=UUID(int=1), account_id=UUID(int=2), user_id=UUID(int=3), created_at=AT, last_seen_at=AT,
        authenticated_at=AT,
    )  # fmt: skip
    return evolve(new, **fields)


def test_a_session_is_over_when_it_was_not_used_for_long() -> None:
    assert sessions.is_open(session(), AT + sessions.IDLE_LIMIT - MOMENT)
    assert not sessions.is_open(session(), AT + sessions.IDLE_LIMIT)


def test_a_session_is_over_some_time_however_much_it_is_used() -> None:
    late = AT + sessions.ABSOLUTE_LIMIT
    assert sessions.is_open(session(last_seen_at=late), late - MOMENT)
    assert not sessions.is_open(session(last_seen_at=late), late)


def test_a_session_that_was_ended_is_over_and_not_fresh() -> None:
    ended = session(ended_at=AT)
    assert not sessions.is_open(ended, AT)
    assert not sessions.is_fresh(ended, AT)


def test_a_session_is_fresh_for_a_quarter_of_an_hour() -> None:
    assert sessions.is_fresh(session(), AT + sessions.FRESH_FOR - MOMENT)
    assert not sessions.is_fresh(session(), AT + sessions.FRESH_FOR)
    later = AT + timedelta(hours=1)
    assert sessions.is_fresh(session(authenticated_at=later), later)
    console = sessions.OperatorSession(
        id=UUID(int=1), operator_id=UUID(int=2), created_at=AT, last_seen_at=AT, authenticated_at=AT
    )
    assert sessions.is_fresh(console, AT)


def test_the_last_use_is_written_once_a_minute() -> None:
    assert not sessions.needs_touch(session(), AT + sessions.SEEN_EVERY - MOMENT)
    assert sessions.needs_touch(session(), AT + sessions.SEEN_EVERY)


def test_a_session_is_of_a_user_or_of_a_guest() -> None:
    guest = session(user_id=None, guest_role=Role.VIEWER)
    assert guest.user_id is None
    with pytest.raises(ValueError, match=r"^a session is of a user or of a guest$"):
        session(user_id=None)
    with pytest.raises(ValueError, match=r"^a session is of a user or of a guest$"):
        session(guest_role=Role.VIEWER)


@given(st.text())
def test_a_user_agent_is_cut_and_can_be_shown(text: str) -> None:
    cut = sessions.cut_user_agent(text)
    assert len(cut) <= sessions.MAX_USER_AGENT
    assert cut == "" or cut.isprintable()
    assert sessions.cut_user_agent("Mozilla/5.0\x00" + "x" * 500)[:11] == "Mozilla/5.0"


def test_an_operators_view_of_an_account_is_over_after_half_an_hour() -> None:
    view = session(user_id=None, guest_role=Role.VIEWER, impersonated_by=UUID(int=9))
    assert sessions.is_view(view)
    assert not sessions.is_view(session())
    assert sessions.is_open(
        evolve(view, last_seen_at=AT + sessions.VIEW_LIMIT), AT + sessions.VIEW_LIMIT - MOMENT
    )
    assert not sessions.is_open(evolve(view, last_seen_at=AT + sessions.VIEW_LIMIT), AT + sessions.VIEW_LIMIT)
    with pytest.raises(ValueError, match=r"^an operator looks at an account as a viewer$"):
        evolve(view, guest_role=Role.OWNER)
    with pytest.raises(ValueError, match=r"^an operator looks at an account as a viewer$"):
        session(impersonated_by=UUID(int=9))
