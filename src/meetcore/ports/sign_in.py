"""One-time links and sessions as a transaction sees them; each is found by the SHA-256 of its token."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.members.members import User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.domain.members.sign_in_links import SignInLink
from meetcore.domain.members.sign_ups import SignUp

__all__ = ["SignInRepository"]


class SignInRepository(Protocol):
    """Links, and the sessions that they begin. Customers' sessions and operators' are kept apart."""

    async def add_email_link(self, link: SignInLink, digest: bytes, email: str) -> User | None:
        """Write a link for the user of an e-mail address, in one statement.

        Returns:
            Whose it is; None when no user with a membership has the address, and nothing was written.
        """

    async def add_operator_link(self, link: SignInLink, digest: bytes, email: str) -> Operator | None:
        """Write a link for the operator of an e-mail address, in one statement.

        Returns:
            Whose it is; None when no operator has the address, and nothing was written.
        """

    async def add_link(self, link: SignInLink, digest: bytes) -> None:
        """Write a link."""

    async def use_link(
        self, digest: bytes, browser_digest: bytes | None, is_operators: bool, at: datetime
    ) -> SignInLink | None:
        """Use a link up: of several at once one gets it.

        Args:
            digest: of its token.
            browser_digest: of the browser's cookie; a link that was asked for in a browser works there alone.
            is_operators: whether it has to be of the purpose `operator`, or of another one.
            at: when.

        Returns:
            None when there is none, or it was used, has expired, or belongs to another browser; nothing was
            written.
        """

    async def find_member(self, email: str) -> User | None:
        """The user of an e-mail address; None when there is none, or they are a member of no account."""

    async def find_operator(self, email: str) -> Operator | None:
        """The operator of an e-mail address; None when there is none, or they were removed."""

    async def add_sign_up(self, sign_up: SignUp, digest: bytes, only_users: bool) -> bool:
        """Write a request for an account, in one statement.

        Returns:
            False when only users may ask and no user has the e-mail address, and nothing was written.
        """

    async def use_sign_up(self, digest: bytes, browser_digest: bytes, at: datetime) -> SignUp | None:
        """Delete a request and return it: of several at once one gets it.

        Returns:
            None when there is none, or it has expired, or belongs to another browser; nothing was written.
        """

    async def add_session(self, session: Session, digest: bytes) -> None:
        """Begin a customer's session."""

    async def add_operator_session(self, session: OperatorSession, digest: bytes) -> None:
        """Begin an operator's session."""

    async def touch_session(self, session_id: UUID, at: datetime) -> None:
        """Write when a customer's session was last used, unless that was written in `SEEN_EVERY` before."""

    async def touch_operator_session(self, session_id: UUID, at: datetime) -> None:
        """The same of an operator's session."""

    async def renew_session(self, session_id: UUID, at: datetime) -> None:
        """Write that who uses a customer's session has just signed in again."""

    async def end_session(self, session_id: UUID, at: datetime) -> Session | None:
        """End a customer's session; return it, or None when it had ended."""

    async def end_sessions_of(self, user_id: UUID, except_id: UUID | None, at: datetime) -> int:
        """End every session of a user but one; return how many."""

    async def end_operator_session(self, session_id: UUID, at: datetime) -> OperatorSession | None:
        """End an operator's session; return it, or None when it had ended."""

    async def purge(self, seen_before: datetime, expired_before: datetime) -> int:
        """Delete some sessions last used before the one, and links and requests expired before the other.

        Returns:
            How many went.
        """
