"""Run long work under a lease that is renewed meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from meetcore.ports.store import StoreUnavailable

T = TypeVar("T")


class LeaseLost(Exception):
    """Another worker has the work now, or it is over. Results since then are discarded."""


async def with_heartbeat(work: Awaitable[T], renew: Callable[[], Awaitable[bool]], every_s: float) -> T:
    """Do work, and renew its lease every `every_s` seconds until it is done.

    An unavailable store does not end the work: the lease lasts a while, and whatever the work writes is
    fenced.

    Raises:
        LeaseLost: a renewal was refused; the work was cancelled and has ended.
    """
    working = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait((working,), timeout=every_s)
            if done:
                return working.result()
            with suppress(StoreUnavailable):
                if not await renew():
                    raise LeaseLost
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
