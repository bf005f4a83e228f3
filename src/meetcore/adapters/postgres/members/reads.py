"""Reads of members, operators and their sessions."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.members import members
from meetcore.adapters.postgres.members.sign_in import SQL as SIGN_IN_SQL
from meetcore.adapters.postgres.repository import NEWEST, Reads, load_statements
from meetcore.domain.members import operators, passkeys, roles, sessions, views
from meetcore.domain.members.members import Invitation, Member
from meetcore.domain.requests.views import AccountSummary

ACCOUNT = Columns(AccountSummary, "a", "account_")


VIEWERS = [
    each.value
    for each, actions in roles.OPERATORS_ALLOWED.items()
    if roles.OperatorAction.IMPERSONATE in actions
]
"""The roles of operators whose views of accounts go on."""


class MemberReads(Reads):
    """Reads of members, sessions and operators."""

    async def find_session(self, digest: bytes) -> views.SignedIn | None:
        row = await self._one(SQL["find_session"], digest=digest, viewers=VIEWERS)
        if row is None:
            return None
        session = members.SESSION.read(row)
        role = session.guest_role or roles.Role(row["role"])
        return views.SignedIn(session, ACCOUNT.read(row), members.USER.find(row), role)

    async def find_operator_session(self, digest: bytes) -> views.SignedInOperator | None:
        row = await self._one(SQL["find_operator_session"], {"digest": digest})
        return (
            None
            if row is None
            else views.SignedInOperator(
                members.OPERATOR_SESSION.read(row), members.OPERATOR.read(row), row["payments_in_doubt"]
            )
        )

    async def list_sessions(
        self, user_id: UUID | None, guests_of: UUID | None, seen_after: datetime, limit: int
    ) -> Sequence[sessions.Session]:
        listed = {"user_id": user_id, "guests_of": guests_of, "seen_after": seen_after, "limit": limit}
        return await self._list(members.SESSION, SQL["list_sessions"], listed)

    async def list_operator_sessions(
        self, operator_id: UUID, seen_after: datetime, limit: int
    ) -> Sequence[sessions.OperatorSession]:
        page = {"operator_id": operator_id, "seen_after": seen_after, "limit": limit}
        return await self._list(members.OPERATOR_SESSION, SQL["list_operator_sessions"], page)

    async def list_account_sessions(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[sessions.Session]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return await self._list(members.SESSION, SQL["list_account_sessions"], page)

    async def list_members(self, account_id: UUID) -> Sequence[Member]:
        found = await self._all(SQL["list_members"], account_id=account_id)
        return [Member(members.USER.read(row), members.MEMBERSHIP.read(row)) for row in found]

    async def list_accounts_of(self, user_id: UUID) -> Sequence[views.AccountMembership]:
        found = await self._all(SQL["list_accounts"], user_id=user_id)
        return [
            views.AccountMembership(row["id"], row["full_name"], row["email"], roles.Role(row["role"]))
            for row in found
        ]

    async def list_invitations(self, account_id: UUID, now: datetime) -> Sequence[Invitation]:
        found = await self._all(SQL["list_invitations"], account_id=account_id, now=now)
        return [members.INVITATION.read(row) for row in found]

    async def list_passkeys(self, owner: passkeys.PasskeyOwner) -> Sequence[passkeys.Passkey]:
        return await self._list(members.PASSKEY, SIGN_IN_SQL["list_own_passkeys"], asdict(owner))

    async def list_operators(self) -> Sequence[operators.Operator]:
        return await self._list(members.OPERATOR, SQL["list_operators"], {})

    async def find_operator_token(self, digest: bytes) -> operators.OperatorToken | None:
        return await self._find(members.OPERATOR_TOKEN, SQL["find_token"], {"digest": digest})

    async def list_operator_tokens(self) -> Sequence[operators.OperatorToken]:
        return await self._list(members.OPERATOR_TOKEN, SQL["list_tokens"], {})


SQL = load_statements(
    __file__, ACCOUNT=ACCOUNT, INVITATION=members.INVITATION, MEMBERSHIP=members.MEMBERSHIP,
    OPERATOR=members.OPERATOR, OPERATOR_SESSION=members.OPERATOR_SESSION, OPERATOR_TOKEN=members.OPERATOR_TOKEN, SESSION=members.SESSION,
    USER=members.USER,
)  # fmt: skip
