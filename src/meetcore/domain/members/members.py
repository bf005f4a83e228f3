"""Users, their memberships in accounts, and invitations.

A user is known by an e-mail address, without regard to case, and may be a member of several accounts. An
account always has an owner: its lock orders the changes of its members.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language


@frozen
class User:
    """A person who signs in, known by an e-mail address.

    `language` is that of mails to them: of the browser at the first sign-in, until they choose one.
    """

    id: UUID
    email: str
    full_name: str
    created_at: datetime
    language: Language | None = None


@frozen
class Membership:
    """A user's role in an account."""

    account_id: UUID
    user_id: UUID
    role: Role
    created_at: datetime


@frozen
class Member:
    """A member of an account, with name and address."""

    user: User
    membership: Membership


@frozen
class Invitation:
    """An invitation by e-mail. `invited_by` is a user, or `None` where an operator or the system invites."""

    id: UUID
    account_id: UUID
    email: str
    role: Role
    invited_by: UUID | None
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None = None
    revoked_at: datetime | None = None


MAX_PENDING_INVITATIONS: Final = 50
"""Invitations of an account that can be accepted."""
INVITATIONS_BEFORE_CREDITS: Final = 5
"""Invitations in a day of an account that has never had credits."""
INVITATIONS_WINDOW: Final = timedelta(days=1)


@frozen
class InvitationCounts:
    """The invitations of an account that are pending, and those that were made in the last day."""

    pending: int
    today: int
    had_credits: bool


def invitations_left(counts: InvitationCounts) -> int:
    """Return how many invitations an account can make now."""
    left = MAX_PENDING_INVITATIONS - counts.pending
    if not counts.had_credits:
        left = min(left, INVITATIONS_BEFORE_CREDITS - counts.today)
    return max(0, left)


def check_invitations(counts: InvitationCounts) -> None:
    """Raise `Unprocessable` for an account that can make no invitation now."""
    if invitations_left(counts):
        return
    if counts.pending >= MAX_PENDING_INVITATIONS:
        raise Unprocessable(f"{MAX_PENDING_INVITATIONS} invitations are pending. Take one back first.")
    limit = INVITATIONS_BEFORE_CREDITS
    raise Unprocessable(
        f"Before its first top-up an account makes {limit} invitations a day. Go on tomorrow."
    )


def is_pending(invitation: Invitation, now: datetime) -> bool:
    """Return whether an invitation can be accepted."""
    return invitation.accepted_at is None and invitation.revoked_at is None and now < invitation.expires_at


def check_owner_stays(members: Iterable[Membership], user_id: UUID, role: Role | None) -> Membership:
    """Check a change of a member's role, `None` to end the membership; return the present membership.

    Raises:
        NotFound: the user is no member.
        Unprocessable: the account would be without an owner.
    """
    found = {each.user_id: each for each in members}
    if user_id not in found:
        raise NotFound("No member with this id.")
    others = any(each.role is Role.OWNER for each in found.values() if each.user_id != user_id)
    if role is not Role.OWNER and not others and found[user_id].role is Role.OWNER:
        raise Unprocessable("An account needs an owner. Make another member an owner first.")
    return found[user_id]
