"""Operators of the console, and the tokens of their programs."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import RateLimited
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members import audit, roles, sign_in, views
from meetcore.domain.members.operators import (
    DEFAULT_TOKEN_DAYS,
    DEFAULT_TOKEN_NAME,
    OPERATOR,
    Operator,
    OperatorToken,
    check_days,
    check_token_usable,
    read_operator_token,
)
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.keys import check_name, last_four, mint
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, OperationClass, decide, window_start
from meetcore.ports import members, requests
from meetcore.ports.store import Store
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.requests.admit import KeyLookups
from meetcore.usecases.runtime import Runtime


@frozen
class Operators:
    """Changes of operators as `origin` asks for them: an operator of `role`, or the system without one."""

    store: Store
    queries: members.MemberQueries
    runtime: Runtime
    origin: audit.ActionOrigin = audit.SERVICE
    role: roles.OperatorRole | None = None

    def by(self, signed_in: views.SignedInOperator, client_address: str | None) -> "Operators":
        """Return the same use cases for an operator, who may do what the role says."""
        return evolve(self, origin=signed_in.origin(client_address), role=signed_in.operator.role)

    async def list_operators(self) -> Sequence[Operator]:
        """Return the operators, the oldest first."""
        self._check()
        return await self.queries.list_operators()

    async def add(self, email: str, role: roles.OperatorRole) -> Operator:
        """Add an operator; raise `InvalidEmail`, or `Conflict` where an operator has the address already."""
        self._check()
        check_email(email)
        now = self.runtime.now()
        operator = Operator(self.runtime.new_id(now), email, role, now)
        async with self.store.begin() as tx:
            await tx.operators.add(operator)
            await record_action(
                tx,
                self.runtime,
                now,
                self.origin,
                "operator.added",
                None,
                operator.id,
                email=email,
                role=role,
            )
        return operator

    async def remove(self, operator_id: UUID) -> Operator:
        """Remove an operator; every session of theirs ends."""
        self._check()
        now = self.runtime.now()
        async with self.store.begin() as tx:
            operator = await tx.operators.remove(operator_id, now)
            if operator.removed_at == now:
                await record_action(
                    tx,
                    self.runtime,
                    now,
                    self.origin,
                    "operator.removed",
                    None,
                    operator_id,
                    email=operator.email,
                )
        return operator

    def _check(self) -> None:
        if self.role is not None:
            roles.check_operator_allowed(self.role, roles.OperatorAction.MANAGE_OPERATORS)


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
