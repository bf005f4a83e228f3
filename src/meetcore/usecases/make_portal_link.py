"""Make one-time links for those whom the operator's own product has signed in already, and for operators."""

from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.members.operator_tokens import OperatorToken, token_origin
from meetcore.domain.members.roles import OperatorAction, OperatorRole, Role, check_operator_allowed
from meetcore.domain.members.sign_in_links import (
    DEFAULT_PORTAL_MINUTES,
    LinkPurpose,
    SignInLink,
    check_minutes,
)
from meetcore.domain.members.tokens import TOKEN_BYTES, mint_token, token_digest
from meetcore.domain.requests.accounts import email_key
from meetcore.ports.member_queries import MemberQueries, SignedInOperator
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.erased_accounts import lock_unerased
from meetcore.usecases.request_sign_in_link import console_url, dashboard_url
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
    prove to be that member.
    """

    store: Store
    queries: MemberQueries
    runtime: Runtime
    base_url: str
    origin: ActionOrigin = SERVICE
    role: OperatorRole | None = None
    pins: bool = False

    def acting_as(self, origin: ActionOrigin) -> "MakePortalLink":
        """Return the same use case for a user of the system, who may do everything."""
        return evolve(self, origin=origin, role=None, pins=True)

    def by(self, signed_in: SignedInOperator, client_address: str | None) -> "MakePortalLink":
        """Return the same use case for an operator, who may do what the role says."""
        return evolve(self, origin=signed_in.origin(client_address), role=signed_in.operator.role, pins=True)

    def by_token(self, token: OperatorToken, client_address: str | None) -> "MakePortalLink":
        """Return the same use case for a program of the operator's, which may do what its role says."""
        return evolve(self, origin=token_origin(token, client_address), role=token.role, pins=True)

    async def for_guest(
        self, account_id: UUID, role: Role = Role.VIEWER, minutes: int = DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link that signs in once as a guest of a role.

        Raises:
            ActionNotAllowed: the operator's role may not.
            Conflict: the account was erased.
            InvalidMinutes: not from 1 to 60.
            NotFound: no such account.
        """
        is_owner = role is Role.OWNER
        self._check(OperatorAction.MAKE_OWNER_LINKS if is_owner else OperatorAction.MAKE_PORTAL_LINKS)
        return await self._make(minutes, LinkPurpose.PORTAL, account_id, guest_role=role)

    async def for_member(
        self, account_id: UUID, email: str, minutes: int = DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link that signs in once as a member.

        Raises:
            ActionNotAllowed: the operator's role may not.
            Conflict: the account was erased.
            InvalidMinutes: not from 1 to 60.
            NotFound: no such account, or no member of it with this e-mail address.
        """
        self._check(OperatorAction.MAKE_OWNER_LINKS)
        members = await self.queries.list_members(account_id)
        user = next((one.user for one in members if email_key(one.user.email) == email_key(email)), None)
        if user is None:
            raise NotFound("No member of this account has this e-mail address.")
        return await self._make(minutes, LinkPurpose.PORTAL, account_id, user_id=user.id)

    async def for_operator(self, operator_id: UUID, minutes: int = DEFAULT_PORTAL_MINUTES) -> PortalLink:
        """Make a link to the console that signs in once as an operator.

        Raises:
            ActionNotAllowed: the operator's role may not.
            InvalidMinutes: not from 1 to 60.
            NotFound: no such operator.
        """
        self._check(OperatorAction.MANAGE_OPERATORS)
        if operator_id not in {operator.id for operator in await self.queries.list_operators()}:
            raise NotFound("No operator with this id.")
        return await self._make(minutes, LinkPurpose.OPERATOR, None, operator_id=operator_id)

    def _check(self, action: OperatorAction) -> None:
        if self.role is not None:
            check_operator_allowed(self.role, action)

    async def _make(
        self, minutes: int, purpose: LinkPurpose, account_id: UUID | None, *, user_id: UUID | None = None,
        guest_role: Role | None = None, operator_id: UUID | None = None,
    ) -> PortalLink:  # fmt: skip
        now = self.runtime.now()
        token = mint_token(self.runtime.entropy.token_bytes(TOKEN_BYTES))
        link = SignInLink(
            self.runtime.new_id(now), purpose, now, now + check_minutes(minutes), account_id, user_id,
            guest_role, operator_id=operator_id, is_pinned=self.pins and purpose is LinkPurpose.PORTAL,
        )  # fmt: skip
        async with self.store.begin() as tx:
            if account_id is not None:
                await lock_unerased(tx, account_id)
            await tx.sign_in.add_link(link, token_digest(token))
            target = user_id or operator_id or account_id
            await record_action(
                tx, self.runtime, now, self.origin, "portal_link.created", account_id, target,
                minutes=minutes, role=guest_role,
            )  # fmt: skip
        make_url = dashboard_url if purpose is LinkPurpose.PORTAL else console_url
        return PortalLink(make_url(self.base_url, token), link.expires_at)
