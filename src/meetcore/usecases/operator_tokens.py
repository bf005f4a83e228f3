"""Tokens of the operator's programs: made, listed, revoked, and presented with a request."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import RateLimited
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.members.operator_tokens import (
    DEFAULT_TOKEN_DAYS,
    DEFAULT_TOKEN_NAME,
    OperatorToken,
    check_days,
    check_token_usable,
    mint_operator_token,
    read_operator_token,
)
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.tokens import TOKEN_BYTES, token_digest
from meetcore.domain.requests.keys import check_name, last_four
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, OperationClass, decide, window_start
from meetcore.ports.member_queries import MemberQueries
from meetcore.ports.rate_counters import RateCounters
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.key_lookups import KeyLookups
from meetcore.usecases.runtime import Runtime

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
    queries: MemberQueries
    counters: RateCounters
    runtime: Runtime
    key_prefix: str
    lookups: KeyLookups = field(factory=KeyLookups)
    origin: ActionOrigin = SERVICE

    def acting_as(self, origin: ActionOrigin) -> "OperatorTokens":
        """Return the same use cases for another actor, who stands in the audit log."""
        return evolve(self, origin=origin)

    async def create(
        self, role: OperatorRole, name: str = DEFAULT_TOKEN_NAME, days: int = DEFAULT_TOKEN_DAYS
    ) -> MintedOperatorToken:
        """Make a token of a role.

        Raises:
            InvalidName: see `keys.check_name`.
            InvalidDays: see `check_days`.
        """
        now = self.runtime.now()
        text = mint_operator_token(self.key_prefix, self.runtime.entropy.token_bytes(TOKEN_BYTES))
        token = OperatorToken(
            self.runtime.new_id(now), check_name(name), role, last_four(text), now, now + check_days(days)
        )
        async with self.store.begin() as tx:
            await tx.operators.add_token(token, token_digest(text))
            await record_action(
                tx, self.runtime, now, self.origin, "operator_token.created", None, token.id, name=name,
                role=role, expires_at=utc_text(token.expires_at),
            )  # fmt: skip
        return MintedOperatorToken(token, text)

    async def list_tokens(self) -> Sequence[OperatorToken]:
        """Every token, the oldest first, revoked and expired ones included."""
        return await self.queries.list_operator_tokens()

    async def revoke(self, token_id: UUID) -> OperatorToken:
        """Refuse a token from its next request on; one that is revoked keeps the time.

        Raises:
            NotFound: no such token.
        """
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
