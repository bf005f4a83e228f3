"""A fuse in the program itself: it dies by SIGKILL at the N-th step of what it does.

The launcher fits it into a child before that becomes the program. Steps are the edges of transactions and of
requests to Zoom. `MEETCORE_FUSE` is N, 0 for never; `MEETCORE_FUSE_TRAIL` is a file that each step is written
to before it may be the last. Not a line of it is in the product.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from meetcore.adapters.postgres.store import PostgresStore, PostgresTransaction
from meetcore.adapters.zoom.line import Answer, Line

Opened = AbstractAsyncContextManager[PostgresTransaction]


class Fuse:
    """Burns down a step at a time."""

    def __init__(self, at: int, trail: str) -> None:
        self._at = at
        self._burnt = 0
        self._trail = os.open(trail, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def burn(self, step: str) -> None:
        """One step; the program may not come back from it."""
        self._burnt += 1
        os.write(self._trail, f"{step}\n".encode())
        if self._burnt == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    @asynccontextmanager
    async def around(self, opened: Opened) -> AsyncIterator[PostgresTransaction]:
        """A transaction with steps before it, on its last line, and just after it."""
        self.burn("begin")
        async with opened as tx:
            yield tx
            self.burn("last line")
        self.burn("committed")


def call_of(method: str, url: str) -> str:
    """A request in a word or two, without the numbers of meetings and the names of hosts."""
    path = re.sub(r"/users/[^/]+", "", url.partition("/v2")[2]) or "/token"
    return f"{method} {re.sub('[0-9]+', 'n', path)}"


def fit() -> None:
    """Fit the fuse that the environment asks for, if any."""
    if "MEETCORE_FUSE" not in os.environ:
        return
    fuse = Fuse(int(os.environ["MEETCORE_FUSE"]), os.environ["MEETCORE_FUSE_TRAIL"])

    def around(open_: Callable[[Any], Opened]) -> Callable[[Any], Opened]:
        return lambda store: fuse.around(open_(store))

    def along(send: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
        async def send_and_burn(line: Line, method: str, url: str, *told: Any, **named: Any) -> Answer:
            call = call_of(method, url)
            fuse.burn(call)
            answer = await send(line, method, url, *told, **named)
            fuse.burn(f"{call} {answer.status}")
            return answer

        return send_and_burn

    places: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
        (PostgresStore, "begin", around), (PostgresStore, "at_once", around), (Line, "send", along),
    )  # fmt: skip
    for owner, name, fitted in places:
        setattr(owner, name, fitted(getattr(owner, name)))
