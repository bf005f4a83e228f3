"""How many look-ups may be under way at one time, for one account and in one registrable domain.

A look-up cannot be cancelled: one whose name servers do not answer keeps its thread for as long as the system
tries. Without these limits 500 such names of one customer would take every thread, and all other webhooks
with them. They hold in each process.

Owns the counting and the waiting for room. It makes no lookups.
"""

import asyncio
from collections import Counter
from functools import cache
from typing import TypeVar
from uuid import UUID

from attrs import field, frozen
from publicsuffixlist import PublicSuffixList

from meetcore.ports.resolver import LookupsBusy

_Name = TypeVar("_Name")


@frozen
class LookupLimits:
    """Look-ups at one time, and for how many seconds one waits for room."""

    per_account: int = 8
    per_domain: int = 4
    wait_s: float = 2.0


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # the list in the package: nothing is fetched


async def load_suffixes() -> None:
    """Read the list, once: some 80 ms that the event loop is spared."""
    if not _suffixes.cache_info().currsize:
        await asyncio.to_thread(_suffixes)


def registrable_domain(host: str) -> str:
    """Return the registered part of a name: `hooks.example.co.uk` is of `example.co.uk`.

    By the Public Suffix List, the suffixes of hosting companies included: who has `a.github.io` has nothing
    of `b.github.io`. A name that is a suffix itself stands for itself.
    """
    return _suffixes().privatesuffix(host) or host


def _count_down(counter: Counter[_Name], name: _Name) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]  # so that what is kept is what is under way


@frozen
class LookupRoom:
    """Counts the look-ups that are under way. To be used on one event loop."""

    limits: LookupLimits
    _of_account: Counter[UUID] = field(factory=Counter, init=False)
    _of_domain: Counter[str] = field(factory=Counter, init=False)
    _waiting: dict[asyncio.Future[None], None] = field(factory=dict, init=False)

    def has(self, account_id: UUID, domain: str) -> bool:
        """Whether one more may begin."""
        limits = self.limits
        return (
            self._of_account[account_id] < limits.per_account and self._of_domain[domain] < limits.per_domain
        )

    def take(self, account_id: UUID, domain: str) -> None:
        """Count one that begins."""
        self._of_account[account_id] += 1
        self._of_domain[domain] += 1

    def give_back(self, account_id: UUID, domain: str) -> None:
        """Count one that has ended, and let those that wait look again."""
        _count_down(self._of_account, account_id)
        _count_down(self._of_domain, domain)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, deadline: float) -> None:
        """Wait until one has ended, the longest waiting first.

        Args:
            deadline: by the event loop's clock.

        Raises:
            LookupsBusy: no room in time.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except TimeoutError:
            raise LookupsBusy(
                "Too many names of this account or of this domain are being looked up and do not answer. "
                "Try again in a minute."
            ) from None
        finally:
            del self._waiting[waiter]
