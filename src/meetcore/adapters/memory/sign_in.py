"""One-time links and sessions in memory."""

from datetime import datetime
from typing import TypeVar
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.members import user_of_email
from meetcore.adapters.memory.operators import operator_of_email
from meetcore.adapters.memory.state import ConstraintBroken, Tables
from meetcore.domain.members.members import User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.sessions import OperatorSession, Session, needs_touch
from meetcore.domain.members.sign_in_links import LinkPurpose, SignInLink
from meetcore.domain.members.sign_ups import SignUp

S = TypeVar("S", Session, OperatorSession)


class MemorySignInRepository:
    """Links, and the sessions that they begin."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add_email_link(self, link: SignInLink, digest: bytes, email: str) -> User | None:
        user = await self.find_member(email)
        if user is None:
            return None
        await self.add_link(evolve(link, user_id=user.id), digest)
        return user

    async def add_operator_link(self, link: SignInLink, digest: bytes, email: str) -> Operator | None:
        operator = operator_of_email(self._tables, email)
        if operator is not None:
            await self.add_link(evolve(link, operator_id=operator.id), digest)
        return operator

    async def add_link(self, link: SignInLink, digest: bytes) -> None:
        if digest in self._tables.links:
            raise ConstraintBroken("the link is written already")
        self._tables.links[digest] = link

    async def use_link(
        self, digest: bytes, browser_digest: bytes | None, is_operators: bool, at: datetime
    ) -> SignInLink | None:
        link = self._tables.links.get(digest)
        if (
            link is None
            or link.used_at is not None
            or link.expires_at <= at
            or link.browser_digest not in (None, browser_digest)
            or (link.purpose is LinkPurpose.OPERATOR) != is_operators
        ):
            return None
        used = self._tables.links[digest] = evolve(link, used_at=at)
        return used

    async def find_member(self, email: str) -> User | None:
        user = user_of_email(self._tables, email)
        is_member = user is not None and any(user_id == user.id for _, user_id in self._tables.memberships)
        return user if is_member else None

    async def find_operator(self, email: str) -> Operator | None:
        return operator_of_email(self._tables, email)

    async def add_sign_up(self, sign_up: SignUp, digest: bytes, only_users: bool) -> bool:
        if only_users and user_of_email(self._tables, sign_up.email) is None:
            return False
        if digest in self._tables.sign_ups:
            raise ConstraintBroken("the request is written already")
        self._tables.sign_ups[digest] = sign_up
        return True

    async def use_sign_up(self, digest: bytes, browser_digest: bytes, at: datetime) -> SignUp | None:
        found = self._tables.sign_ups.get(digest)
        if found is None or found.expires_at <= at or found.browser_digest != browser_digest:
            return None
        return self._tables.sign_ups.pop(digest)

    async def add_session(self, session: Session, digest: bytes) -> None:
        _add(self._tables.sessions, session, digest)

    async def add_operator_session(self, session: OperatorSession, digest: bytes) -> None:
        _add(self._tables.operator_sessions, session, digest)

    async def touch_session(self, session_id: UUID, at: datetime) -> None:
        _touch(self._tables.sessions, session_id, at)

    async def touch_operator_session(self, session_id: UUID, at: datetime) -> None:
        _touch(self._tables.operator_sessions, session_id, at)

    async def renew_session(self, session_id: UUID, at: datetime) -> None:
        for digest, session in self._tables.sessions.items():
            if session.id == session_id and session.ended_at is None:
                self._tables.sessions[digest] = evolve(session, authenticated_at=at)

    async def end_session(self, session_id: UUID, at: datetime) -> Session | None:
        return _end(self._tables.sessions, session_id, at)

    async def end_sessions_of(self, user_id: UUID, except_id: UUID | None, at: datetime) -> int:
        found = [
            session.id
            for session in self._tables.sessions.values()
            if session.user_id == user_id and session.id != except_id and session.ended_at is None
        ]
        for session_id in found:
            _end(self._tables.sessions, session_id, at)
        return len(found)

    async def end_operator_session(self, session_id: UUID, at: datetime) -> OperatorSession | None:
        return _end(self._tables.operator_sessions, session_id, at)

    async def purge(self, seen_before: datetime, expired_before: datetime) -> int:
        tables = self._tables
        sessions = [key for key, one in tables.sessions.items() if one.last_seen_at < seen_before]
        operators = [key for key, one in tables.operator_sessions.items() if one.last_seen_at < seen_before]
        links = [key for key, one in tables.links.items() if one.expires_at < expired_before]
        for key in sessions:
            del tables.sessions[key]
        for key in operators:
            del tables.operator_sessions[key]
        for key in links:
            del tables.links[key]
        sign_ups = [key for key, one in tables.sign_ups.items() if one.expires_at < expired_before]
        for key in sign_ups:
            del tables.sign_ups[key]
        return len(sessions) + len(operators) + len(links) + len(sign_ups)


def _add(table: dict[bytes, S], session: S, digest: bytes) -> None:
    if digest in table:
        raise ConstraintBroken("the session is written already")
    table[digest] = session


def _touch(table: dict[bytes, S], session_id: UUID, at: datetime) -> None:
    for digest, session in table.items():
        if session.id == session_id and session.ended_at is None and needs_touch(session, at):
            table[digest] = evolve(session, last_seen_at=at)


def _end(table: dict[bytes, S], session_id: UUID, at: datetime) -> S | None:
    for digest, session in table.items():
        if session.id == session_id and session.ended_at is None:
            ended = table[digest] = evolve(session, ended_at=at)
            return ended
    return None
