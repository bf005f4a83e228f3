"""Look up keys so that a flood of unknown ones does not slow valid ones.

A key that was valid lately is looked up at once; validity itself is never cached. Of all others only a
few are looked up at a time, and one that was not found is refused without a query for a while. Both caches
are bounded: when they are full, the oldest digests are dropped.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from attrs import define, field

from meetcore.domain.errors import ServiceUnavailable

Found = TypeVar("Found")

VALID_LASTS = timedelta(minutes=10)
MAX_DIGESTS = 10_000
MAX_WAITING = 200
RETRY_AFTER_S = 1


@define
class DigestMemory:
    """The latest digests, each for a time.

    Args:
        lasts: how long a digest is kept.
        at_most: how many are.
    """

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
    """Decides when a digest is looked up.

    Args:
        at_once: how many digests are looked up at a time that were not valid lately.
        missing: those that were not found.
        valid: those of keys that were valid lately.
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

        Raises:
            ServiceUnavailable: too many unknown keys wait to be looked up.
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
