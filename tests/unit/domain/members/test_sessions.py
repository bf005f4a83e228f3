"""When a session may be used, and when it is fresh."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import (
    ABSOLUTE_LIMIT,
    FRESH_FOR,
    IDLE_LIMIT,
    MAX_USER_AGENT,
    SEEN_EVERY,
    VIEW_LIMIT,
    OperatorSession,
    Session,
    cut_user_agent,
    is_fresh,
    is_open,
    is_view,
    needs_touch,
)

AT = datetime(2026, 12, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def session(**fields: Any) -> Session:
    new = Session(
        id=UUID(int=1), account_id=UUID(int=2), user_id=UUID(int=3), created_at=AT, last_seen_at=AT,
        authenticated_at=AT,
    )  # fmt: skip
    return evolve(new, **fields)


def test_a_session_is_over_when_it_was_not_used_for_long() -> None:
    assert is_open(session(), AT + IDLE_LIMIT - MOMENT)
    assert not is_open(session(), AT + IDLE_LIMIT)


def test_a_session_is_over_some_time_however_much_it_is_used() -> None:
    late = AT + ABSOLUTE_LIMIT
    assert is_open(session(last_seen_at=late), late - MOMENT)
    assert not is_open(session(last_seen_at=late), late)


def test_a_session_that_was_ended_is_over_and_not_fresh() -> None:
    ended = session(ended_at=AT)
    assert not is_open(ended, AT)
    assert not is_fresh(ended, AT)


def test_a_session_is_fresh_for_a_quarter_of_an_hour() -> None:
    assert is_fresh(session(), AT + FRESH_FOR - MOMENT)
    assert not is_fresh(session(), AT + FRESH_FOR)
    later = AT + timedelta(hours=1)
    assert is_fresh(session(authenticated_at=later), later)
    console = OperatorSession(
        id=UUID(int=1), operator_id=UUID(int=2), created_at=AT, last_seen_at=AT, authenticated_at=AT
    )
    assert is_fresh(console, AT)


def test_the_last_use_is_written_once_a_minute() -> None:
    assert not needs_touch(session(), AT + SEEN_EVERY - MOMENT)
    assert needs_touch(session(), AT + SEEN_EVERY)


def test_a_session_is_of_a_user_or_of_a_guest() -> None:
    guest = session(user_id=None, guest_role=Role.VIEWER)
    assert guest.user_id is None
    with pytest.raises(ValueError, match=r"^a session is of a user or of a guest$"):
        session(user_id=None)
    with pytest.raises(ValueError, match=r"^a session is of a user or of a guest$"):
        session(guest_role=Role.VIEWER)


@given(st.text())
def test_a_user_agent_is_cut_and_can_be_shown(text: str) -> None:
    cut = cut_user_agent(text)
    assert len(cut) <= MAX_USER_AGENT
    assert cut == "" or cut.isprintable()
    assert cut_user_agent("Mozilla/5.0\x00" + "x" * 500)[:11] == "Mozilla/5.0"


def test_an_operators_view_of_an_account_is_over_after_half_an_hour() -> None:
    view = session(user_id=None, guest_role=Role.VIEWER, impersonated_by=UUID(int=9))
    assert is_view(view)
    assert not is_view(session())
    assert is_open(evolve(view, last_seen_at=AT + VIEW_LIMIT), AT + VIEW_LIMIT - MOMENT)
    assert not is_open(evolve(view, last_seen_at=AT + VIEW_LIMIT), AT + VIEW_LIMIT)
    with pytest.raises(ValueError, match=r"^an operator looks at an account as a viewer$"):
        evolve(view, guest_role=Role.OWNER)
    with pytest.raises(ValueError, match=r"^an operator looks at an account as a viewer$"):
        session(impersonated_by=UUID(int=9))
