"""Admit requests: authenticate the key, count against its quota, collect its log and its key.

A flood of unknown keys does not slow valid ones: a key that was valid lately is looked up at once (validity
itself is never cached), of all others only a few are looked up at a time, and one that was not found is
refused without a query for a while. Both caches are bounded; the oldest digests are dropped.

Log and uses are collected in memory, and periodic tasks write some hundreds in one statement. A process that
is killed loses those of one period. Neither makes a request fail.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final, TypeVar
from uuid import UUID

from attrs import define, field, frozen

from meetcore.domain.errors import InvalidApiKey, RateLimited, ServiceUnavailable
from meetcore.domain.requests.accounts import check_active
from meetcore.domain.requests.keys import ApiKey, check_usable, digest, minute_of_use, read_bearer
from meetcore.domain.requests.rate_window import (
    WINDOW_SECONDS,
    OperationClass,
    Quotas,
    RateVerdict,
    decide,
    full_verdict,
    window_start,
)
from meetcore.domain.requests.request_log import LoggedRequest, MinuteSample, is_error, sample
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes, Queries
from meetcore.ports.requests import KeyUses, RateCounters, RequestLog
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.requests.idempotency import DuplicateLimit
from meetcore.usecases.runtime import ignore

Found = TypeVar("Found")

VALID_LASTS = timedelta(minutes=10)
MAX_DIGESTS = 10_000
MAX_WAITING = 200
RETRY_AFTER_S = 1


@define
class DigestMemory:
    """The latest `at_most` digests, each for as long as it `lasts`."""

    lasts: timedelta
    at_most: int = MAX_DIGESTS
    _until: dict[bytes, datetime] = field(factory=dict, init=False, repr=False)

    def add(self, digest: bytes, now: datetime) -> None:
        """Add a digest."""
        self.discard(digest)
        self._until[digest] = now + self.lasts
        if len(self._until) > self.at_most:
            del self._until[next(iter(self._until))]

    def discard(self, digest: bytes) -> None:
        """Remove a digest."""
        self._until.pop(digest, None)

    def has(self, digest: bytes, now: datetime) -> bool:
        """Return whether a digest is present."""
        until = self._until.get(digest)
        return until is not None and now < until


@define
class KeyLookups:
    """Decides when a digest is looked up: of those not valid lately, `at_once` at a time.

    `missing` has those that were not found, `valid` those of keys that were valid lately.
    """

    at_once: int = 2
    missing: DigestMemory = field(factory=lambda: DigestMemory(timedelta(seconds=10)))
    valid: DigestMemory = field(factory=lambda: DigestMemory(VALID_LASTS))
    _waiting: int = field(default=0, init=False)
    _places: asyncio.Semaphore = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.at_once)

    async def find(
        self, digest: bytes, now: datetime, look_up: Callable[[], Awaitable[Found | None]]
    ) -> Found | None:
        """Look a digest up, or answer `None` where it was not found a moment ago.

        Raises `ServiceUnavailable`: too many unknown keys wait to be looked up.
        """
        if self.valid.has(digest, now):
            return await look_up()
        if self.missing.has(digest, now):
            return None
        if self._waiting >= MAX_WAITING:
            raise ServiceUnavailable(
                "Too many unknown keys are being checked. Try again soon.", RETRY_AFTER_S
            )
        self._waiting += 1
        try:
            async with self._places:
                return await self._find_unknown(digest, now, look_up)
        finally:
            self._waiting -= 1

    async def _find_unknown(
        self, digest: bytes, now: datetime, look_up: Callable[[], Awaitable[Found | None]]
    ) -> Found | None:
        if self.missing.has(digest, now):  # another request has looked it up meanwhile
            return None
        found = await look_up()
        if found is None:
            self.missing.add(digest, now)
        return found


MAX_COLLECTED: Final = 10_000
MAX_ACCOUNTS: Final = 20_000
BATCH: Final = 500

_NONE: Final = MinuteSample()


@define
class CollectRequests:
    """Keeps requests, `at_most` of them, until they are written.

    Further ones are dropped; `report` is called with how many were since it was called last.
    """

    store: RequestLog
    report: Callable[[int], object] = ignore
    at_most: int = MAX_COLLECTED
    _waiting: deque[LoggedRequest] = field(factory=deque, init=False, repr=False)
    _minute: int = field(default=-1, init=False)
    _samples: dict[UUID, MinuteSample] = field(factory=dict, init=False, repr=False)
    _dropped: int = field(default=0, init=False)

    def add(self, account_id: UUID, at: datetime, status: int, describe: Callable[[], LoggedRequest]) -> None:
        """Describe and keep a request, if it is among those of its account and minute that are kept."""
        minute = int(at.timestamp()) // 60
        if minute > self._minute:
            self._minute = minute
            self._samples.clear()
        so_far = self._samples.get(account_id, _NONE)
        if so_far is _NONE and len(self._samples) >= MAX_ACCOUNTS:
            self._dropped += 1
            return
        self._samples[account_id], is_kept = sample(so_far, is_error=is_error(status))
        if not is_kept:
            return
        if len(self._waiting) >= self.at_most:
            self._dropped += 1
        else:
            self._waiting.append(describe())

    async def __call__(self) -> None:
        """Write the collected requests; where the store does not answer they are kept for the next time."""
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self.report(dropped)
        while self._waiting:
            batch = list(islice(self._waiting, BATCH))
            try:
                await self.store.save(batch)
            except StoreUnavailable:
                raise
            except Exception:  # the same batch would be refused for ever, and hold up those behind it
                self._dropped += len(batch)
                self._forget(batch)
                raise
            self._forget(batch)

    def _forget(self, batch: Sequence[LoggedRequest]) -> None:
        for _ in batch:  # those that came meanwhile stand behind them
            self._waiting.popleft()


MAX_KEYS: Final = 20_000
_MINUTE: Final = timedelta(minutes=1)


@define
class TrackKeyUse:
    """Keeps the latest use of each key until it is written, of `at_most` keys.

    Further ones are kept from their first request after a write.
    """

    store: KeyUses
    at_most: int = MAX_KEYS
    _used: dict[UUID, datetime] = field(factory=dict, init=False, repr=False)

    def add(self, key: ApiKey, now: datetime) -> None:
        """Keep a use of a key, unless its minute or a later one is stored already."""
        known = self._used.get(key.id, key.last_used_at)
        if known is not None and now < known + _MINUTE:
            return
        if key.id in self._used or len(self._used) < self.at_most:
            self._used[key.id] = minute_of_use(now)

    async def __call__(self) -> None:
        """Write the collected uses; where the store does not answer they are kept for the next time."""
        used = dict(self._used)
        if not used:
            return
        await self.store.save(used)
        # A use that came meanwhile is of a later minute, and stays.
        self._used = {key_id: at for key_id, at in self._used.items() if used.get(key_id) != at}


@frozen
class Admit:
    """Admits every request, with one instant for both checks.

    `duplicates` bounds the requests that wait for another one with the same idempotency key. `uses`
    collects accepted keys, `requests` the log.
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
        self, authorization: str | None, now: datetime, includes: CallerIncludes = NO_INCLUDES, *,
        takes_tokens: bool = False,
    ) -> Caller:  # fmt: skip
        """Authenticate the caller, and read the parts of the account in `includes` by the same query.

        `takes_tokens`: an access token of a grant stands for its key.

        Raises:
            InvalidApiKey: no key, a malformed one, or one that is unknown, revoked, expired or of a suspended
                account.
            ServiceUnavailable: too many unknown keys wait to be looked up.
        """
        text = read_bearer(authorization, self.key_prefix, takes_tokens=takes_tokens)
        key_digest = digest(text)
        look_up = partial(self.queries.find_caller, key_digest, includes)
        caller = await self.lookups.find(key_digest, now, look_up)
        try:
            check_usable(None if caller is None else caller.key, text, now)
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

    def full_verdict(self, operation_class: OperationClass, now: datetime) -> RateVerdict:
        """Return the window without counting a request."""
        return full_verdict(self.quotas.of(operation_class), now)

    @staticmethod
    def refusal(verdict: RateVerdict, operation_class: OperationClass) -> RateLimited:
        """Return the refusal of a request beyond its quota."""
        message = (
            f"More than {verdict.limit} requests of the {operation_class} quota in this minute. "
            f"Wait {verdict.retry_after_s} s and try again."
        )
        return RateLimited(verdict.limit, WINDOW_SECONDS, verdict.retry_after_s, message)
