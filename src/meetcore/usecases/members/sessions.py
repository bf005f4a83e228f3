"""Sessions: find, list and end them, and begin one by a passkey."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import Gone, NotFound, RateLimited, Unprocessable
from meetcore.domain.members import passkeys, sessions, sign_in
from meetcore.domain.members.audit import Detail
from meetcore.domain.members.roles import Action, is_allowed
from meetcore.domain.members.views import AccountMembership, SignedIn, SignedInOperator
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, OperationClass, decide, window_start
from meetcore.ports import identity, members, requests
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members import sign_in_links
from meetcore.usecases.members.audit import RefusedSignIns, count_attempt, record_action
from meetcore.usecases.members.passkeys import ask, use_up, verifier_of
from meetcore.usecases.runtime import Runtime

MAX_LISTED = 100
LINKS_KEPT_FOR = timedelta(days=1)


@frozen
class Sessions:
    """The use cases of sessions. A token that is malformed, unknown or over finds nothing.

    `pages_per_minute` is the quota of each session.
    """

    store: Store
    queries: members.MemberQueries
    counters: requests.RateCounters
    runtime: Runtime
    pages_per_minute: int = sessions.PAGES_PER_MINUTE

    async def find(self, token: str | None) -> SignedIn | None:
        """Find a customer's open session by its token in one statement; once a minute write its last use."""
        if token is None or not sign_in.is_token(token):
            return None
        found = await self.queries.find_session(sign_in.token_digest(token))
        return found if found is not None and await self._is_open(found.session) else None

    async def find_operator(self, token: str | None) -> SignedInOperator | None:
        """Find an operator's open session; see `find`."""
        if token is None or not sign_in.is_token(token):
            return None
        found = await self.queries.find_operator_session(sign_in.token_digest(token))
        return found if found is not None and await self._is_open(found.session) else None

    async def _is_open(self, session: sessions.Session | sessions.OperatorSession) -> bool:
        now = self.runtime.now()
        if not sessions.is_open(session, now):
            return False
        if sessions.needs_touch(session, now):
            async with self.store.at_once() as tx:
                if isinstance(session, sessions.Session):
                    await tx.sign_in.touch_session(session.id, now)
                else:
                    await tx.sign_in.touch_operator_session(session.id, now)
        return True

    async def count(self, session: sessions.Session | sessions.OperatorSession) -> None:
        """Count a request for a page; raise `RateLimited` beyond the session's quota of the minute."""
        now = self.runtime.now()
        hits = await self.counters.hit(session.id, OperationClass.READ, window_start(now))
        verdict = decide(self.pages_per_minute, hits, now)
        if not verdict.is_allowed:
            raise RateLimited(verdict.limit, WINDOW_SECONDS, verdict.retry_after_s)

    async def end(self, session: sessions.Session | sessions.OperatorSession) -> None:
        """Sign out; a session that is over stays so."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            if isinstance(session, sessions.Session):
                await tx.sign_in.end_session(session.id, now)
            else:
                await tx.sign_in.end_operator_session(session.id, now)

    async def list_own(
        self, who: SignedIn | SignedInOperator
    ) -> Sequence[sessions.Session | sessions.OperatorSession]:
        """Return the open sessions that a person can end, the own ones and the latest first.

        These are a user's own in every account, or an operator's own; a guest, or a user in a pinned session,
        has that one alone. One who manages the account's members ends those of its guests, and operators'
        views, too.
        """
        now, found = self.runtime.now(), list[sessions.Session | sessions.OperatorSession]()
        seen_after = now - sessions.IDLE_LIMIT
        if isinstance(who, SignedInOperator):
            found += await self.queries.list_operator_sessions(who.operator.id, seen_after, MAX_LISTED)
        else:
            user_id, account_id = _own_user(who), who.account.id if _ends_guests(who) else None
            found += await self.queries.list_sessions(user_id, account_id, seen_after, MAX_LISTED)
            if user_id is None and who.session.id not in {session.id for session in found}:
                found.insert(0, who.session)
        return [session for session in found if sessions.is_open(session, now)]

    async def end_own(
        self, who: SignedIn | SignedInOperator, session_id: UUID, client_address: str | None
    ) -> None:
        """End one of the sessions that `list_own` returns."""
        if session_id not in {session.id for session in await self.list_own(who)}:
            raise NotFound("No session with this id.")
        async with self.store.begin() as tx:
            end = tx.sign_in.end_session if isinstance(who, SignedIn) else tx.sign_in.end_operator_session
            if await end(session_id, self.runtime.now()) is not None:
                await self._record(tx, who, client_address, "session.ended", session_id)

    async def end_others(self, who: SignedIn | SignedInOperator, client_address: str | None) -> int:
        """End every other session of a user or an operator; return how many.

        A pinned session ends none of its user's. One who manages the account's members ends those of guests,
        and operators' views, too. Links and sign-ups that were asked for before work no more.
        """
        now, own = self.runtime.now(), who.session.id
        async with self.store.begin() as tx:
            if isinstance(who, SignedInOperator):
                ended = await tx.sign_in.end_sessions_of_operator(who.operator.id, own, now)
            else:
                ended = await self._end_others_in_account(tx, who, now)
            if ended:
                await self._record(tx, who, client_address, "session.others_ended", own, ended=ended)
        return ended

    @staticmethod
    async def _end_others_in_account(tx: Transaction, who: SignedIn, now: datetime) -> int:
        ended, own = 0, who.session.id
        if _ends_guests(who):
            ended += await tx.sign_in.end_guest_sessions(who.account.id, own, now)
        if (user_id := _own_user(who)) is not None:
            ended += await tx.sign_in.end_sessions_of(user_id, own, now)
        return ended

    async def _record(
        self, tx: Transaction, who: SignedIn | SignedInOperator, client_address: str | None, action: str,
        session_id: UUID, **details: Detail,
    ) -> None:  # fmt: skip
        account_id = who.account.id if isinstance(who, SignedIn) else None
        origin = who.origin(client_address)
        now = self.runtime.now()
        await record_action(tx, self.runtime, now, origin, action, account_id, session_id, **details)

    async def purge(self) -> None:
        """Delete sessions, links and challenges that are over, in portions that block no other work."""
        now, purged = self.runtime.now(), True
        while purged:
            async with self.store.at_once() as tx:
                purged = bool(await tx.sign_in.purge(now - sessions.ABSOLUTE_LIMIT, now - LINKS_KEPT_FOR))
            async with self.store.at_once() as tx:
                purged = bool(await tx.passkeys.purge_challenges(now)) or purged

    async def list_accounts(self, signed_in: SignedIn) -> Sequence[AccountMembership]:
        """Return the accounts that a user may go on in, the oldest membership first.

        Of a guest, and in a session that is pinned, the present one.
        """
        if signed_in.user is not None and not signed_in.session.is_pinned:
            return await self.queries.list_accounts_of(signed_in.user.id)
        account = signed_in.account
        return [AccountMembership(account.id, account.full_name, account.email, signed_in.role)]

    async def switch_account(
        self, signed_in: SignedIn, account_id: UUID, browser: sign_in_links.Browser
    ) -> sign_in_links.NewSession:
        """Go on in another account of the same user: a new session, as fresh as the old one, which ends.

        Raises `NotFound`: the user is no member of it or a guest, or the session is pinned or has ended.
        """
        user, old = signed_in.user, signed_in.session
        now = self.runtime.now()
        async with self.store.begin() as tx:
            own = [] if user is None or old.is_pinned else await tx.members.load_memberships(user.id)
            if user is None or account_id not in {each.account_id for each in own}:
                raise NotFound("No account with this id.")
            await sign_in_links.end_to_replace(tx, old, now)
            return await sign_in_links.start_session(
                tx, self.runtime, now, account_id, user.id, browser, sign_in.SignInMethod.OTHER_ACCOUNT,
                authenticated_at=old.authenticated_at,
            )  # fmt: skip


def _own_user(who: SignedIn) -> UUID | None:
    """Return the user whose sessions in every account this one lists and ends; `None` for a pinned one."""
    return None if who.user is None or who.session.is_pinned else who.user.id


def _ends_guests(who: SignedIn) -> bool:
    return is_allowed(who.role, Action.MANAGE_MEMBERS)


@frozen
class SignInWithPasskey:
    """Signs in customers, or operators where `is_operators`: a passkey of the one is none of the other.

    Each raises `Unprocessable` where browsers take no passkey for this site.
    """

    store: Store
    counters: requests.RateCounters
    runtime: Runtime
    refused: RefusedSignIns
    open_verifier: Callable[[], identity.PasskeyVerifier] | None
    is_operators: bool = False

    @property
    def is_possible(self) -> bool:
        """Whether browsers take passkeys for this site."""
        return self.open_verifier is not None

    async def ask(self, cookie: str, client_address: str | None) -> dict[str, Any]:
        """Make a challenge for the holder of a cookie; return the browser's options."""
        verifier = verifier_of(self.open_verifier)
        await count_attempt(self.counters, "challenge", client_address, self.runtime.now())
        return verifier.ask_to_sign_in(
            await ask(self.store, self.runtime, passkeys.ChallengePurpose.SIGN_IN, self.is_operators, cookie)
        )

    async def enter(
        self, answer: str, browser: sign_in_links.Browser
    ) -> sign_in_links.NewSession | sign_in_links.NewOperatorSession:
        """Begin a session by the answer to a challenge, which is used up; `Unprocessable` if not valid."""
        verifier = verifier_of(self.open_verifier)
        await count_attempt(self.counters, "answer", browser.client_address, self.runtime.now())
        assert browser.cookie is not None
        passkey: passkeys.Passkey | None = None
        try:
            claim = verifier.read(answer)
            await use_up(
                self.store, self.runtime, passkeys.ChallengePurpose.SIGN_IN, self.is_operators,
                browser.cookie, claim.challenge,
            )  # fmt: skip
            async with self.store.begin() as tx:
                passkey = await tx.passkeys.find_for_sign_in(claim.credential, self.is_operators)
                if passkey is None or claim.user_handle not in (None, passkey.owner.id.bytes):
                    raise passkeys.passkey_refused()
                sign_count = verifier.verify_sign_in(answer, claim.challenge, passkey.public_key)
                now = self.runtime.now()
                await tx.passkeys.save_use(passkeys.record_use(passkey, sign_count, now))
                return await self._begin(tx, passkey, browser, now)
        except (identity.PasskeyInvalid, Gone, Unprocessable):
            if passkey is not None:
                await self.refused.of_owner(
                    passkey.owner, sign_in.SignInMethod.PASSKEY, browser.client_address
                )
            raise passkeys.passkey_refused() from None

    async def _begin(
        self, tx: Transaction, passkey: passkeys.Passkey, browser: sign_in_links.Browser, now: datetime
    ) -> sign_in_links.NewSession | sign_in_links.NewOperatorSession:
        if passkey.operator_id is not None:
            return await sign_in_links.start_operator_session(
                tx, self.runtime, now, passkey.operator_id, browser, sign_in.SignInMethod.PASSKEY
            )
        return await sign_in_links.start_user_session(
            tx, self.runtime, now, passkey.owner.id, browser, sign_in.SignInMethod.PASSKEY
        )
