"""Operators of the console, the tokens of their programs, and the links and views that let others in.

Links are for guests by a role and for members; operators look at accounts in views.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import NotFound, RateLimited
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members import audit, roles, sessions, sign_in, views
from meetcore.domain.members.operators import (
    DEFAULT_TOKEN_DAYS,
    DEFAULT_TOKEN_NAME,
    OPERATOR,
    Operator,
    OperatorToken,
    check_days,
    check_token_usable,
    read_operator_token,
    token_origin,
)
from meetcore.domain.requests.accounts import check_email, email_key
from meetcore.domain.requests.keys import check_name, last_four, mint
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, OperationClass, decide, window_start
from meetcore.ports import members, requests
from meetcore.ports.store import Store
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.members.sign_in_links import (
    Browser,
    NewSession,
    console_url,
    dashboard_url,
    start_session,
)
from meetcore.usecases.requests.admit import KeyLookups
from meetcore.usecases.requests.erasure import lock_unerased
from meetcore.usecases.runtime import Runtime


@frozen
class Operators:
    """Changes of operators as `origin` asks for them, at the command line alone."""

    store: Store
    queries: members.MemberQueries
    runtime: Runtime
    origin: audit.ActionOrigin = audit.SERVICE

    async def list_operators(self) -> Sequence[Operator]:
        """Return the operators, the oldest first."""
        return await self.queries.list_operators()

    async def add(self, email: str, role: roles.OperatorRole) -> Operator:
        """Add an operator; raise `InvalidEmail`, or `Conflict` where an operator has the address already."""
        check_email(email)
        now = self.runtime.now()
        operator = Operator(self.runtime.new_id(now), email, role, now)
        async with self.store.begin() as tx:
            await tx.operators.add(operator)
            await record_action(
                tx, self.runtime, now, self.origin, "operator.added", None, operator.id, email=email,
                role=role,
            )  # fmt: skip
        return operator

    async def remove(self, operator_id: UUID) -> Operator:
        """Remove an operator; every session of theirs ends."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            operator = await tx.operators.remove(operator_id, now)
            if operator.removed_at == now:
                await record_action(
                    tx, self.runtime, now, self.origin, "operator.removed", None, operator_id,
                    email=operator.email,
                )  # fmt: skip
        return operator


REQUESTS_PER_MINUTE = 60
"""Requests that one token may make in a minute of the clock."""


@frozen
class MintedOperatorToken:
    """A new token: the only moment at which its text can be read."""

    token: OperatorToken
    text: str = field(repr=False)


@frozen
class OperatorTokens:
    """The use cases of tokens. They are changed at the command line alone, as `origin` asks."""

    store: Store
    queries: members.MemberQueries
    counters: requests.RateCounters
    runtime: Runtime
    key_prefix: str
    lookups: KeyLookups = field(factory=KeyLookups)
    origin: audit.ActionOrigin = audit.SERVICE

    async def create(
        self, role: roles.OperatorRole, name: str = DEFAULT_TOKEN_NAME, days: int = DEFAULT_TOKEN_DAYS
    ) -> MintedOperatorToken:
        """Make a token of a role; raise as `keys.check_name` and `check_days` do."""
        now = self.runtime.now()
        text = mint(self.key_prefix, self.runtime.entropy.token_bytes(sign_in.TOKEN_BYTES), OPERATOR)
        token = OperatorToken(
            self.runtime.new_id(now), check_name(name), role, last_four(text), now, now + check_days(days)
        )
        async with self.store.begin() as tx:
            await tx.operators.add_token(token, sign_in.token_digest(text))
            await record_action(
                tx, self.runtime, now, self.origin, "operator_token.created", None, token.id, name=name,
                role=role, expires_at=utc_text(token.expires_at),
            )  # fmt: skip
        return MintedOperatorToken(token, text)

    async def list_tokens(self) -> Sequence[OperatorToken]:
        """Return every token, the oldest first, revoked and expired ones included."""
        return await self.queries.list_operator_tokens()

    async def revoke(self, token_id: UUID) -> OperatorToken:
        """Refuse a token from its next request on; one that is revoked keeps the time."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            token = await tx.operators.revoke_token(token_id, now)
            if token.revoked_at == now:
                await record_action(
                    tx, self.runtime, now, self.origin, "operator_token.revoked", None, token_id,
                    name=token.name,
                )  # fmt: skip
        return token

    async def authenticate(self, authorization: str | None) -> OperatorToken:
        """Find the token of a request by its `Authorization` header, and count the request.

        Raises:
            InvalidApiKey: no token, or one that is unknown, revoked or expired.
            RateLimited: more than `REQUESTS_PER_MINUTE` requests with this token.
            ServiceUnavailable: too many unknown tokens wait to be looked up.
        """
        now = self.runtime.now()
        digest = read_operator_token(authorization, self.key_prefix)
        found = await self.lookups.find(digest, now, partial(self.queries.find_operator_token, digest))
        self.lookups.valid.discard(digest)
        token = check_token_usable(found, now)
        self.lookups.valid.add(digest, now)
        hits = await self.counters.hit(token.id, OperationClass.WRITE, window_start(now))
        verdict = decide(REQUESTS_PER_MINUTE, hits, now)
        if not verdict.is_allowed:
            raise RateLimited(verdict.limit, WINDOW_SECONDS, verdict.retry_after_s)
        return token


@frozen
class PortalLink:
    """A link: the only moment at which its address can be read."""

    url: str = field(repr=False)
    expires_at: datetime


@frozen
class MakePortalLink:
    """Makes links as `origin` asks for them: an operator's program of `role`, or the system without one.

    With `pins` a session stays in the link's account, and a member's is not fresh: who made the link did not
    prove to be that member. Each raises `InvalidMinutes` where these are not from 1 to 60, and `Conflict`
    where the account was erased.
    """

    store: Store
    queries: members.MemberQueries
    runtime: Runtime
    base_url: str
    origin: audit.ActionOrigin = audit.SERVICE
    role: roles.OperatorRole | None = None
    pins: bool = False

    def by_token(self, token: OperatorToken, client_address: str | None) -> "MakePortalLink":
        """Return the same use case for a program of the operator's, by its role."""
        return evolve(self, origin=token_origin(token, client_address), role=token.role, pins=True)

    async def for_guest(
        self,
        account_id: UUID,
        role: roles.Role = roles.Role.VIEWER,
        minutes: int = sign_in.DEFAULT_PORTAL_MINUTES,
    ) -> PortalLink:
        """Make a link that signs in once as a guest of a role."""
        is_owner = role is roles.Role.OWNER
        self._check(
            roles.OperatorAction.MAKE_OWNER_LINKS if is_owner else roles.OperatorAction.MAKE_PORTAL_LINKS
        )
        return await self._make(minutes, sign_in.LinkPurpose.PORTAL, account_id, guest_role=role)

    async def for_member(
        self, account_id: UUID, email: str, minutes: int = sign_in.DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link that signs in once as a member."""
        self._check(roles.OperatorAction.MAKE_OWNER_LINKS)
        found = await self.queries.list_members(account_id)
        user = next((one.user for one in found if email_key(one.user.email) == email_key(email)), None)
        if user is None:
            raise NotFound("No member of this account has this e-mail address.")
        return await self._make(minutes, sign_in.LinkPurpose.PORTAL, account_id, user_id=user.id)

    async def for_operator(
        self, operator_id: UUID, minutes: int = sign_in.DEFAULT_PORTAL_MINUTES
    ) -> PortalLink:
        """Make a link to the console that signs in once as an operator."""
        self._check(roles.OperatorAction.MANAGE_OPERATORS)
        if operator_id not in {operator.id for operator in await self.queries.list_operators()}:
            raise NotFound("No operator with this id.")
        return await self._make(minutes, sign_in.LinkPurpose.OPERATOR, None, operator_id=operator_id)

    def _check(self, action: roles.OperatorAction) -> None:
        if self.role is not None:
            roles.check_operator_allowed(self.role, action)

    async def _make(
        self, minutes: int, purpose: sign_in.LinkPurpose, account_id: UUID | None, *,
        user_id: UUID | None = None, guest_role: roles.Role | None = None, operator_id: UUID | None = None,
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
        """Begin a session in which an operator sees an account and changes nothing of it.

        Raises `NotFound`: there is no such account, or the operator's session has ended meanwhile.
        """
        roles.check_operator_allowed(who.operator.role, roles.OperatorAction.IMPERSONATE)
        now = self.runtime.now()
        origin = who.origin(browser.client_address, is_impersonated=True)
        async with self.store.begin() as tx:
            if not await tx.sign_in.lock_operator_session(who.session.id):
                raise NotFound("This session has ended.")
            await tx.registry.load_account(account_id)
            begun = await start_session(
                tx, self.runtime, now, account_id, None, browser, None, roles.Role.VIEWER,
                impersonated_by=who.operator.id,
            )  # fmt: skip
            await record_action(
                tx, self.runtime, now, origin, "account.viewed", account_id, account_id,
                minutes=int(sessions.VIEW_LIMIT.total_seconds()) // 60,
            )  # fmt: skip
        return begun
