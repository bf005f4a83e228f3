"""Reads of members, sessions and operators: one statement each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind, member_actor
from meetcore.domain.members.members import Invitation, Member, User
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.passkeys import Passkey, PasskeyOwner
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.ports.account_summary import AccountSummary

__all__ = ["AccountMembership", "MemberQueries", "SignedIn", "SignedInOperator"]


@frozen
class SignedIn:
    """A customer's session, its account and who uses it. `user` is None for a guest."""

    session: Session
    account: AccountSummary
    user: User | None
    role: Role

    def origin(self, client_address: str | None) -> ActionOrigin:
        """Who asks for a change, for the audit log."""
        if self.session.impersonated_by is not None:
            actor = Actor(ActorKind.OPERATOR, self.session.impersonated_by, "operator")
            return ActionOrigin(actor, client_address, is_impersonated=True)
        if self.user is None:
            actor = Actor(ActorKind.GUEST, self.session.id, f"guest ({self.role})")
        else:
            actor = member_actor(self.user.id)
        return ActionOrigin(actor, client_address)


@frozen
class SignedInOperator:
    """An operator's session and whose it is."""

    session: OperatorSession
    operator: Operator

    def origin(self, client_address: str | None, *, is_impersonated: bool = False) -> ActionOrigin:
        """Who asks for a change, for the audit log."""
        actor = Actor(ActorKind.OPERATOR, self.operator.id, self.operator.email)
        return ActionOrigin(actor, client_address, is_impersonated)


@frozen
class AccountMembership:
    """An account that a user belongs to, for a choice among them."""

    account_id: UUID
    full_name: str
    email: str
    role: Role


class MemberQueries(Protocol):
    """Reads of members, sessions and operators."""

    async def find_session(self, digest: bytes) -> SignedIn | None:
        """The session of a token's SHA-256 with its account, user and present role, whether open or not.

        Returns:
            None when there is none, or its user is no member of its account any more.
        """

    async def find_operator_session(self, digest: bytes) -> SignedInOperator | None:
        """The operator's session of a token's SHA-256, whether open or not; None when they were removed."""

    async def list_sessions(self, user_id: UUID, limit: int) -> Sequence[Session]:
        """A user's sessions that were not ended, in every account, the newest first."""

    async def list_account_sessions(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[Session]:
        """The sessions in an account, guests' and ended ones included, as the lists of `Queries` are."""

    async def list_members(self, account_id: UUID) -> Sequence[Member]:
        """An account's members, the oldest first."""

    async def list_accounts_of(self, user_id: UUID) -> Sequence[AccountMembership]:
        """The accounts that a user belongs to, the oldest membership first."""

    async def list_invitations(self, account_id: UUID, now: datetime) -> Sequence[Invitation]:
        """An account's pending invitations, the newest first."""

    async def list_passkeys(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        """The passkeys of a user or of an operator, the oldest first."""

    async def list_operators(self) -> Sequence[Operator]:
        """Operators who were not removed, the oldest first."""

    async def find_operator_token(self, digest: bytes) -> OperatorToken | None:
        """The token stored under a SHA-256, whatever its validity."""

    async def list_operator_tokens(self) -> Sequence[OperatorToken]:
        """Every token, the oldest first, revoked and expired ones included."""
