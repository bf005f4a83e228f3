"""Several things at once, each to its end whatever becomes of the others."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from meetcore.ports.store import StoreUnavailable

__all__ = ["gather_all"]

T = TypeVar("T")


async def gather_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Do all of it; one that fails spoils no other.

    Returns:
        The results, in order.

    Raises:
        StoreUnavailable: the database did not answer one of them.
        ExceptionGroup: what went wrong otherwise, once all have come to their end.
    """
    told = await asyncio.gather(*work, return_exceptions=True)
    for each in told:
        if isinstance(each, BaseException) and not isinstance(each, Exception):
            raise each  # no fault of the work: nobody may go on
    faults = [each for each in told if isinstance(each, Exception)]
    for fault in faults:
        if isinstance(fault, StoreUnavailable):
            raise fault
    if faults:
        raise ExceptionGroup("not all of it went well", faults)
    return [each for each in told if not isinstance(each, BaseException)]
