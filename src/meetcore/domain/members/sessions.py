"""Sessions: the signed-in members and operators, by browser, and their limits.

A session of a customer is of a member, or of a guest, in one account; one of an operator is another type,
stored elsewhere, so that neither is ever mistaken for the other. A session is over after 12 hours without
use, 30 days after it began, or when it was ended. Keys, members and what operators do with money need a
sign-in in the last 15 minutes.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import Attribute, field, frozen

from meetcore.domain.members.roles import Role

IDLE_LIMIT: Final = timedelta(hours=12)
ABSOLUTE_LIMIT: Final = timedelta(days=30)
FRESH_FOR: Final = timedelta(minutes=15)
VIEW_LIMIT: Final = timedelta(minutes=30)
"""How long an operator's view of a customer's dashboard lasts."""
SEEN_EVERY: Final = timedelta(minutes=1)
"""How often the last use is written at most."""
MAX_USER_AGENT: Final = 200
PAGES_PER_MINUTE: Final = 300
"""Requests for pages in one session, unless set otherwise: a person who clicks makes fewer."""


@frozen(kw_only=True)
class _SignedInSince:
    id: UUID
    created_at: datetime
    last_seen_at: datetime
    authenticated_at: datetime
    ended_at: datetime | None = None
    user_agent: str = ""
    client_address: str | None = None


def _is_of_one(session: "Session", _: "Attribute[Role | None]", value: Role | None) -> None:
    if (session.user_id is None) == (value is None):
        raise ValueError("a session is of a user or of a guest")


def _is_viewer(session: "Session", _: "Attribute[UUID | None]", value: UUID | None) -> None:
    if value is not None and session.guest_role is not Role.VIEWER:
        raise ValueError("an operator looks at an account as a viewer")


@frozen(kw_only=True)
class Session(_SignedInSince):
    """A customer's session in one account: a user's, or that of a guest with a role.

    `impersonated_by` is the operator who views the account in it, and changes nothing. One that `is_pinned`
    stays in its account, whatever others its user belongs to.
    """

    account_id: UUID
    user_id: UUID | None
    guest_role: Role | None = field(default=None, validator=_is_of_one)
    impersonated_by: UUID | None = field(default=None, validator=_is_viewer)
    is_pinned: bool = False


@frozen(kw_only=True)
class OperatorSession(_SignedInSince):
    """A session in the console."""

    operator_id: UUID


def is_open(session: Session | OperatorSession, now: datetime) -> bool:
    """Return whether a session may be used."""
    return (
        session.ended_at is None
        and now - session.last_seen_at < IDLE_LIMIT
        and now - session.created_at < (VIEW_LIMIT if is_view(session) else ABSOLUTE_LIMIT)
    )


def is_view(session: Session | OperatorSession) -> bool:
    """Return whether an operator views a customer's account in a session: nothing can be changed in it."""
    return isinstance(session, Session) and session.impersonated_by is not None


def is_fresh(session: Session | OperatorSession, now: datetime) -> bool:
    """Return whether the sign-in to an open session is recent enough for keys and money."""
    return is_open(session, now) and now - session.authenticated_at < FRESH_FOR


def needs_touch(session: Session | OperatorSession, now: datetime) -> bool:
    """Return whether the time of its last use is to be written again."""
    return now - session.last_seen_at >= SEEN_EVERY


def cut_user_agent(text: str) -> str:
    """Return the stored part of a browser's description, without control characters."""
    return "".join(each for each in text[:MAX_USER_AGENT] if each.isprintable())
