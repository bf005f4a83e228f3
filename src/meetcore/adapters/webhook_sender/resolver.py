"""Host names by the system's resolver, and the one second for which an answer may serve.

Owns the lookup and its time limit. The domain judges the addresses.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from meetcore.adapters.webhook_sender.local_faults import is_late
from meetcore.adapters.webhook_sender.lookup_limits import (
    LookupLimits,
    LookupRoom,
    load_suffixes,
    registrable_domain,
)
from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address
from meetcore.ports.resolver import Resolver

_Found: TypeAlias = list[tuple[Any, ...]]
_Lookup: TypeAlias = Callable[..., _Found]
_Name = TypeVar("_Name")


class SystemResolver:
    """Resolves by `getaddrinfo`, in threads of its own.

    The event loop's own lookups share few threads (uvloop: four) with file access: a few names whose
    servers hang would stop every other lookup. A lookup cannot be cancelled, so one that takes longer
    than the limit keeps its thread until the system gives up; a second lookup of the same name waits
    for that thread's answer instead of taking another one.

    No lookup waits for a thread, because that delay would count against the name: there is one
    for each of `threads` names at a time, made when it is first needed, and past that a lookup fails at
    once with the cause `OSError(EAGAIN)`. So that hanging names do not take the threads of others, few may
    be under way for one account and in one domain (`limits`); a lookup under way is shared by
    all.
    """

    def __init__(
        self, timeout_s: float = 3.0, *, threads: int = 512, lookup: _Lookup = socket.getaddrinfo,
        limits: LookupLimits | None = None,
    ) -> None:  # fmt: skip
        self._timeout_s = timeout_s
        self._lookup = lookup
        self._most = threads
        self._room = LookupRoom(limits or LookupLimits())
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve")
        self._lookups: dict[str, asyncio.Future[_Found]] = {}

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        limit = asyncio.timeout(self._timeout_s)
        try:
            query = self._lookups.get(host) or await self._begin(host, account_id)
            async with limit:
                found = await asyncio.shield(query)
            # The last field of an IPv6 answer is the scope; `str` keeps it as `%scope`, to be refused.
            addresses = tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
        except (OSError, ValueError) as fault:
            if isinstance(fault, TimeoutError) and is_late(limit):
                fault = OSError(errno.EAGAIN, "this process did not look at the clock in time")
            raise HostUnresolved(f"The host {host} did not resolve.") from fault
        if not addresses:
            raise HostUnresolved(f"The host {host} has no address.")
        return addresses

    async def _begin(self, host: str, account_id: UUID) -> asyncio.Future[_Found]:
        """Start a lookup once there is room, or share one started meanwhile."""
        await load_suffixes()
        domain = registrable_domain(host)
        deadline = asyncio.get_running_loop().time() + self._room.limits.wait_s
        while (query := self._lookups.get(host)) is None and not self._room.has(account_id, domain):
            await self._room.wait(deadline)
        if query is not None:
            return query
        query = self._ask(host)
        self._room.take(account_id, domain)
        query.add_done_callback(lambda _: self._room.give_back(account_id, domain))
        return query

    def _ask(self, host: str) -> asyncio.Future[_Found]:
        if len(self._lookups) >= self._most:
            raise OSError(errno.EAGAIN, "a lookup hangs in every thread")
        # Bytes, because text would be encoded a second time by other rules.
        question = partial(self._lookup, host.encode("ascii"), None, type=socket.SOCK_STREAM)
        try:
            query = asyncio.get_running_loop().run_in_executor(self._threads, question)
        except RuntimeError as refusal:
            raise OSError(errno.EAGAIN, "no thread for a lookup") from refusal
        self._lookups[host] = query
        query.add_done_callback(partial(_remove, self._lookups, host))
        return query

    async def close(self) -> None:
        """Take no more lookups. Those under way are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for query in tuple(self._lookups.values()):
            query.cancel()


class DnsCache:
    """Shares one answer of a resolver among all lookups within `serves_s` seconds of it.

    A burst of deliveries of one account to one host is one lookup; callers that ask while it is under way
    share it. A failure is never kept.
    """

    def __init__(self, resolver: Resolver, clock: Callable[[], float], serves_s: float = 1.0) -> None:
        self._resolver = resolver
        self._clock = clock
        self._serves_s = serves_s
        self._resolved: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._lookups: dict[tuple[str, UUID], asyncio.Future[tuple[Address, ...]]] = {}

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """As `Resolver.resolve`; an answer is at most `serves_s` seconds old.

        Raises:
            LookupsBusy: as the wrapped resolver.
            HostUnresolved: as the wrapped resolver.
        """
        resolved_at, addresses = self._resolved.get(host, (0.0, ()))
        if addresses and self._clock() - resolved_at < self._serves_s:
            return addresses
        # Not shared among accounts: one account's question may have to wait for room that another has.
        name = host, account_id
        task = self._lookups.get(name)
        if task is None:
            task = self._lookups[name] = asyncio.create_task(self._ask(host, account_id))
            task.add_done_callback(partial(_remove, self._lookups, name))
        # Shielded: one caller that runs out of time must not fail the others.
        return await asyncio.shield(task)

    async def _ask(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        addresses = await self._resolver.resolve(host, account_id)
        now = self._clock()
        # The oldest come first, so that what is kept is the hosts of the last second and no more.
        self._resolved.pop(host, None)
        while self._resolved:
            oldest = next(iter(self._resolved))
            if now - self._resolved[oldest][0] < self._serves_s:
                break
            del self._resolved[oldest]
        self._resolved[host] = (now, addresses)
        return addresses

    async def close(self) -> None:
        """Cancel the lookups under way."""
        tasks = list(self._lookups.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _remove(query: dict[_Name, asyncio.Future[Any]], name: _Name, question: asyncio.Future[Any]) -> None:
    del query[name]
    if not question.cancelled():
        # Retrieved here too: every caller may have been cancelled by now.
        question.exception()
