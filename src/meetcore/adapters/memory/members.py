"""Users, memberships and invitations in memory."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import ConstraintBroken, Tables, account_of
from meetcore.domain.members.members import Invitation, Membership, User
from meetcore.domain.requests.accounts import email_key


class MemoryMemberRepository:
    """Who belongs to which account."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def ensure_user(self, user: User) -> User:
        known = user_of_email(self._tables, user.email)
        if known is None:
            self._tables.users[user.id] = user
        return known or user

    async def load_members(self, account_id: UUID) -> Sequence[Membership]:
        return [one for one in _by_age(self._tables) if one.account_id == account_id]

    async def load_memberships(self, user_id: UUID) -> Sequence[Membership]:
        return [one for one in _by_age(self._tables) if one.user_id == user_id]

    async def add_membership(self, membership: Membership) -> bool:
        account_of(self._tables, membership.account_id)
        key = membership.account_id, membership.user_id
        if key in self._tables.memberships:
            return False
        self._tables.memberships[key] = membership
        return True

    async def save_membership(self, membership: Membership) -> None:
        self._tables.memberships[membership.account_id, membership.user_id] = membership

    async def remove_membership(self, account_id: UUID, user_id: UUID, at: datetime) -> None:
        self._tables.memberships.pop((account_id, user_id), None)
        for digest, session in self._tables.sessions.items():
            if (session.account_id, session.user_id, session.ended_at) == (account_id, user_id, None):
                self._tables.sessions[digest] = evolve(session, ended_at=at)

    async def add_invitation(self, invitation: Invitation) -> None:
        if invitation.id in self._tables.invitations:
            raise ConstraintBroken(f"invitation {invitation.id} is written already")
        for id_, known in self._tables.invitations.items():
            is_same = (known.account_id, email_key(known.email)) == (
                invitation.account_id,
                email_key(invitation.email),
            )
            if is_same and known.accepted_at is None and known.revoked_at is None:
                self._tables.invitations[id_] = evolve(known, revoked_at=invitation.created_at)
        self._tables.invitations[invitation.id] = invitation

    async def load_invitation(self, invitation_id: UUID) -> Invitation | None:
        return self._tables.invitations.get(invitation_id)

    async def save_invitation(self, invitation: Invitation) -> None:
        self._tables.invitations[invitation.id] = invitation


def user_of_email(tables: Tables, email: str) -> User | None:
    """The user who has an e-mail address."""
    return next((one for one in tables.users.values() if email_key(one.email) == email_key(email)), None)


def _by_age(tables: Tables) -> list[Membership]:
    found = tables.memberships.values()
    return sorted(found, key=lambda one: (one.created_at, one.account_id, one.user_id))
