"""Making a transaction once more whose connection was lost before its end."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

from meetcore.ports.store import ConnectionLost

__all__ = ["repeated_when_lost"]

P = ParamSpec("P")
T = TypeVar("T")


def repeated_when_lost(transaction: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Make a function of one transaction run once more where nothing of it was kept.

    A server that restarts or fails over ends every connection at once; the next one works.
    """

    @wraps(transaction)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        with suppress(ConnectionLost):
            return await transaction(*args, **kwargs)
        return await transaction(*args, **kwargs)

    return repeated
