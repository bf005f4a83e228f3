"""Reads of members, sessions and operators."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.members.passkeys import LIST_OWN
from meetcore.adapters.postgres.members.rows import (
    INVITATION,
    MEMBERSHIP,
    OPERATOR,
    OPERATOR_SESSION,
    OPERATOR_TOKEN,
    PASSKEY,
    SESSION,
    USER,
)
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.members.members import Invitation, Member
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.passkeys import Passkey, PasskeyOwner
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import Session
from meetcore.ports.account_summary import AccountSummary
from meetcore.ports.member_queries import AccountMembership, SignedIn, SignedInOperator

ACCOUNT = Columns(AccountSummary, "a", "account_")

# The session of a token with its account, and for a member the user and the present role.
_FIND_SESSION = f"""
SELECT {SESSION.select}, {ACCOUNT.select}, {USER.select}, b.role AS role
FROM sessions s JOIN accounts a ON a.id = s.account_id
LEFT JOIN users u ON u.id = s.user_id
LEFT JOIN memberships b ON b.account_id = s.account_id AND b.user_id = s.user_id
WHERE s.digest = %(digest)s AND (s.user_id IS NULL OR b.role IS NOT NULL)
"""

# The operator's session of a token.
_FIND_OPERATOR_SESSION = f"""
SELECT {OPERATOR_SESSION.select}, {OPERATOR.select}
FROM operator_sessions s JOIN operators o ON o.id = s.operator_id
WHERE s.digest = %(digest)s AND o.removed_at IS NULL
"""

# The sessions of a user that were not ended, the newest first.
_LIST_SESSIONS = f"""
SELECT {SESSION.select} FROM sessions s WHERE s.user_id = %(user_id)s AND s.ended_at IS NULL
ORDER BY s.id DESC LIMIT %(limit)s
"""

# A page of the sessions in an account.
_LIST_ACCOUNT_SESSIONS = f"""
SELECT {SESSION.select} FROM sessions s WHERE s.account_id = %(account_id)s AND s.id < %(before)s
ORDER BY s.id DESC LIMIT %(limit)s
"""

# The members of an account, the oldest first.
_LIST_MEMBERS = f"""
SELECT {USER.select}, {MEMBERSHIP.select} FROM memberships b JOIN users u ON u.id = b.user_id
WHERE b.account_id = %(account_id)s ORDER BY b.created_at, b.account_id, b.user_id
"""

# The accounts of a user, the oldest membership first.
_LIST_ACCOUNTS = """
SELECT a.id, a.full_name, a.email, b.role FROM memberships b JOIN accounts a ON a.id = b.account_id
WHERE b.user_id = %(user_id)s ORDER BY b.created_at, b.account_id, b.user_id
"""

# The invitations to an account that can be accepted, the newest first.
_LIST_INVITATIONS = f"""
SELECT {INVITATION.select} FROM invitations i
WHERE i.account_id = %(account_id)s AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > %(now)s
ORDER BY i.id DESC
"""

# Operators who were not removed, the oldest first.
_LIST_OPERATORS = f"SELECT {OPERATOR.select} FROM operators o WHERE o.removed_at IS NULL ORDER BY o.id"

# The operator's token of a digest.
_FIND_TOKEN = f"SELECT {OPERATOR_TOKEN.select} FROM operator_tokens t WHERE t.digest = %(digest)s"

# Every operator's token, the oldest first.
_LIST_TOKENS = f"SELECT {OPERATOR_TOKEN.select} FROM operator_tokens t ORDER BY t.id"


class MemberReads(Reads):
    """Reads of members, sessions and operators."""

    async def find_session(self, digest: bytes) -> SignedIn | None:
        row = await self._one(_FIND_SESSION, {"digest": digest})
        if row is None:
            return None
        session = SESSION.read(row)
        role = session.guest_role or Role(row["role"])
        return SignedIn(session, ACCOUNT.read(row), USER.find(row), role)

    async def find_operator_session(self, digest: bytes) -> SignedInOperator | None:
        row = await self._one(_FIND_OPERATOR_SESSION, {"digest": digest})
        return None if row is None else SignedInOperator(OPERATOR_SESSION.read(row), OPERATOR.read(row))

    async def list_sessions(self, user_id: UUID, limit: int) -> Sequence[Session]:
        found = await self._all(_LIST_SESSIONS, {"user_id": user_id, "limit": limit})
        return [SESSION.read(row) for row in found]

    async def list_account_sessions(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[Session]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return [SESSION.read(row) for row in await self._all(_LIST_ACCOUNT_SESSIONS, page)]

    async def list_members(self, account_id: UUID) -> Sequence[Member]:
        found = await self._all(_LIST_MEMBERS, {"account_id": account_id})
        return [Member(USER.read(row), MEMBERSHIP.read(row)) for row in found]

    async def list_accounts_of(self, user_id: UUID) -> Sequence[AccountMembership]:
        found = await self._all(_LIST_ACCOUNTS, {"user_id": user_id})
        return [
            AccountMembership(row["id"], row["full_name"], row["email"], Role(row["role"])) for row in found
        ]

    async def list_invitations(self, account_id: UUID, now: datetime) -> Sequence[Invitation]:
        found = await self._all(_LIST_INVITATIONS, {"account_id": account_id, "now": now})
        return [INVITATION.read(row) for row in found]

    async def list_passkeys(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        return [PASSKEY.read(row) for row in await self._all(LIST_OWN, asdict(owner))]

    async def list_operators(self) -> Sequence[Operator]:
        return [OPERATOR.read(row) for row in await self._all(_LIST_OPERATORS, {})]

    async def find_operator_token(self, digest: bytes) -> OperatorToken | None:
        row = await self._one(_FIND_TOKEN, {"digest": digest})
        return None if row is None else OPERATOR_TOKEN.read(row)

    async def list_operator_tokens(self) -> Sequence[OperatorToken]:
        return [OPERATOR_TOKEN.read(row) for row in await self._all(_LIST_TOKENS, {})]
