"""Begin a session by a one-time link. It has a new token, whatever the browser had before."""

from collections.abc import Awaitable
from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.members.members import Invitation, Membership, User, is_pending
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import OperatorSession, Session, cut_user_agent
from meetcore.domain.members.sign_in_links import LinkPurpose, SignInLink, link_unusable
from meetcore.domain.members.tokens import TOKEN_BYTES, is_token, mint_token, token_digest
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime


@frozen
class Browser:
    """Who redeems a link: the browser's own cookie, its description, and the client's address."""

    cookie: str | None = field(default=None, repr=False)
    user_agent: str = ""
    client_address: str | None = None

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of the cookie."""
        return None if self.cookie is None else token_digest(self.cookie)


@frozen
class NewSession:
    """A session that has just begun: the only moment at which its token can be read."""

    session: Session
    token: str = field(repr=False)


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
            account_id = await _account_of(tx, link)
            return await start_session(
                tx, self.runtime, now, account_id, link.user_id, browser, link.guest_role
            )

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
        origin = ActionOrigin(Actor(ActorKind.MEMBER, user.id, user.email), browser.client_address)
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
    browser: Browser, guest_role: Role | None = None, authenticated_at: datetime | None = None,
) -> NewSession:  # fmt: skip
    """Begin a session of a member or a guest, who was authenticated at that time, else just now."""
    token = mint_token(runtime.entropy.token_bytes(TOKEN_BYTES))
    session = Session(
        id=runtime.new_id(now), account_id=account_id, user_id=user_id, guest_role=guest_role, created_at=now,
        last_seen_at=now, authenticated_at=authenticated_at or now,
        user_agent=cut_user_agent(browser.user_agent), client_address=browser.client_address,
    )  # fmt: skip
    await tx.sign_in.add_session(session, token_digest(token))
    return NewSession(session, token)


async def start_operator_session(
    tx: Transaction, runtime: Runtime, now: datetime, operator_id: UUID, browser: Browser
) -> NewOperatorSession:
    """Begin a session of an operator who was authenticated just now, by whatever means."""
    token = mint_token(runtime.entropy.token_bytes(TOKEN_BYTES))
    session = OperatorSession(
        id=runtime.new_id(now), operator_id=operator_id, created_at=now, last_seen_at=now,
        authenticated_at=now, user_agent=cut_user_agent(browser.user_agent),
        client_address=browser.client_address,
    )  # fmt: skip
    await tx.sign_in.add_operator_session(session, token_digest(token))
    return NewOperatorSession(session, token)


async def _account_of(tx: Transaction, link: SignInLink) -> UUID:
    """The account that a link leads to: its own, or the one that its user has belonged to longest."""
    if link.user_id is None:
        assert link.account_id is not None
        return link.account_id
    found = [each.account_id for each in await tx.members.load_memberships(link.user_id)]
    if link.account_id is None and found:
        return found[0]
    if link.account_id in found:
        return link.account_id
    raise link_unusable()
