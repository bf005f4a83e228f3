"""Reads of members, sessions and operators in memory."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.memory.passkeys import passkeys_of
from meetcore.adapters.memory.state import Account, MemoryState
from meetcore.domain.members.members import Invitation, Member, Membership, is_pending
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.passkeys import Passkey, PasskeyOwner
from meetcore.domain.members.sessions import Session
from meetcore.ports.account_summary import AccountSummary
from meetcore.ports.member_queries import AccountMembership, SignedIn, SignedInOperator


class MemoryMemberQueries:
    """Reads of members, sessions and operators."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def find_session(self, digest: bytes) -> SignedIn | None:
        tables = self._state.committed
        session = tables.sessions.get(digest)
        if session is None:
            return None
        summary = self._summary(tables.accounts[session.account_id])
        if session.user_id is None:
            assert session.guest_role is not None
            return SignedIn(session, summary, None, session.guest_role)
        membership = tables.memberships.get((session.account_id, session.user_id))
        if membership is None:
            return None
        return SignedIn(session, summary, tables.users[session.user_id], membership.role)

    async def find_operator_session(self, digest: bytes) -> SignedInOperator | None:
        session = self._state.committed.operator_sessions.get(digest)
        if session is None:
            return None
        operator = self._state.committed.operators[session.operator_id]
        return None if operator.removed_at is not None else SignedInOperator(session, operator)

    async def list_sessions(self, user_id: UUID, limit: int) -> Sequence[Session]:
        found = [
            one
            for one in self._state.committed.sessions.values()
            if one.user_id == user_id and one.ended_at is None
        ]
        return sorted(found, key=lambda one: one.id, reverse=True)[:limit]

    async def list_account_sessions(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[Session]:
        found = [
            one
            for one in self._state.committed.sessions.values()
            if one.account_id == account_id and (before is None or one.id < before)
        ]
        return sorted(found, key=lambda one: one.id, reverse=True)[:limit]

    async def list_members(self, account_id: UUID) -> Sequence[Member]:
        users = self._state.committed.users
        return [
            Member(users[one.user_id], one) for one in self._memberships() if one.account_id == account_id
        ]

    async def list_accounts_of(self, user_id: UUID) -> Sequence[AccountMembership]:
        accounts = self._state.committed.accounts
        cards = [
            (accounts[one.account_id].card, one.role) for one in self._memberships() if one.user_id == user_id
        ]
        return [AccountMembership(card.id, card.full_name, card.email, role) for card, role in cards]

    async def list_invitations(self, account_id: UUID, now: datetime) -> Sequence[Invitation]:
        found = [
            one
            for one in self._state.committed.invitations.values()
            if one.account_id == account_id and is_pending(one, now)
        ]
        return sorted(found, key=lambda one: one.id, reverse=True)

    async def list_passkeys(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        return passkeys_of(self._state.committed, owner)

    async def list_operators(self) -> Sequence[Operator]:
        found = [one for one in self._state.committed.operators.values() if one.removed_at is None]
        return sorted(found, key=lambda one: one.id)

    async def find_operator_token(self, digest: bytes) -> OperatorToken | None:
        return self._state.committed.operator_tokens.get(digest)

    async def list_operator_tokens(self) -> Sequence[OperatorToken]:
        return sorted(self._state.committed.operator_tokens.values(), key=lambda one: one.id)

    def _memberships(self) -> list[Membership]:
        found = self._state.committed.memberships.values()
        return sorted(found, key=lambda one: (one.created_at, one.account_id, one.user_id))

    @staticmethod
    def _summary(account: Account) -> AccountSummary:
        card, funds = account.card, account.funds
        return AccountSummary(
            card.id, card.user_id, card.email, card.full_name, funds.balance, funds.held, account.suspended_at
        )
