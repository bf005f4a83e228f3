"""Several things at once, each to its end whatever becomes of the others."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from meetcore.ports.store import StoreUnavailable

T = TypeVar("T")


async def gather_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all of it; a failure does not stop the others.

    Returns:
        The results, in order.

    Raises:
        StoreUnavailable: the database did not answer one of them.
        ExceptionGroup: the other failures, once all have ended.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException) and not isinstance(each, Exception):
            raise each  # not a fault of the work: cancel at once
    faults = [each for each in results if isinstance(each, Exception)]
    for fault in faults:
        if isinstance(fault, StoreUnavailable):
            raise fault
    if faults:
        raise ExceptionGroup("not all of it went well", faults)
    return [each for each in results if not isinstance(each, BaseException)]
