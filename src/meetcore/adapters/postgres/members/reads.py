"""Reads of members, and the audit log, to which the service can only add."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import asdict
from psycopg.types.json import Jsonb

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.adapters.postgres.members import members
from meetcore.adapters.postgres.members.sign_in import SQL as SIGN_IN_SQL
from meetcore.adapters.postgres.repository import NEWEST, Reads, Repository, load_statements
from meetcore.domain.members import audit, operators, passkeys, roles, sessions, views
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
        self, user_id: UUID | None, guests_of: UUID | None, limit: int
    ) -> Sequence[sessions.Session]:
        listed = {"user_id": user_id, "guests_of": guests_of, "limit": limit}
        return await self._list(members.SESSION, SQL["list_sessions"], listed)

    async def list_operator_sessions(
        self, operator_id: UUID, limit: int
    ) -> Sequence[sessions.OperatorSession]:
        page = {"operator_id": operator_id, "limit": limit}
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


AUDIT_ENTRY = Columns(audit.AuditEntry, "g", "audit_", nested={"actor": "actor_"}, without=("details",))

SQL = load_statements(
    __file__, ACCOUNT=ACCOUNT, AUDIT_ENTRY=AUDIT_ENTRY, INVITATION=members.INVITATION, MEMBERSHIP=members.MEMBERSHIP,
    OPERATOR=members.OPERATOR, OPERATOR_SESSION=members.OPERATOR_SESSION, OPERATOR_TOKEN=members.OPERATOR_TOKEN, SESSION=members.SESSION,
    USER=members.USER,
)  # fmt: skip


def audit_row(entry: audit.AuditEntry) -> Row:
    """Return an entry by the names of its columns."""
    row = {name.removeprefix("audit_"): value for name, value in AUDIT_ENTRY.parameters(entry).items()}
    return row | {"details": dict(entry.details)}


class PostgresAuditLog(Repository):
    """Entries of changes."""

    async def append(self, entry: audit.AuditEntry) -> None:
        parameters = AUDIT_ENTRY.parameters(entry) | {"details": Jsonb(dict(entry.details))}
        await self._run(SQL["append_audit"], parameters)


class AuditReads(Reads):
    """Reads of the audit log."""

    async def list_audit_entries(
        self, account_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[audit.AuditEntry]:
        statement = SQL["list_audit"] if account_id is None else SQL["list_audit_of_account"]
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return [
            audit.with_addresses(
                AUDIT_ENTRY.read(row, details=row["details"]), row["member"], row["target_email"]
            )
            for row in await self._all(statement, page)
        ]
