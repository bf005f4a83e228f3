"""Repeating a transaction whose connection was lost before its end."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from meetcore.ports.store import ConnectionLost

REPEATS: Final = 4
_REPEATED_FOR_S: Final = 3.0

P = ParamSpec("P")
T = TypeVar("T")


def repeated_when_lost(transaction: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat a function of one transaction where nothing of it was kept.

    It is repeated once, and up to `REPEATS` times in all within three seconds: a server that
    restarts or fails over ends every connection at once, and may end the next ones too.
    """

    @wraps(transaction)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        give_up_at = asyncio.get_running_loop().time() + _REPEATED_FOR_S
        for repeat in range(REPEATS):
            try:
                return await transaction(*args, **kwargs)
            except ConnectionLost:
                if repeat and asyncio.get_running_loop().time() > give_up_at:
                    raise
        return await transaction(*args, **kwargs)

    return repeated
