"""Sign-in links: requested by e-mail, by a member or an operator, and redeemed once.

A known address and an unknown one are answered alike: the same statement is run for both, and the answer
comes `answer_after_s` after the request. Requests are counted for the client's address, for both together and
for the e-mail address; whether there were too many does not depend on whether the address is known.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.members import audit, roles, sign_in, views
from meetcore.domain.members.members import Invitation, Membership, User, is_pending
from meetcore.domain.members.sessions import FRESH_FOR, OperatorSession, Session, cut_user_agent
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import check_email
from meetcore.ports.requests import RateCounters
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.members.audit import RefusedSignIns, count_hit, record_action
from meetcore.usecases.runtime import Runtime


@frozen
class RequestSignInLink:
    """Sends links. `base_url` is the service's own; the answer takes `answer_after_s` in any case."""

    store: Store
    counters: RateCounters
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str
    answer_after_s: float = 0.25
    pause: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False)

    async def for_member(
        self, email: str, browser: str, client_address: str | None, language: Language = Language.INDONESIAN
    ) -> None:
        """Send a link to the member with this e-mail address, if there is one.

        The link works in the browser that asks alone, by its cookie; `client_address` is where it asks from.

        Raises:
            InvalidEmail: it cannot be an address.
            RateLimited: too many requests from there, or for this address.
        """
        await self._send(sign_in.LinkPurpose.EMAIL, email, browser, client_address, language)

    async def for_operator(
        self, email: str, browser: str, client_address: str | None, language: Language = Language.INDONESIAN
    ) -> None:
        """Send a link to the operator with this e-mail address, if there is one; see `for_member`."""
        await self._send(sign_in.LinkPurpose.OPERATOR, email, browser, client_address, language)

    async def _send(
        self, purpose: sign_in.LinkPurpose, email: str, browser: str, client_address: str | None,
        language: Language,
    ) -> None:  # fmt: skip
        started = self.runtime.now()
        check_email(email)
        await self._count(started, email, client_address)
        token = sign_in.mint_token(self.runtime.entropy.token_bytes(sign_in.TOKEN_BYTES))
        link = sign_in.SignInLink(
            self.runtime.new_id(started), purpose, started, started + sign_in.EMAIL_FOR,
            browser_digest=sign_in.token_digest(browser),
        )  # fmt: skip
        async with self.store.begin() as tx:
            added = 0
            if (address := await self._add(tx, link, token, email)) is not None:
                make_url = console_url if purpose is sign_in.LinkPurpose.OPERATOR else dashboard_url
                content = contents.SignInLink(make_url(self.base_url, token), link.expires_at)
                by_client = str(sign_in.pair_counter(client_address, email))
                added = await self.mails.add(
                    tx, [Recipient(address, language)], content, counted_as=by_client
                )
        if added:
            self.notifier.notify()
        spent_s = (self.runtime.now() - started).total_seconds()
        await self.pause(max(0.0, self.answer_after_s - spent_s))

    async def _count(self, now: datetime, email: str, client_address: str | None) -> None:
        """Count a request, the narrowest counters first: one that is refused uses up nothing of the next.

        So one client address cannot use up the requests of an e-mail address.
        """
        for counter, limit in (
            (sign_in.address_counter(client_address), sign_in.REQUESTS_PER_ADDRESS),
            (sign_in.pair_counter(client_address, email), sign_in.REQUESTS_PER_PAIR),
            (sign_in.email_counter(email), sign_in.REQUESTS_PER_EMAIL),
        ):
            hits = await count_hit(self.counters, counter, now)
            sign_in.check_requests(hits, limit, now)

    @staticmethod
    async def _add(tx: Transaction, link: sign_in.SignInLink, token: str, email: str) -> str | None:
        """Write a link where the address is known; return it as it is stored."""
        if link.purpose is sign_in.LinkPurpose.OPERATOR:
            operator = await tx.sign_in.add_operator_link(link, sign_in.token_digest(token), email)
            return None if operator is None else operator.email
        user = await tx.sign_in.add_email_link(link, sign_in.token_digest(token), email)
        return None if user is None else user.email


def dashboard_url(base_url: str, token: str) -> str:
    """Return the address of a link to the dashboard."""
    return f"{base_url}/dashboard/sign-in/{token}"


def console_url(base_url: str, token: str) -> str:
    """Return the address of a link to the console."""
    return f"{base_url}/console/sign-in/{token}"


@frozen
class Browser:
    """Who signs in: the browser's own cookie, its description, and the client's address.

    `earlier` is the customer's session that the new one replaces: a user of several accounts stays in its
    account, and an invitation to a user is accepted in it alone. `language` is that of its pages: mails to a
    user are in the one of the first sign-in, until another is chosen.
    """

    cookie: str | None = field(default=None, repr=False)
    user_agent: str = ""
    client_address: str | None = None
    earlier: Session | None = field(default=None, repr=False)
    language: Language | None = None

    @property
    def account_id(self) -> UUID | None:
        """The account of the earlier session."""
        return None if self.earlier is None else self.earlier.account_id

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of the cookie."""
        return None if self.cookie is None else sign_in.token_digest(self.cookie)


@frozen
class NewSession:
    """A session that has just begun: the only moment at which its token can be read.

    `has_choice` is whether the user belongs to several accounts, and nothing said which.
    """

    session: Session
    token: str = field(repr=False)
    has_choice: bool = False


@frozen
class NewOperatorSession:
    """The same of an operator."""

    session: OperatorSession
    token: str = field(repr=False)


@frozen
class RedeemSignInLink:
    """Begins sessions by links. Each raises `Gone` where the link cannot be used; it stays as it was."""

    store: Store
    runtime: Runtime
    refused: RefusedSignIns

    async def for_customer(self, token: str, browser: Browser) -> NewSession:
        """Use a link of a customer up, and begin a session; an invitation makes its user a member.

        Raises:
            Gone: the link cannot be used; it stays as it was.
            SignInFirst: an invitation to a user who is not signed in here; it stays as it was.
        """
        now = self.runtime.now()
        try:
            async with self.store.begin() as tx:
                link = await self._use(tx, token, browser, now, is_operators=False)
                return await self._begin(tx, link, browser, now)
        except Gone:
            await self.refused.of_link(token, False, browser.client_address)
            raise

    async def find_invitation(self, token: str) -> views.OpenInvitation | None:
        """Return the invitation of a link, before it is used; `None` for a link of another kind."""
        if not sign_in.is_token(token):
            return None
        async with self.store.at_once() as tx:
            return await tx.sign_in.find_invitation(sign_in.token_digest(token), self.runtime.now())

    async def for_operator(self, token: str, browser: Browser) -> NewOperatorSession:
        """Use a link of an operator up, and begin a session in the console."""
        now = self.runtime.now()
        try:
            async with self.store.begin() as tx:
                link = await self._use(tx, token, browser, now, is_operators=True)
                assert link.operator_id is not None
                return await start_operator_session(
                    tx, self.runtime, now, link.operator_id, browser, sign_in.method_of(link)
                )
        except Gone:
            await self.refused.of_link(token, True, browser.client_address)
            raise

    async def _begin(
        self, tx: Transaction, link: sign_in.SignInLink, browser: Browser, now: datetime
    ) -> NewSession:
        how = sign_in.method_of(link)
        if link.purpose is sign_in.LinkPurpose.INVITATION:
            return await self._accept(tx, link, browser, now)
        if link.user_id is not None:
            await tx.sign_in.lock_user(link.user_id)
            return await start_user_session(
                tx, self.runtime, now, link.user_id, browser, how, link.account_id,
                now - FRESH_FOR if link.is_pinned else now, is_pinned=link.is_pinned,
            )  # fmt: skip
        assert link.account_id is not None
        await tx.lock_account(link.account_id)
        if await tx.erasures.is_requested(link.account_id):
            raise sign_in.link_unusable()
        return await start_session(
            tx, self.runtime, now, link.account_id, None, browser, how, link.guest_role,
            is_pinned=link.is_pinned,
        )  # fmt: skip

    @staticmethod
    async def _use(
        tx: Transaction, token: str, browser: Browser, now: datetime, *, is_operators: bool
    ) -> sign_in.SignInLink:
        link = None
        if sign_in.is_token(token):
            link = await tx.sign_in.use_link(sign_in.token_digest(token), browser.digest, is_operators, now)
        if link is None:
            raise sign_in.link_unusable()
        return link

    async def _accept(
        self, tx: Transaction, link: sign_in.SignInLink, browser: Browser, now: datetime
    ) -> NewSession:
        """Make the invited person a member, and begin a session in the inviting account.

        The link proves little: it is forwarded, and lies in mailboxes for a week. Of a new user it begins a
        session that stays in the account and is not fresh. A user who is a member anywhere accepts in a
        session of their own, which the new one replaces.
        """
        assert link.account_id is not None
        assert link.invitation_id is not None
        await tx.lock_account(link.account_id)
        invitation = await tx.members.load_invitation(link.invitation_id)
        if invitation is None or not is_pending(invitation, now):
            raise sign_in.link_unusable()
        await tx.members.save_invitation(evolve(invitation, accepted_at=now))
        user = await tx.members.ensure_user(
            User(self.runtime.new_id(now), invitation.email, sign_in.name_of(invitation.email), now)
        )
        is_user = bool(await tx.members.load_memberships(user.id))
        if is_user:
            await self._end_own(tx, user, browser, now)
        is_new = await tx.members.add_membership(
            Membership(invitation.account_id, user.id, invitation.role, now)
        )
        if is_new:
            await self._record_joining(tx, now, invitation, user, browser)
        proved_at = browser.earlier.authenticated_at if is_user and browser.earlier else now - FRESH_FOR
        return await start_session(
            tx, self.runtime, now, invitation.account_id, user.id, browser, sign_in.method_of(link),
            authenticated_at=proved_at, is_pinned=not is_user,
        )  # fmt: skip

    @staticmethod
    async def _end_own(tx: Transaction, user: User, browser: Browser, now: datetime) -> None:
        """End the session in which a user accepts an invitation."""
        own = browser.earlier
        if own is None or own.user_id != user.id or own.is_pinned:
            raise sign_in.SignInFirst
        try:
            await end_to_replace(tx, own, now)
        except NotFound:
            raise sign_in.SignInFirst from None

    async def _record_joining(
        self, tx: Transaction, now: datetime, invitation: Invitation, user: User, browser: Browser
    ) -> None:
        origin = audit.ActionOrigin(audit.member_actor(user.id), browser.client_address)
        await record_action(
            tx, self.runtime, now, origin, "member.joined", invitation.account_id, user.id,
            role=invitation.role,
        )  # fmt: skip


async def end_to_replace(tx: Transaction, session: Session, now: datetime) -> None:
    """End a user's session that another one replaces, ordered with "sign out everywhere" by the user's lock.

    Raises `NotFound`: it has ended already; nothing may begin in its place.
    """
    if session.user_id is not None:
        await tx.sign_in.lock_user(session.user_id)
    if await tx.sign_in.end_session(session.id, now) is None:
        raise NotFound("This session has ended.")


async def start_session(
    tx: Transaction, runtime: Runtime, now: datetime, account_id: UUID, user_id: UUID | None,
    browser: Browser, how: sign_in.SignInMethod | None, guest_role: roles.Role | None = None,
    authenticated_at: datetime | None = None, *, impersonated_by: UUID | None = None, is_pinned: bool = False,
) -> NewSession:  # fmt: skip
    """Begin a session of a member or a guest, who was authenticated at that time, else just now.

    An operator's view of an account has no `how`: its own entry is in the audit log.
    """
    token = sign_in.mint_token(runtime.entropy.token_bytes(sign_in.TOKEN_BYTES))
    session = Session(
        id=runtime.new_id(now), account_id=account_id, user_id=user_id, guest_role=guest_role, created_at=now,
        last_seen_at=now, authenticated_at=authenticated_at or now,
        user_agent=cut_user_agent(browser.user_agent), client_address=browser.client_address,
        impersonated_by=impersonated_by, is_pinned=is_pinned,
    )  # fmt: skip
    await tx.sign_in.add_session(session, sign_in.token_digest(token))
    if user_id is not None and browser.language is not None:
        await tx.members.set_language(user_id, browser.language, is_first=True)
    if how is not None:
        actor = audit.guest_actor(session.id, guest_role) if user_id is None else audit.member_actor(user_id)
        origin = audit.ActionOrigin(actor, browser.client_address)
        await record_action(tx, runtime, now, origin, "session.started", account_id, session.id, how=how)
    return NewSession(session, token)


async def start_user_session(
    tx: Transaction, runtime: Runtime, now: datetime, user_id: UUID, browser: Browser,
    how: sign_in.SignInMethod, account_id: UUID | None = None, authenticated_at: datetime | None = None, *,
    is_pinned: bool = False,
) -> NewSession:  # fmt: skip
    """Begin a session of a user, authenticated just now unless at another time; a pinned one stays there.

    `account_id` is the account that the sign-in was for; any of the user's if `None`: that of the browser's
    earlier session, else the one that the user has belonged to longest. Raises `Gone`: the user is no member
    of that account, or of none.
    """
    own = [each.account_id for each in await tx.members.load_memberships(user_id)]
    chosen = account_id or (browser.account_id if browser.account_id in own else None)
    if not own or (chosen is not None and chosen not in own):
        raise sign_in.link_unusable()
    begun = await start_session(
        tx, runtime, now, chosen or own[0], user_id, browser, how, authenticated_at=authenticated_at,
        is_pinned=is_pinned,
    )  # fmt: skip
    return evolve(begun, has_choice=chosen is None and len(own) > 1)


async def start_operator_session(
    tx: Transaction, runtime: Runtime, now: datetime, operator_id: UUID, browser: Browser,
    how: sign_in.SignInMethod, authenticated_at: datetime | None = None,
) -> NewOperatorSession:  # fmt: skip
    """Begin a session of an operator who was authenticated at that time, else just now.

    Raises `Gone`: the operator was removed.
    """
    token = sign_in.mint_token(runtime.entropy.token_bytes(sign_in.TOKEN_BYTES))
    session = OperatorSession(
        id=runtime.new_id(now), operator_id=operator_id, created_at=now, last_seen_at=now,
        authenticated_at=authenticated_at or now, user_agent=cut_user_agent(browser.user_agent),
        client_address=browser.client_address,
    )  # fmt: skip
    email = await tx.sign_in.add_operator_session(session, sign_in.token_digest(token))
    if email is None:
        raise sign_in.link_unusable()
    origin = audit.ActionOrigin(audit.operator_actor(operator_id, email), browser.client_address)
    await record_action(tx, runtime, now, origin, "session.started", None, session.id, how=how)
    return NewOperatorSession(session, token)
