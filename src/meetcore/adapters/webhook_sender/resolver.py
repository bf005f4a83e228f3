"""Resolve host names by the system's resolver, in bounded time and number.

A lookup cannot be cancelled: it keeps its thread until the system gives up, so 500 hanging names of one
customer would block all webhooks. The limits hold per process. The domain vets the addresses.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from ipaddress import ip_address
from time import monotonic
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from attrs import field, frozen
from publicsuffixlist import PublicSuffixList

from meetcore.adapters.webhook_sender.dialling import is_late
from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address
from meetcore.ports.webhook_sender import LookupsBusy, Resolver, ResolverUnavailable

_UNKNOWN_NAME = "meetcore.invalid."
"""No name ends in `.invalid` (RFC 6761): a resolver that works says so at once. The dot keeps it from trying
the machine's own domains."""

MAX_ADDRESSES = 64
"""Of a name: each of them is vetted for each post, and an answer of DNS has room for thousands."""

_VERDICT_S = 1.0
"""How long the outcome of that look-up holds."""

_ANSWERS = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""Errors of a look-up that a name server has answered."""

_Found: TypeAlias = list[tuple[Any, ...]]
_Lookup: TypeAlias = Callable[..., _Found]
_Name = TypeVar("_Name")


class SystemResolver:
    """Resolves by `getaddrinfo`, in its own threads.

    The event loop shares few threads (uvloop: four) with file access, so a few hanging names would stop all
    lookups. After a timeout a lookup keeps its thread until the system gives up; further lookups of the name
    await the same result.

    No lookup waits for a thread, since the delay would count against the name: beyond `threads` concurrent
    names it fails at once with `OSError(EAGAIN)`. `limits` bounds lookups per account and per domain.

    A lookup without an answer is followed by that of a name which cannot exist: without an answer to that
    one, either, it is the resolver that is away. There is one such lookup at a time.
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
        # Its own: names of customers may hang in all others.
        self._own_thread = ThreadPoolExecutor(1, thread_name_prefix="resolver")
        self._unknown: asyncio.Future[bool] | None = None
        self._verdict: tuple[float, bool] = -_VERDICT_S, True
        self._judging: asyncio.Task[bool] | None = None

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        limit = asyncio.timeout(self._timeout_s)
        try:
            query = self._lookups.get(host) or await self._begin(host, account_id)
            async with limit:
                found = await asyncio.shield(query)
            if len(found) > MAX_ADDRESSES:
                raise HostUnresolved(f"The host {host} has more than {MAX_ADDRESSES} addresses.")
            # Field four of an IPv6 address is the scope; kept as `%scope`, so that it is refused.
            addresses = tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
        except (OSError, ValueError) as fault:
            if isinstance(fault, TimeoutError) and is_late(limit):
                fault = OSError(errno.EAGAIN, "the timeout fired late")
            elif _is_unanswered(fault) and not await self.answers():
                raise ResolverUnavailable(
                    "Host names cannot be looked up at present. Try again in a minute."
                ) from fault
            raise HostUnresolved(f"The host {host} did not resolve.") from fault
        if not addresses:
            raise HostUnresolved(f"The host {host} has no address.")
        return addresses

    async def answers(self) -> bool:
        """Return whether the resolver answered about a name that cannot exist, a moment ago or now."""
        judged_at, verdict = self._verdict
        if monotonic() - judged_at < _VERDICT_S:
            return verdict
        if self._judging is None:
            self._judging = asyncio.create_task(self._judge())
            self._judging.add_done_callback(self._judged)
        return await asyncio.shield(self._judging)

    async def _judge(self) -> bool:
        if self._unknown is None or self._unknown.done():
            question = partial(answers_lookups, self._lookup)
            self._unknown = asyncio.get_running_loop().run_in_executor(self._own_thread, question)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(self._unknown)
        except (OSError, RuntimeError) as fault:  # no answer in time, or no thread
            return not _is_unanswered(fault)

    def _judged(self, judging: asyncio.Task[bool]) -> None:
        self._judging = None
        if not judging.cancelled() and judging.exception() is None:
            self._verdict = monotonic(), judging.result()

    async def _begin(self, host: str, account_id: UUID) -> asyncio.Future[_Found]:
        """Start a lookup when there is room, or share one started meanwhile."""
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
        # Bytes: text would be encoded again by other rules.
        question = partial(self._lookup, host.encode("ascii"), None, type=socket.SOCK_STREAM)
        try:
            query = asyncio.get_running_loop().run_in_executor(self._threads, question)
        except RuntimeError as refusal:
            raise OSError(errno.EAGAIN, "no thread for a lookup") from refusal
        self._lookups[host] = query
        query.add_done_callback(partial(_remove, self._lookups, host))
        return query

    async def close(self) -> None:
        """Accept no more lookups, without waiting for those in progress."""
        for threads in (self._threads, self._own_thread):
            threads.shutdown(wait=False, cancel_futures=True)
        for query in (*self._lookups.values(), self._judging, self._unknown):
            if query is not None:
                query.cancel()


def answers_lookups(lookup: _Lookup = socket.getaddrinfo) -> bool:
    """Look up a name that cannot exist; return whether the system's resolver answered."""
    try:
        lookup(_UNKNOWN_NAME.encode(), None, type=socket.SOCK_STREAM)
    except OSError as fault:
        return not _is_unanswered(fault)
    return True  # some resolvers have an answer for any name


def _is_unanswered(fault: Exception) -> bool:
    """Return whether a lookup ended without any answer about its name."""
    if isinstance(fault, socket.gaierror):
        return fault.errno not in _ANSWERS
    return isinstance(fault, TimeoutError)


class DnsCache:
    """Shares a result, but no failure, among lookups within `serves_s` seconds, and concurrent ones."""

    def __init__(self, resolver: Resolver, clock: Callable[[], float], serves_s: float = 1.0) -> None:
        self._resolver = resolver
        self._clock = clock
        self._serves_s = serves_s
        self._resolved: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._lookups: dict[tuple[str, UUID], asyncio.Future[tuple[Address, ...]]] = {}

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Resolve a name. Raises as the wrapped resolver."""
        resolved_at, addresses = self._resolved.get(host, (0.0, ()))
        if addresses and self._clock() - resolved_at < self._serves_s:
            return addresses
        # Per account: one account may have to wait for room that another has.
        name = host, account_id
        task = self._lookups.get(name)
        if task is None:
            task = self._lookups[name] = asyncio.create_task(self._ask(host, account_id))
            task.add_done_callback(partial(_remove, self._lookups, name))
        # Shielded: one caller's timeout must not fail the others.
        return await asyncio.shield(task)

    async def _ask(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        addresses = await self._resolver.resolve(host, account_id)
        now = self._clock()
        # Oldest first, so that only hosts of the last second are kept.
        self._resolved.pop(host, None)
        while self._resolved:
            oldest = next(iter(self._resolved))
            if now - self._resolved[oldest][0] < self._serves_s:
                break
            del self._resolved[oldest]
        self._resolved[host] = (now, addresses)
        return addresses

    async def close(self) -> None:
        """Cancel the lookups in progress."""
        tasks = list(self._lookups.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _remove(query: dict[_Name, asyncio.Future[Any]], name: _Name, question: asyncio.Future[Any]) -> None:
    del query[name]
    if not question.cancelled():
        # Retrieved here too: every caller may have been cancelled by now.
        question.exception()


@frozen
class LookupLimits:
    """Limits of concurrent lookups, and the seconds to wait for room."""

    per_account: int = 8
    per_domain: int = 4
    wait_s: float = 2.0


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # the packaged list


async def load_suffixes() -> None:
    """Load the Public Suffix List, which takes some 80 ms, outside the event loop."""
    if not _suffixes.cache_info().currsize:
        await asyncio.to_thread(_suffixes)


def registrable_domain(host: str) -> str:
    """Return the registrable part of a name: `example.co.uk` for `hooks.example.co.uk`.

    The Public Suffix List includes suffixes of hosting companies, so `a.github.io` and `b.github.io` differ.
    A suffix itself is returned unchanged.
    """
    return _suffixes().privatesuffix(host) or host


def _count_down(counter: Counter[_Name], name: _Name) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]  # keep counters in use only


@frozen
class LookupRoom:
    """Counts the lookups in progress on one event loop."""

    limits: LookupLimits
    _of_account: Counter[UUID] = field(factory=Counter, init=False)
    _of_domain: Counter[str] = field(factory=Counter, init=False)
    _waiting: dict[asyncio.Future[None], None] = field(factory=dict, init=False)

    def has(self, account_id: UUID, domain: str) -> bool:
        """Return whether one more may begin."""
        limits = self.limits
        return (
            self._of_account[account_id] < limits.per_account and self._of_domain[domain] < limits.per_domain
        )

    def take(self, account_id: UUID, domain: str) -> None:
        self._of_account[account_id] += 1
        self._of_domain[domain] += 1

    def give_back(self, account_id: UUID, domain: str) -> None:
        """Count one as ended and wake those that wait."""
        _count_down(self._of_account, account_id)
        _count_down(self._of_domain, domain)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, deadline: float) -> None:
        """Wait until a lookup ends, in order of arrival; raise `LookupsBusy` at the loop's deadline."""
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
