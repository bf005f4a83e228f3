"""One-time links and sessions in PostgreSQL, each found by the SHA-256 of its token."""

from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.members.rows import (
    LINK,
    OPERATOR,
    OPERATOR_SESSION,
    SESSION,
    SIGN_UP,
    USER,
)
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.members.members import User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.sessions import SEEN_EVERY, OperatorSession, Session
from meetcore.domain.members.sign_in_links import SignInLink
from meetcore.domain.members.sign_ups import SignUp

# Writes a link for the user of an address who is a member anywhere: the same statement where there is none.
_ADD_EMAIL_LINK = f"""
WITH known AS (
    SELECT u.* FROM users u WHERE lower(u.email) = lower(%(email)s)
        AND EXISTS (SELECT FROM memberships b WHERE b.user_id = u.id)
), link AS (
    INSERT INTO sign_in_links (id, purpose, created_at, expires_at, browser_digest, digest, user_id)
    SELECT %(link_id)s, %(link_purpose)s, %(link_created_at)s, %(link_expires_at)s, %(link_browser_digest)s,
        %(digest)s, known.id FROM known
)
SELECT {USER.select} FROM known u
"""

# Writes a link for the operator of an address: the same statement where there is none.
_ADD_OPERATOR_LINK = f"""
WITH known AS (
    SELECT o.* FROM operators o WHERE lower(o.email) = lower(%(email)s) AND o.removed_at IS NULL
), link AS (
    INSERT INTO sign_in_links (id, purpose, created_at, expires_at, browser_digest, digest, operator_id)
    SELECT %(link_id)s, %(link_purpose)s, %(link_created_at)s, %(link_expires_at)s, %(link_browser_digest)s,
        %(digest)s, known.id FROM known
)
SELECT {OPERATOR.select} FROM known o
"""

# Writes a link.
_ADD_LINK = f"INSERT INTO sign_in_links ({LINK.names}, digest) VALUES ({LINK.values}, %(digest)s)"

# Uses a link up: of several at once one finds it unused.
_USE_LINK = f"""
UPDATE sign_in_links l SET used_at = %(at)s
WHERE l.digest = %(digest)s AND l.used_at IS NULL AND l.expires_at > %(at)s
    AND (l.browser_digest IS NULL OR l.browser_digest = %(browser_digest)s)
    AND (l.purpose = 'operator') = %(is_operators)s
RETURNING {LINK.select}
"""

# The user of an address who is a member anywhere.
_FIND_MEMBER = f"""
SELECT {USER.select} FROM users u
WHERE lower(u.email) = lower(%(email)s) AND EXISTS (SELECT FROM memberships b WHERE b.user_id = u.id)
"""

# The operator of an address.
_FIND_OPERATOR = f"""
SELECT {OPERATOR.select} FROM operators o WHERE lower(o.email) = lower(%(email)s) AND o.removed_at IS NULL
"""

# Writes a request for an account, where asked only for the address of a user: the same statement for any address.
_ADD_SIGN_UP = f"""
INSERT INTO sign_ups ({SIGN_UP.names}, digest) SELECT {SIGN_UP.values}, %(digest)s
WHERE NOT %(only_users)s OR EXISTS (SELECT FROM users u WHERE lower(u.email) = lower(%(sign_up_email)s))
"""

# Uses a request up: of several at once one finds it.
_USE_SIGN_UP = f"""
DELETE FROM sign_ups s
WHERE s.digest = %(digest)s AND s.browser_digest = %(browser_digest)s AND s.expires_at > %(at)s
RETURNING {SIGN_UP.select}
"""

# Begins a customer's session.
_ADD_SESSION = f"INSERT INTO sessions ({SESSION.names}, digest) VALUES ({SESSION.values}, %(digest)s)"

# Begins an operator's session.
_ADD_OPERATOR_SESSION = f"""
INSERT INTO operator_sessions ({OPERATOR_SESSION.names}, digest) VALUES ({OPERATOR_SESSION.values}, %(digest)s)
"""

# Writes when a session was last used, once a minute however many use it at once.
_TOUCH_SESSION = """
UPDATE sessions SET last_seen_at = %(at)s WHERE id = %(id)s AND ended_at IS NULL AND last_seen_at <= %(seen_before)s
"""

# The same of an operator's session.
_TOUCH_OPERATOR_SESSION = """
UPDATE operator_sessions SET last_seen_at = %(at)s
WHERE id = %(id)s AND ended_at IS NULL AND last_seen_at <= %(seen_before)s
"""

# Writes that who uses a session has signed in again.
_RENEW_SESSION = "UPDATE sessions SET authenticated_at = %(at)s WHERE id = %(id)s AND ended_at IS NULL"

# Ends a session.
_END_SESSION = f"""
UPDATE sessions s SET ended_at = %(at)s WHERE s.id = %(id)s AND s.ended_at IS NULL RETURNING {SESSION.select}
"""

# Ends every session of a user but one.
_END_SESSIONS_OF = """
UPDATE sessions SET ended_at = %(at)s
WHERE user_id = %(user_id)s AND ended_at IS NULL AND id IS DISTINCT FROM %(except_id)s::uuid
"""

# Ends an operator's session.
_END_OPERATOR_SESSION = f"""
UPDATE operator_sessions s SET ended_at = %(at)s WHERE s.id = %(id)s AND s.ended_at IS NULL
RETURNING {OPERATOR_SESSION.select}
"""

# Deletes a portion of what is long over.
_PURGE = """
WITH old_sessions AS (
    DELETE FROM sessions WHERE ctid IN (
        SELECT ctid FROM sessions WHERE last_seen_at < %(seen_before)s ORDER BY last_seen_at LIMIT 1000) RETURNING 1
), old_operator_sessions AS (
    DELETE FROM operator_sessions WHERE ctid IN (
        SELECT ctid FROM operator_sessions WHERE last_seen_at < %(seen_before)s ORDER BY last_seen_at LIMIT 1000)
    RETURNING 1
), old_links AS (
    DELETE FROM sign_in_links WHERE ctid IN (
        SELECT ctid FROM sign_in_links WHERE expires_at < %(expired_before)s ORDER BY expires_at LIMIT 1000)
    RETURNING 1
), old_sign_ups AS (
    DELETE FROM sign_ups WHERE ctid IN (
        SELECT ctid FROM sign_ups WHERE expires_at < %(expired_before)s ORDER BY expires_at LIMIT 1000)
    RETURNING 1
)
SELECT (SELECT count(*) FROM old_sessions) + (SELECT count(*) FROM old_operator_sessions)
    + (SELECT count(*) FROM old_links) + (SELECT count(*) FROM old_sign_ups) AS due
"""


class PostgresSignInRepository(Repository):
    """Links, and the sessions that they begin."""

    async def add_email_link(self, link: SignInLink, digest: bytes, email: str) -> User | None:
        row = await self._one(_ADD_EMAIL_LINK, LINK.parameters(link) | {"digest": digest, "email": email})
        return None if row is None else USER.read(row)

    async def add_operator_link(self, link: SignInLink, digest: bytes, email: str) -> Operator | None:
        row = await self._one(_ADD_OPERATOR_LINK, LINK.parameters(link) | {"digest": digest, "email": email})
        return None if row is None else OPERATOR.read(row)

    async def add_link(self, link: SignInLink, digest: bytes) -> None:
        await self._connection.execute(_ADD_LINK, LINK.parameters(link) | {"digest": digest})

    async def use_link(
        self, digest: bytes, browser_digest: bytes | None, is_operators: bool, at: datetime
    ) -> SignInLink | None:
        parameters = {
            "digest": digest,
            "browser_digest": browser_digest,
            "is_operators": is_operators,
            "at": at,
        }
        row = await self._one(_USE_LINK, parameters)
        return None if row is None else LINK.read(row)

    async def find_member(self, email: str) -> User | None:
        row = await self._one(_FIND_MEMBER, {"email": email})
        return None if row is None else USER.read(row)

    async def find_operator(self, email: str) -> Operator | None:
        row = await self._one(_FIND_OPERATOR, {"email": email})
        return None if row is None else OPERATOR.read(row)

    async def add_sign_up(self, sign_up: SignUp, digest: bytes, only_users: bool) -> bool:
        parameters = SIGN_UP.parameters(sign_up) | {"digest": digest, "only_users": only_users}
        return await self._changed(_ADD_SIGN_UP, parameters)

    async def use_sign_up(self, digest: bytes, browser_digest: bytes, at: datetime) -> SignUp | None:
        parameters = {"digest": digest, "browser_digest": browser_digest, "at": at}
        row = await self._one(_USE_SIGN_UP, parameters)
        return None if row is None else SIGN_UP.read(row)

    async def add_session(self, session: Session, digest: bytes) -> None:
        await self._connection.execute(_ADD_SESSION, SESSION.parameters(session) | {"digest": digest})

    async def add_operator_session(self, session: OperatorSession, digest: bytes) -> None:
        parameters = OPERATOR_SESSION.parameters(session) | {"digest": digest}
        await self._connection.execute(_ADD_OPERATOR_SESSION, parameters)

    async def touch_session(self, session_id: UUID, at: datetime) -> None:
        parameters = {"id": session_id, "at": at, "seen_before": at - SEEN_EVERY}
        await self._connection.execute(_TOUCH_SESSION, parameters)

    async def touch_operator_session(self, session_id: UUID, at: datetime) -> None:
        parameters = {"id": session_id, "at": at, "seen_before": at - SEEN_EVERY}
        await self._connection.execute(_TOUCH_OPERATOR_SESSION, parameters)

    async def renew_session(self, session_id: UUID, at: datetime) -> None:
        await self._connection.execute(_RENEW_SESSION, {"id": session_id, "at": at})

    async def end_session(self, session_id: UUID, at: datetime) -> Session | None:
        row = await self._one(_END_SESSION, {"id": session_id, "at": at})
        return None if row is None else SESSION.read(row)

    async def end_sessions_of(self, user_id: UUID, except_id: UUID | None, at: datetime) -> int:
        parameters = {"user_id": user_id, "except_id": except_id, "at": at}
        return (await self._connection.execute(_END_SESSIONS_OF, parameters)).rowcount

    async def end_operator_session(self, session_id: UUID, at: datetime) -> OperatorSession | None:
        row = await self._one(_END_OPERATOR_SESSION, {"id": session_id, "at": at})
        return None if row is None else OPERATOR_SESSION.read(row)

    async def purge(self, seen_before: datetime, expired_before: datetime) -> int:
        return await self._due(_PURGE, {"seen_before": seen_before, "expired_before": expired_before})
