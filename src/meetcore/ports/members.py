"""Users, memberships and invitations as a transaction sees them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.members.members import Invitation, Membership, User

__all__ = ["MemberRepository"]


class MemberRepository(Protocol):
    """Who belongs to which account."""

    async def ensure_user(self, user: User) -> User:
        """Write a user, unless one has this e-mail address by `email_key`; return who has it.

        Of several at once with one address, one is written and all get it.
        """

    async def load_members(self, account_id: UUID) -> Sequence[Membership]:
        """Every membership of an account, the oldest first; the caller holds the account's lock."""

    async def load_memberships(self, user_id: UUID) -> Sequence[Membership]:
        """Every membership of a user, the oldest first."""

    async def add_membership(self, membership: Membership) -> bool:
        """Make a user a member; the caller holds the account's lock.

        Returns:
            False when the user is a member already, and nothing was written.
        """

    async def save_membership(self, membership: Membership) -> None:
        """Write the role of a member; the caller holds the account's lock."""

    async def remove_membership(self, account_id: UUID, user_id: UUID, at: datetime) -> None:
        """End a membership and the user's sessions in the account; the caller holds the account's lock."""

    async def add_invitation(self, invitation: Invitation) -> None:
        """Write an invitation; one to the same address that is pending is revoked from its time on.

        The caller holds the account's lock.
        """

    async def load_invitation(self, invitation_id: UUID) -> Invitation | None:
        """Lock an invitation and read it."""

    async def save_invitation(self, invitation: Invitation) -> None:
        """Write when an invitation was accepted or revoked."""
