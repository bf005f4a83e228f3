"""Users, memberships and invitations in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.members.rows import INVITATION, MEMBERSHIP, USER
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.members.members import Invitation, Membership, User

# Writes a user, or reads who has the address; the update takes the row's lock and shows what another transaction wrote.
_ENSURE_USER = f"""
INSERT INTO users AS u ({USER.names}) VALUES ({USER.values})
ON CONFLICT (lower(email)) DO UPDATE SET email = u.email RETURNING {USER.select}
"""

# The members of an account, the oldest first.
_LOAD_MEMBERS = f"""
SELECT {MEMBERSHIP.select} FROM memberships b WHERE b.account_id = %(account_id)s
ORDER BY b.created_at, b.account_id, b.user_id
"""

# The accounts of a user, the oldest membership first.
_LOAD_MEMBERSHIPS = f"""
SELECT {MEMBERSHIP.select} FROM memberships b WHERE b.user_id = %(user_id)s
ORDER BY b.created_at, b.account_id, b.user_id
"""

# Makes a user a member, unless one already.
_ADD_MEMBERSHIP = f"""
INSERT INTO memberships ({MEMBERSHIP.names}) VALUES ({MEMBERSHIP.values}) ON CONFLICT DO NOTHING
"""

# Writes the role of a member.
_SAVE_MEMBERSHIP = """
UPDATE memberships SET role = %(membership_role)s
WHERE account_id = %(account_id)s AND user_id = %(membership_user_id)s
"""

# Ends a membership and the user's sessions in the account.
_REMOVE_MEMBERSHIP = """
WITH ended AS (
    UPDATE sessions SET ended_at = %(at)s
    WHERE account_id = %(account_id)s AND user_id = %(user_id)s AND ended_at IS NULL
)
DELETE FROM memberships WHERE account_id = %(account_id)s AND user_id = %(user_id)s
"""

# Revokes what is pending for an address, so that one invitation is.
_REVOKE_PENDING = """
UPDATE invitations SET revoked_at = %(invitation_created_at)s
WHERE account_id = %(account_id)s AND lower(email) = lower(%(invitation_email)s)
    AND accepted_at IS NULL AND revoked_at IS NULL
"""

# Writes an invitation.
_ADD_INVITATION = f"INSERT INTO invitations ({INVITATION.names}) VALUES ({INVITATION.values})"

# One invitation, locked.
_LOAD_INVITATION = f"SELECT {INVITATION.select} FROM invitations i WHERE i.id = %(id)s FOR NO KEY UPDATE"

# Writes when an invitation was accepted or revoked.
_SAVE_INVITATION = """
UPDATE invitations SET accepted_at = %(invitation_accepted_at)s, revoked_at = %(invitation_revoked_at)s
WHERE id = %(invitation_id)s
"""


class PostgresMemberRepository(Repository):
    """Who belongs to which account."""

    async def ensure_user(self, user: User) -> User:
        row = await self._one(_ENSURE_USER, USER.parameters(user))
        assert row is not None
        return USER.read(row)

    async def load_members(self, account_id: UUID) -> Sequence[Membership]:
        return [MEMBERSHIP.read(row) for row in await self._all(_LOAD_MEMBERS, {"account_id": account_id})]

    async def load_memberships(self, user_id: UUID) -> Sequence[Membership]:
        return [MEMBERSHIP.read(row) for row in await self._all(_LOAD_MEMBERSHIPS, {"user_id": user_id})]

    async def add_membership(self, membership: Membership) -> bool:
        return await self._changed(_ADD_MEMBERSHIP, MEMBERSHIP.parameters(membership))

    async def save_membership(self, membership: Membership) -> None:
        await self._connection.execute(_SAVE_MEMBERSHIP, MEMBERSHIP.parameters(membership))

    async def remove_membership(self, account_id: UUID, user_id: UUID, at: datetime) -> None:
        parameters = {"account_id": account_id, "user_id": user_id, "at": at}
        await self._connection.execute(_REMOVE_MEMBERSHIP, parameters)

    async def add_invitation(self, invitation: Invitation) -> None:
        parameters = INVITATION.parameters(invitation)
        await self._connection.execute(_REVOKE_PENDING, parameters)
        await self._connection.execute(_ADD_INVITATION, parameters)

    async def load_invitation(self, invitation_id: UUID) -> Invitation | None:
        row = await self._one(_LOAD_INVITATION, {"id": invitation_id})
        return None if row is None else INVITATION.read(row)

    async def save_invitation(self, invitation: Invitation) -> None:
        await self._connection.execute(_SAVE_INVITATION, INVITATION.parameters(invitation))
