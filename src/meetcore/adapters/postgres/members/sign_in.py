"""Sign-in links, sessions, sign-ups and passkeys."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.members.members import (
    CHALLENGE,
    LINK,
    OPERATOR,
    OPERATOR_SESSION,
    PASSKEY,
    SESSION,
    SIGN_UP,
    USER,
)
from meetcore.adapters.postgres.repository import Repository, load_statements
from meetcore.domain.errors import Conflict
from meetcore.domain.members import views
from meetcore.domain.members.members import User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import SEEN_EVERY, OperatorSession, Session
from meetcore.domain.members.sign_in import SignInLink, SignUp

SQL = load_statements(
    __file__, CHALLENGE=CHALLENGE, LINK=LINK, OPERATOR=OPERATOR, OPERATOR_SESSION=OPERATOR_SESSION,
    PASSKEY=PASSKEY, SESSION=SESSION, SIGN_UP=SIGN_UP, USER=USER,
)  # fmt: skip


class PostgresSignInRepository(Repository):
    """Links, and the sessions that they begin."""

    async def add_email_link(self, link: SignInLink, digest: bytes, email: str) -> User | None:
        row = await self._one(SQL["add_email_link"], LINK.parameters(link), digest=digest, email=email)
        return None if row is None else USER.read(row)

    async def add_operator_link(self, link: SignInLink, digest: bytes, email: str) -> Operator | None:
        return await self._find(
            OPERATOR, SQL["add_operator_link"], LINK.parameters(link) | {"digest": digest, "email": email}
        )

    async def add_link(self, link: SignInLink, digest: bytes) -> None:
        await self._run(SQL["add_link"], LINK.parameters(link), digest=digest)

    async def use_link(
        self, digest: bytes, browser_digest: bytes | None, is_operators: bool, at: datetime
    ) -> SignInLink | None:
        row = await self._one(
            SQL["use_link"], digest=digest, browser_digest=browser_digest, is_operators=is_operators, at=at
        )
        return None if row is None else LINK.read(row)

    async def find_invitation(self, digest: bytes, at: datetime) -> views.OpenInvitation | None:
        row = await self._one(SQL["find_invitation"], digest=digest, at=at)
        if row is None:
            return None
        name, email = row["member_name"], row["member_email"]
        by = None if name is None else views.inviter_name(name, email)
        return views.OpenInvitation(row["account_name"], Role(row["role"]), by)

    async def bind_identity(self, owner: PasskeyOwner, issuer: str, subject: str, at: datetime) -> bool:
        identity = asdict(owner) | {"issuer": issuer}
        await self._run(SQL["bind_identity"], identity, subject=subject, at=at)
        row = await self._one(SQL["find_identity"], identity)
        return row is not None and row["subject"] == subject

    async def forget_identities(self, owner: PasskeyOwner) -> int:
        return await self._run(SQL["forget_identities"], asdict(owner))

    async def find_link(self, digest: bytes, is_operators: bool) -> SignInLink | None:
        return await self._find(LINK, SQL["find_link"], {"digest": digest, "is_operators": is_operators})

    async def find_member(self, email: str) -> User | None:
        return await self._find(USER, SQL["find_member"], email=email)

    async def find_operator(self, email: str) -> Operator | None:
        return await self._find(OPERATOR, SQL["find_operator_for_link"], {"email": email})

    async def add_sign_up(self, sign_up: SignUp, digest: bytes, only_members: bool) -> bool:
        parameters = SIGN_UP.parameters(sign_up) | {"digest": digest, "only_members": only_members}
        return await self._changed(SQL["add_sign_up"], parameters)

    async def use_sign_up(self, digest: bytes, browser_digest: bytes, at: datetime) -> SignUp | None:
        row = await self._one(SQL["use_sign_up"], digest=digest, browser_digest=browser_digest, at=at)
        return None if row is None else SIGN_UP.read(row)

    async def add_session(self, session: Session, digest: bytes) -> None:
        await self._run(SQL["add_session"], SESSION.parameters(session), digest=digest)

    async def add_operator_session(self, session: OperatorSession, digest: bytes) -> str | None:
        parameters = OPERATOR_SESSION.parameters(session)
        row = await self._one(SQL["add_operator_session"], parameters, digest=digest)
        return None if row is None else str(row["email"])

    async def touch_session(self, session_id: UUID, at: datetime) -> None:
        await self._run(SQL["touch_session"], id=session_id, at=at, seen_before=at - SEEN_EVERY)

    async def touch_operator_session(self, session_id: UUID, at: datetime) -> None:
        parameters = {"id": session_id, "at": at, "seen_before": at - SEEN_EVERY}
        await self._run(SQL["touch_operator_session"], parameters)

    async def end_session(self, session_id: UUID, at: datetime) -> Session | None:
        return await self._find(SESSION, SQL["end_session"], {"id": session_id, "at": at})

    async def lock_user(self, user_id: UUID) -> None:
        await self._run(SQL["lock_user"], user_id=user_id)

    async def end_sessions_of(self, user_id: UUID, except_id: UUID | None, at: datetime) -> int:
        await self._run(SQL["void_links"], user_id=user_id)
        await self._run(SQL["void_sign_ups"], user_id=user_id)
        await self.lock_user(user_id)
        return await self._run(SQL["end_sessions_of"], user_id=user_id, except_id=except_id, at=at)

    async def end_guest_sessions(self, account_id: UUID, except_id: UUID | None, at: datetime) -> int:
        await self._run(SQL["void_guest_links"], account_id=account_id)
        return await self._run(SQL["end_guest_sessions"], account_id=account_id, except_id=except_id, at=at)

    async def end_sessions_of_operator(self, operator_id: UUID, except_id: UUID, at: datetime) -> int:
        await self._run(SQL["void_operator_links"], operator_id=operator_id)
        await self._run(SQL["lock_operator"], operator_id=operator_id)
        ended = {"operator_id": operator_id, "except_id": except_id, "at": at}
        return await self._run(SQL["end_sessions_of_operator"], ended)

    async def lock_operator_session(self, session_id: UUID) -> bool:
        await self._run(SQL["lock_operator_of"], id=session_id)
        row = await self._one(SQL["is_operator_session_open"], id=session_id)
        return row is not None and bool(row["is_open"])

    async def end_operator_session(self, session_id: UUID, at: datetime) -> OperatorSession | None:
        await self._run(SQL["lock_operator_of"], id=session_id)
        return await self._find(OPERATOR_SESSION, SQL["end_operator_session"], {"id": session_id, "at": at})

    async def purge(self, seen_before: datetime, expired_before: datetime) -> int:
        return await self._due(SQL["purge_sign_in"], seen_before=seen_before, expired_before=expired_before)


class PostgresPasskeyRepository(Repository):
    """Passkeys of users and of operators, and the challenges that they answer."""

    async def add_challenge(self, challenge: Challenge) -> None:
        await self._run(SQL["add_challenge"], CHALLENGE.parameters(challenge))

    async def use_challenge(
        self, digest: bytes, purpose: ChallengePurpose, is_operators: bool, holder_digest: bytes, at: datetime
    ) -> bool:
        parameters = {
            "digest": digest, "purpose": purpose.value, "is_operators": is_operators,
            "holder_digest": holder_digest, "at": at,
        }  # fmt: skip
        return await self._changed(SQL["use_challenge"], parameters)

    async def load_own(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        lock = SQL["lock_operator"] if owner.user_id is None else SQL["lock_user"]
        await self._run(lock, asdict(owner))
        return await self._list(PASSKEY, SQL["list_own_passkeys"], asdict(owner))

    async def add(self, passkey: Passkey) -> None:
        parameters = PASSKEY.parameters(passkey)
        if await self._changed(SQL["add_passkey"], parameters):
            return
        known = await self._one(SQL["find_passkey"], parameters)
        raise Conflict("This passkey is registered already.", known["id"] if known else passkey.id)

    async def find_for_sign_in(self, credential: bytes, is_operators: bool) -> Passkey | None:
        parameters = {"credential": credential, "is_operators": is_operators}
        return await self._find(PASSKEY, SQL["find_passkey_for_sign_in"], parameters)

    async def save_use(self, passkey: Passkey) -> None:
        await self._run(SQL["save_passkey_use"], PASSKEY.parameters(passkey))

    async def remove(self, owner: PasskeyOwner, passkey_id: UUID) -> Passkey | None:
        return await self._find(PASSKEY, SQL["remove_passkey"], asdict(owner), id=passkey_id)

    async def purge_challenges(self, expired_before: datetime) -> int:
        return await self._run(SQL["purge_challenges"], expired_before=expired_before)
