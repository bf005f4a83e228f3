"""Links by which others enter the dashboard: guests by a role, operators to look."""

from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.members import audit, operators, sessions, sign_in, views
from meetcore.domain.members.roles import OperatorAction, OperatorRole, Role, check_operator_allowed
from meetcore.domain.requests.accounts import email_key
from meetcore.ports.members import MemberQueries
from meetcore.ports.store import Store
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.members.sign_in_links import (
    Browser,
    NewSession,
    console_url,
    dashboard_url,
    start_session,
)
from meetcore.usecases.requests.erasure import lock_unerased
from meetcore.usecases.runtime import Runtime


@frozen
class PortalLink:
    """A link: the only moment at which its address can be read."""

    url: str = field(repr=False)
    expires_at: datetime


@frozen
class MakePortalLink:
    """Makes links as `origin` asks for them: an operator of `role`, or the system without one.

    With `pins` a session stays in the link's account, and a member's is not fresh: who made the link did not
    prove to be that member. Each raises `InvalidMinutes` where these are not from 1 to 60, and `Conflict`
    where the account was erased.
    """

    store: Store
    queries: MemberQueries
    runtime: Runtime
    base_url: str
    origin: audit.ActionOrigin = audit.SERVICE
    role: OperatorRole | None = None
    pins: bool = False

    def by(self, signed_in: views.SignedInOperator, client_address: str | None) -> "MakePortalLink":
        """Return the same use case for an operator, who may do what the role says."""
        return evolve(self, origin=signed_in.origin(client_address), role=signed_in.operator.role, pins=True)

    def by_token(self, token: operators.OperatorToken, client_address: str | None) -> "MakePortalLink":
        """Return the same use case for a program of the operator's, by its role."""
        return evolve(self, origin=operators.token_origin(token, client_address), role=token.role, pins=True)

    async def for_guest(
        self, account_id: UUID, role: Role = Role.VIEWER, minutes: int = sign_in.DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link that signs in once as a guest of a role."""
        is_owner = role is Role.OWNER
        self._check(OperatorAction.MAKE_OWNER_LINKS if is_owner else OperatorAction.MAKE_PORTAL_LINKS)
        return await self._make(minutes, sign_in.LinkPurpose.PORTAL, account_id, guest_role=role)

    async def for_member(
        self, account_id: UUID, email: str, minutes: int = sign_in.DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link that signs in once as a member."""
        self._check(OperatorAction.MAKE_OWNER_LINKS)
        members = await self.queries.list_members(account_id)
        user = next((one.user for one in members if email_key(one.user.email) == email_key(email)), None)
        if user is None:
            raise NotFound("No member of this account has this e-mail address.")
        return await self._make(minutes, sign_in.LinkPurpose.PORTAL, account_id, user_id=user.id)

    async def for_operator(
        self, operator_id: UUID, minutes: int = sign_in.DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link to the console that signs in once as an operator."""
        self._check(OperatorAction.MANAGE_OPERATORS)
        if operator_id not in {operator.id for operator in await self.queries.list_operators()}:
            raise NotFound("No operator with this id.")
        return await self._make(minutes, sign_in.LinkPurpose.OPERATOR, None, operator_id=operator_id)

    def _check(self, action: OperatorAction) -> None:
        if self.role is not None:
            check_operator_allowed(self.role, action)

    async def _make(
        self, minutes: int, purpose: sign_in.LinkPurpose, account_id: UUID | None, *,
        user_id: UUID | None = None, guest_role: Role | None = None, operator_id: UUID | None = None,
    ) -> PortalLink:  # fmt: skip
        now = self.runtime.now()
        token = sign_in.mint_token(self.runtime.entropy.token_bytes(sign_in.TOKEN_BYTES))
        link = sign_in.SignInLink(
            self.runtime.new_id(now), purpose, now, now + sign_in.check_minutes(minutes), account_id,
            user_id, guest_role, operator_id=operator_id,
            is_pinned=self.pins and purpose is sign_in.LinkPurpose.PORTAL,
        )  # fmt: skip
        async with self.store.begin() as tx:
            if account_id is not None:
                await lock_unerased(tx, account_id)
            await tx.sign_in.add_link(link, sign_in.token_digest(token))
            target = user_id or operator_id or account_id
            await record_action(
                tx, self.runtime, now, self.origin, "portal_link.created", account_id, target,
                minutes=minutes, role=guest_role,
            )  # fmt: skip
        make_url = dashboard_url if purpose is sign_in.LinkPurpose.PORTAL else console_url
        return PortalLink(make_url(self.base_url, token), link.expires_at)


@frozen
class Impersonate:
    """Begins views of accounts."""

    store: Store
    runtime: Runtime

    async def begin(self, who: views.SignedInOperator, account_id: UUID, browser: Browser) -> NewSession:
        """Begin a session in which an operator sees an account and changes nothing of it."""
        check_operator_allowed(who.operator.role, OperatorAction.IMPERSONATE)
        now = self.runtime.now()
        origin = who.origin(browser.client_address, is_impersonated=True)
        async with self.store.begin() as tx:
            await tx.registry.load_account(account_id)
            begun = await start_session(
                tx, self.runtime, now, account_id, None, browser, None, Role.VIEWER,
                impersonated_by=who.operator.id,
            )  # fmt: skip
            await record_action(
                tx, self.runtime, now, origin, "account.viewed", account_id, account_id,
                minutes=int(sessions.VIEW_LIMIT.total_seconds()) // 60,
            )  # fmt: skip
        return begun
