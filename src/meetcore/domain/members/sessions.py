"""Sessions: who is signed in, in which browser, and until when.

A session of a customer is of a member, or of a guest, in one account; one of an operator is another type,
stored elsewhere, so that neither is ever taken for the other. A session is over when nobody used it for 12
hours, 30 days after it began, or when it was ended. Keys and money need one that was signed in to in the
last 15 minutes.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import Attribute, field, frozen

from meetcore.domain.members.roles import Role

__all__ = [
    "ABSOLUTE_LIMIT",
    "FRESH_FOR",
    "IDLE_LIMIT",
    "MAX_USER_AGENT",
    "SEEN_EVERY",
    "VIEW_LIMIT",
    "OperatorSession",
    "Session",
    "cut_user_agent",
    "is_fresh",
    "is_open",
    "is_view",
    "needs_touch",
]

IDLE_LIMIT: Final = timedelta(hours=12)
ABSOLUTE_LIMIT: Final = timedelta(days=30)
FRESH_FOR: Final = timedelta(minutes=15)
VIEW_LIMIT: Final = timedelta(minutes=30)
"""How long an operator's view of a customer's dashboard lasts."""
SEEN_EVERY: Final = timedelta(minutes=1)
"""How often the last use is written at most."""
MAX_USER_AGENT: Final = 200


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
    """A customer's session in one account: a user's, or that of a guest of a role.

    `impersonated_by` is the operator who looks at the account in it, and changes nothing. One that
    `is_pinned` stays in its account, whatever others its user belongs to.
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
    """Whether a session may be used."""
    return (
        session.ended_at is None
        and now - session.last_seen_at < IDLE_LIMIT
        and now - session.created_at < (VIEW_LIMIT if is_view(session) else ABSOLUTE_LIMIT)
    )


def is_view(session: Session | OperatorSession) -> bool:
    """Whether an operator looks at a customer's account in a session: nothing can be changed in it."""
    return isinstance(session, Session) and session.impersonated_by is not None


def is_fresh(session: Session | OperatorSession, now: datetime) -> bool:
    """Whether an open session was signed in to a moment ago, as keys and money ask for."""
    return is_open(session, now) and now - session.authenticated_at < FRESH_FOR


def needs_touch(session: Session | OperatorSession, now: datetime) -> bool:
    """Whether the time of its last use is to be written again."""
    return now - session.last_seen_at >= SEEN_EVERY


def cut_user_agent(text: str) -> str:
    """A browser's own description, as much of it as is kept, without control characters."""
    return "".join(each for each in text[:MAX_USER_AGENT] if each.isprintable())
