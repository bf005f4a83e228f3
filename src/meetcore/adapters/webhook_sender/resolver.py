"""Host names by the system's resolver, and the one second for which an answer may serve.

Owns the lookup and its time limit. It refuses to judge the addresses: that is the domain's.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Any

from meetcore.domain.addresses import Address
from meetcore.domain.errors import HostUnresolved
from meetcore.ports.resolver import Resolver

__all__ = ["BriefAnswers", "SystemResolver"]

_Lookup = Callable[..., list[tuple[Any, ...]]]


class SystemResolver:
    """Asks `getaddrinfo`, in threads of its own.

    The event loop's own lookups share few threads (uvloop: four) with file access: a few names whose
    servers hang would stop every other lookup. A lookup cannot be cancelled, so one that takes longer
    than the limit keeps its thread until the system gives up.
    """

    def __init__(
        self, timeout_s: float = 3.0, *, threads: int = 64, lookup: _Lookup = socket.getaddrinfo
    ) -> None:
        self._timeout_s = timeout_s
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """Give every address the name has now, without doubles, in the system's order of preference.

        Raises:
            HostUnresolved: no answer in time, no such name, or no address.
        """
        # Bytes, because text would be encoded a second time by rules that are not ours.
        ask = partial(self._lookup, host.encode("ascii"), None, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
            # The last field of an IPv6 answer is the scope; `str` keeps it as `%scope`, to be refused.
            addresses = tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
        except (OSError, ValueError, TimeoutError) as fault:
            raise HostUnresolved(f"The host {host} did not resolve.") from fault
        if not addresses:
            raise HostUnresolved(f"The host {host} has no address.")
        return addresses

    async def close(self) -> None:
        """Take no more lookups. Those under way are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class BriefAnswers:
    """Lets one answer of a resolver serve everybody who asks within `serves_s` seconds of it.

    A burst of deliveries to one host is one lookup; callers that ask while it is under way share it.
    A failure is never kept.
    """

    def __init__(self, resolver: Resolver, clock: Callable[[], float], serves_s: float = 1.0) -> None:
        self._resolver = resolver
        self._clock = clock
        self._serves_s = serves_s
        self._answers: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._asked: dict[str, asyncio.Task[tuple[Address, ...]]] = {}

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """As `Resolver.resolve`; an answer is at most `serves_s` seconds old.

        Raises:
            HostUnresolved: as the resolver behind says.
        """
        answered_at, addresses = self._answers.get(host, (0.0, ()))
        if addresses and self._clock() - answered_at < self._serves_s:
            return addresses
        task = self._asked.get(host)
        if task is None:
            task = self._asked[host] = asyncio.create_task(self._ask(host))
            task.add_done_callback(partial(self._forget_question, host))
        # Shielded: one caller that runs out of time must not fail the others.
        return await asyncio.shield(task)

    async def _ask(self, host: str) -> tuple[Address, ...]:
        addresses = await self._resolver.resolve(host)
        now = self._clock()
        # Swept as it grows, so that it holds the hosts of the last second and no more.
        self._answers = {
            name: answer for name, answer in self._answers.items() if now - answer[0] < self._serves_s
        }
        self._answers[host] = (now, addresses)
        return addresses

    def _forget_question(self, host: str, task: asyncio.Task[tuple[Address, ...]]) -> None:
        del self._asked[host]
        if not task.cancelled():
            # Retrieved here too: every caller may have gone away by now.
            task.exception()

    async def close(self) -> None:
        """Stop what is being asked."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
