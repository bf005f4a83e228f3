"""Admit a request: authenticate the caller (spec 5) and apply the quota (spec 8)."""

from datetime import datetime
from functools import partial
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.errors import InvalidApiKey, RateLimited
from meetcore.domain.requests.accounts import check_active
from meetcore.domain.requests.keys import check_usable, digest, read_bearer
from meetcore.domain.requests.rate_window import (
    WINDOW_SECONDS,
    OperationClass,
    Quotas,
    RateVerdict,
    decide,
    untouched,
    window_start,
)
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes, Queries
from meetcore.ports.rate_counters import RateCounters
from meetcore.usecases.collect_requests import CollectRequests
from meetcore.usecases.duplicates import DuplicateLimit
from meetcore.usecases.key_lookups import KeyLookups
from meetcore.usecases.track_key_use import TrackKeyUse


@frozen
class Admit:
    """Admits every request, with one instant for both checks.

    `duplicates` bounds the requests that wait for another one with the same idempotency key. `uses`
    keeps each key that was accepted, `requests` what became of its requests.
    """

    queries: Queries
    counters: RateCounters
    quotas: Quotas
    key_prefix: str
    uses: TrackKeyUse
    requests: CollectRequests
    duplicates: DuplicateLimit = field(factory=DuplicateLimit)
    lookups: KeyLookups = field(factory=KeyLookups)

    async def authenticate(
        self, authorization: str | None, now: datetime, includes: CallerIncludes = NO_INCLUDES
    ) -> Caller:
        """Authenticate the caller, and read what `includes` names of the account in the same query.

        Raises:
            InvalidApiKey: no key, a malformed one, or one that is unknown, revoked, expired or of a suspended
                account.
            ServiceUnavailable: too many unknown keys wait to be looked up.
        """
        key_digest = digest(read_bearer(authorization, self.key_prefix))
        look_up = partial(self.queries.find_caller, key_digest, includes)
        caller = await self.lookups.find(key_digest, now, look_up)
        try:
            check_usable(None if caller is None else caller.key, now)
            assert caller is not None
            check_active(caller.account.suspended_at)
        except InvalidApiKey:
            self.lookups.valid.discard(key_digest)
            raise
        self.lookups.valid.add(key_digest, now)
        self.uses.add(caller.key, now)
        return caller

    async def count(self, key_id: UUID, operation_class: OperationClass, now: datetime) -> RateVerdict:
        """Count a request against its quota and judge it; a refused one counts too (rule 8/5)."""
        hits = await self.counters.hit(key_id, operation_class, window_start(now))
        return decide(self.quotas.of(operation_class), hits, now)

    def untouched(self, operation_class: OperationClass, now: datetime) -> RateVerdict:
        """Return the window without counting a request."""
        return untouched(self.quotas.of(operation_class), now)

    @staticmethod
    def refusal(verdict: RateVerdict) -> RateLimited:
        """The refusal of a request beyond its quota."""
        return RateLimited(verdict.limit, WINDOW_SECONDS, verdict.retry_after_s)
