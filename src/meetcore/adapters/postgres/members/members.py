"""Users, memberships, invitations and operators."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres import columns, repository
from meetcore.domain.errors import Conflict, NotFound, require_record
from meetcore.domain.members import members, passkeys, sessions, sign_in
from meetcore.domain.members.operators import Operator, OperatorToken
from meetcore.domain.notes.notes import Language

USER = columns.Columns(members.User, "u", "user_")
MEMBERSHIP = columns.Columns(members.Membership, "b", "membership_")
INVITATION = columns.Columns(members.Invitation, "i", "invitation_")
OPERATOR = columns.Columns(Operator, "o", "operator_")
OPERATOR_TOKEN = columns.Columns(OperatorToken, "t", "token_")

SQL = repository.load_statements(
    __file__, INVITATION=INVITATION, MEMBERSHIP=MEMBERSHIP, OPERATOR=OPERATOR,
    OPERATOR_TOKEN=OPERATOR_TOKEN, USER=USER,
)  # fmt: skip

LINK = columns.Columns(sign_in.SignInLink, "l", "link_")
SESSION = columns.Columns(sessions.Session, "s", "session_")
OPERATOR_SESSION = columns.Columns(sessions.OperatorSession, "s", "session_")
PASSKEY = columns.Columns(passkeys.Passkey, "p", "passkey_")
CHALLENGE = columns.Columns(passkeys.Challenge, "c", "challenge_")
SIGN_UP = columns.Columns(sign_in.SignUp, "s", "sign_up_")


class PostgresMemberRepository(repository.Repository):
    """Memberships and invitations of accounts."""

    async def ensure_user(self, user: members.User) -> members.User:
        row = await self._one(SQL["ensure_user"], USER.parameters(user))
        assert row is not None
        return USER.read(row)

    async def set_language(self, user_id: UUID, language: Language, *, is_first: bool = False) -> None:
        await self._run(SQL["set_language"], id=user_id, language=language.value, is_first=is_first)

    async def set_name(self, user_id: UUID, full_name: str) -> None:
        await self._run(SQL["set_name"], id=user_id, full_name=full_name)

    async def load_members(self, account_id: UUID) -> Sequence[members.Membership]:
        return await self._list(MEMBERSHIP, SQL["load_members"], account_id=account_id)

    async def load_memberships(self, user_id: UUID) -> Sequence[members.Membership]:
        return await self._list(MEMBERSHIP, SQL["load_memberships"], user_id=user_id)

    async def add_membership(self, membership: members.Membership) -> bool:
        parameters = MEMBERSHIP.parameters(membership)
        await self._run(SQL["delete_earlier_passkeys"], parameters)
        return await self._changed(SQL["add_membership"], parameters)

    async def save_membership(self, membership: members.Membership) -> None:
        await self._run(SQL["save_membership"], MEMBERSHIP.parameters(membership))

    async def remove_membership(self, account_id: UUID, user_id: UUID, at: datetime) -> None:
        await self._run(SQL["remove_membership"], account_id=account_id, user_id=user_id, at=at)

    async def add_invitation(self, invitation: members.Invitation) -> None:
        parameters = INVITATION.parameters(invitation)
        await self._run(SQL["revoke_pending"], parameters)
        await self._run(SQL["add_invitation"], parameters)

    async def revoke_invitations_of(
        self, account_id: UUID, user_id: UUID, at: datetime, *, to_member: bool
    ) -> Sequence[members.Invitation]:
        return await self._list(
            INVITATION, SQL["revoke_invitations_of"], account_id=account_id, user_id=user_id, at=at,
            to_member=to_member,
        )  # fmt: skip

    async def count_invitations(
        self, account_id: UUID, except_email: str, now: datetime
    ) -> members.InvitationCounts:
        row = await self._one(
            SQL["count_invitations"], account_id=account_id, except_email=except_email, now=now,
            since=now - members.INVITATIONS_WINDOW,
        )  # fmt: skip
        assert row is not None
        return members.InvitationCounts(row["pending"], row["today"], row["had_credits"])

    async def load_invitation(self, invitation_id: UUID) -> members.Invitation | None:
        return await self._find(INVITATION, SQL["load_invitation"], id=invitation_id)

    async def save_invitation(self, invitation: members.Invitation) -> None:
        await self._run(SQL["save_invitation"], INVITATION.parameters(invitation))


class PostgresOperatorRepository(repository.Repository):
    """Operators of the console, and the tokens of programs."""

    async def add(self, operator: Operator) -> None:
        parameters = OPERATOR.parameters(operator)
        if await self._changed(SQL["add_operator"], parameters):
            return
        known = await self._one(SQL["find_operator"], parameters)
        raise Conflict("An operator has this e-mail address already.", known["id"] if known else operator.id)

    async def remove(self, operator_id: UUID, at: datetime) -> Operator:
        row = require_record(await self._one(SQL["remove_operator"], id=operator_id, at=at), "operator")
        return OPERATOR.read(row)

    async def add_token(self, token: OperatorToken, digest: bytes) -> None:
        await self._run(SQL["add_token"], OPERATOR_TOKEN.parameters(token), digest=digest)

    async def revoke_token(self, token_id: UUID, at: datetime) -> OperatorToken:
        row = await self._one(SQL["revoke_token"], id=token_id, at=at)
        if row is None:
            raise NotFound("No operator's token with this id.")
        return OPERATOR_TOKEN.read(row)
