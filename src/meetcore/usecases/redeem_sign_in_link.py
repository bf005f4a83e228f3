"""Begin a session by a one-time link. It has a new token, whatever the browser had before."""

from collections.abc import Awaitable
from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.members.audit import ActionOrigin, member_actor
from meetcore.domain.members.members import Invitation, Membership, User, is_pending
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import FRESH_FOR, OperatorSession, Session, cut_user_agent
from meetcore.domain.members.sign_in_links import LinkPurpose, SignInLink, link_unusable
from meetcore.domain.members.tokens import TOKEN_BYTES, is_token, mint_token, token_digest
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime


@frozen
class Browser:
    """Who signs in: the browser's own cookie, its description, and the client's address.

    `account_id` is the account of the session that the new one replaces: a user of several stays there.
    """

    cookie: str | None = field(default=None, repr=False)
    user_agent: str = ""
    client_address: str | None = None
    account_id: UUID | None = None

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of the cookie."""
        return None if self.cookie is None else token_digest(self.cookie)


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
    """Begins sessions by links."""

    store: Store
    runtime: Runtime

    async def for_customer(self, token: str, browser: Browser) -> NewSession:
        """Use a link of a customer up, and begin a session; an invitation makes its user a member.

        Raises:
            Gone: the link cannot be used, whatever the reason; it stays as it was.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            link = await self._use(tx, token, browser, now, is_operators=False)
            if link.purpose is LinkPurpose.INVITATION:
                link = await self._accept(tx, link, browser, now)
            if link.user_id is not None:
                return await start_user_session(
                    tx, self.runtime, now, link.user_id, browser, link.account_id,
                    now - FRESH_FOR if link.is_pinned else now, is_pinned=link.is_pinned,
                )  # fmt: skip
            assert link.account_id is not None
            await tx.lock_account(link.account_id)
            if await tx.erasures.is_requested(link.account_id):
                raise link_unusable()
            return await start_session(
                tx, self.runtime, now, link.account_id, None, browser, link.guest_role,
                is_pinned=link.is_pinned,
            )  # fmt: skip

    async def for_operator(self, token: str, browser: Browser) -> NewOperatorSession:
        """Use a link of an operator up, and begin a session in the console.

        Raises:
            Gone: see `for_customer`.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            link = await self._use(tx, token, browser, now, is_operators=True)
            assert link.operator_id is not None
            return await start_operator_session(tx, self.runtime, now, link.operator_id, browser)

    @staticmethod
    async def _use(
        tx: Transaction, token: str, browser: Browser, now: datetime, *, is_operators: bool
    ) -> SignInLink:
        link = None
        if is_token(token):
            link = await tx.sign_in.use_link(token_digest(token), browser.digest, is_operators, now)
        if link is None:
            raise link_unusable()
        return link

    async def _accept(self, tx: Transaction, link: SignInLink, browser: Browser, now: datetime) -> SignInLink:
        """Make the invited person a member, and return the link as one of that member."""
        assert link.account_id is not None
        assert link.invitation_id is not None
        await tx.lock_account(link.account_id)
        invitation = await tx.members.load_invitation(link.invitation_id)
        if invitation is None or not is_pending(invitation, now):
            raise link_unusable()
        await tx.members.save_invitation(evolve(invitation, accepted_at=now))
        user = await tx.members.ensure_user(
            User(self.runtime.new_id(now), invitation.email, invitation.email.partition("@")[0], now)
        )
        is_new = await tx.members.add_membership(
            Membership(invitation.account_id, user.id, invitation.role, now)
        )
        if is_new:
            await self._record_joining(tx, now, invitation, user, browser)
        return evolve(link, user_id=user.id)

    def _record_joining(
        self, tx: Transaction, now: datetime, invitation: Invitation, user: User, browser: Browser
    ) -> Awaitable[None]:
        origin = ActionOrigin(member_actor(user.id), browser.client_address)
        return record_action(
            tx,
            self.runtime,
            now,
            origin,
            "member.joined",
            invitation.account_id,
            user.id,
            role=invitation.role,
        )


async def start_session(
    tx: Transaction, runtime: Runtime, now: datetime, account_id: UUID, user_id: UUID | None,
    browser: Browser, guest_role: Role | None = None, authenticated_at: datetime | None = None, *,
    impersonated_by: UUID | None = None, is_pinned: bool = False,
) -> NewSession:  # fmt: skip
    """Begin a session of a member or a guest, who was authenticated at that time, else just now."""
    token = mint_token(runtime.entropy.token_bytes(TOKEN_BYTES))
    session = Session(
        id=runtime.new_id(now), account_id=account_id, user_id=user_id, guest_role=guest_role, created_at=now,
        last_seen_at=now, authenticated_at=authenticated_at or now,
        user_agent=cut_user_agent(browser.user_agent), client_address=browser.client_address,
        impersonated_by=impersonated_by, is_pinned=is_pinned,
    )  # fmt: skip
    await tx.sign_in.add_session(session, token_digest(token))
    return NewSession(session, token)


async def start_user_session(
    tx: Transaction, runtime: Runtime, now: datetime, user_id: UUID, browser: Browser,
    account_id: UUID | None = None, authenticated_at: datetime | None = None, *, is_pinned: bool = False,
) -> NewSession:  # fmt: skip
    """Begin a session of a user, by whatever means.

    Args:
        tx: of the sign-in.
        runtime: for the token.
        now: when.
        user_id: who.
        browser: where.
        account_id: the account that the sign-in was for; any of the user's if `None`: that of the browser's
            earlier session, else the one that the user has belonged to longest.
        authenticated_at: when the user was authenticated; just now if `None`.
        is_pinned: whether the session stays in its account.

    Raises:
        Gone: the user is no member of that account, or of none.
    """
    own = [each.account_id for each in await tx.members.load_memberships(user_id)]
    chosen = account_id or (browser.account_id if browser.account_id in own else None)
    if not own or (chosen is not None and chosen not in own):
        raise link_unusable()
    begun = await start_session(
        tx,
        runtime,
        now,
        chosen or own[0],
        user_id,
        browser,
        authenticated_at=authenticated_at,
        is_pinned=is_pinned,
    )
    return evolve(begun, has_choice=chosen is None and len(own) > 1)


async def start_operator_session(
    tx: Transaction, runtime: Runtime, now: datetime, operator_id: UUID, browser: Browser,
    authenticated_at: datetime | None = None,
) -> NewOperatorSession:  # fmt: skip
    """Begin a session of an operator who was authenticated at that time, else just now."""
    token = mint_token(runtime.entropy.token_bytes(TOKEN_BYTES))
    session = OperatorSession(
        id=runtime.new_id(now), operator_id=operator_id, created_at=now, last_seen_at=now,
        authenticated_at=authenticated_at or now, user_agent=cut_user_agent(browser.user_agent),
        client_address=browser.client_address,
    )  # fmt: skip
    await tx.sign_in.add_operator_session(session, token_digest(token))
    return NewOperatorSession(session, token)
