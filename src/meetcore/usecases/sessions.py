"""Sessions: find one by its token, list and end them, and go on in another account of the same user."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT, OperatorSession, Session, is_open, needs_touch
from meetcore.domain.members.tokens import is_token, token_digest
from meetcore.ports.member_queries import AccountMembership, MemberQueries, SignedIn, SignedInOperator
from meetcore.ports.store import Store
from meetcore.usecases.redeem_sign_in_link import Browser, NewSession, start_session
from meetcore.usecases.runtime import Runtime

MAX_LISTED = 100
LINKS_KEPT_FOR = timedelta(days=1)


@frozen
class Sessions:
    """The use cases of sessions. A token that is malformed, unknown or over finds nothing."""

    store: Store
    queries: MemberQueries
    runtime: Runtime

    async def find(self, token: str | None) -> SignedIn | None:
        """Find a customer's open session by its token in one statement; once a minute write its last use."""
        if token is None or not is_token(token):
            return None
        found = await self.queries.find_session(token_digest(token))
        now = self.runtime.now()
        if found is None or not is_open(found.session, now):
            return None
        if needs_touch(found.session, now):
            async with self.store.at_once() as tx:
                await tx.sign_in.touch_session(found.session.id, now)
        return found

    async def find_operator(self, token: str | None) -> SignedInOperator | None:
        """Find an operator's open session; see `find`."""
        if token is None or not is_token(token):
            return None
        found = await self.queries.find_operator_session(token_digest(token))
        now = self.runtime.now()
        if found is None or not is_open(found.session, now):
            return None
        if needs_touch(found.session, now):
            async with self.store.at_once() as tx:
                await tx.sign_in.touch_operator_session(found.session.id, now)
        return found

    async def end(self, session: Session | OperatorSession) -> None:
        """Sign out; a session that is over stays so."""
        now = self.runtime.now()
        async with self.store.at_once() as tx:
            if isinstance(session, Session):
                await tx.sign_in.end_session(session.id, now)
            else:
                await tx.sign_in.end_operator_session(session.id, now)

    async def list_own(self, signed_in: SignedIn) -> Sequence[Session]:
        """Where a user is signed in, the latest first; a guest sees the own session."""
        if signed_in.user is None:
            return [signed_in.session]
        now = self.runtime.now()
        found = await self.queries.list_sessions(signed_in.user.id, MAX_LISTED)
        return [session for session in found if is_open(session, now)]

    async def end_own(self, signed_in: SignedIn, session_id: UUID) -> None:
        """End one of the user's sessions.

        Raises:
            NotFound: it is none of theirs, or over.
        """
        if session_id not in {session.id for session in await self.list_own(signed_in)}:
            raise NotFound("No session with this id.")
        async with self.store.at_once() as tx:
            await tx.sign_in.end_session(session_id, self.runtime.now())

    async def end_others(self, signed_in: SignedIn) -> int:
        """End every other session of the user; return how many."""
        if signed_in.user is None:
            return 0
        async with self.store.at_once() as tx:
            return await tx.sign_in.end_sessions_of(
                signed_in.user.id, signed_in.session.id, self.runtime.now()
            )

    async def purge(self) -> None:
        """Delete sessions, links and challenges that are over, in portions that block no other work."""
        now, purged = self.runtime.now(), True
        while purged:
            async with self.store.at_once() as tx:
                purged = bool(await tx.sign_in.purge(now - ABSOLUTE_LIMIT, now - LINKS_KEPT_FOR))
            async with self.store.at_once() as tx:
                purged = bool(await tx.passkeys.purge_challenges(now)) or purged

    async def list_accounts(self, signed_in: SignedIn) -> Sequence[AccountMembership]:
        """The accounts that a user may go on in, the oldest membership first.

        Of a guest, and in a session that is pinned, the present one.
        """
        if signed_in.user is not None and not signed_in.session.is_pinned:
            return await self.queries.list_accounts_of(signed_in.user.id)
        account = signed_in.account
        return [AccountMembership(account.id, account.full_name, account.email, signed_in.role)]

    async def switch_account(self, signed_in: SignedIn, account_id: UUID, browser: Browser) -> NewSession:
        """Go on in another account of the same user: a new session, and the old one ends.

        The new one is as fresh as the old one was.

        Raises:
            NotFound: the user is no member of it or a guest, or the session is pinned.
        """
        user, old = signed_in.user, signed_in.session
        now = self.runtime.now()
        async with self.store.begin() as tx:
            own = [] if user is None or old.is_pinned else await tx.members.load_memberships(user.id)
            if user is None or account_id not in {each.account_id for each in own}:
                raise NotFound("No account with this id.")
            await tx.sign_in.end_session(old.id, now)
            return await start_session(
                tx, self.runtime, now, account_id, user.id, browser, authenticated_at=old.authenticated_at
            )
