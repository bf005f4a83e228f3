"""The session of a round: what waits for locks, how long, and what the round has done so far."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from attrs import define, field

from meetcore.adapters.postgres.partitions.layout import LAYOUT, Layout, layout_of, layout_parameters
from meetcore.ports.partitions import Maintained

__all__ = [
    "BUSY",
    "DETACH_TIMEOUT_MS",
    "LOCK_TIMEOUT_MS",
    "Done",
    "Session",
    "patiently",
    "read_layout",
    "waiting_long",
]

LOCK_TIMEOUT_MS: Final = 200
"""How long a lock is waited for that others queue behind."""
TRIES: Final = 20
PAUSE_S: Final = 0.5
DETACH_TIMEOUT_MS: Final = 60_000
"""How long a detachment waits for transactions that still see the partition, before the next round goes on with it."""

BUSY: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled)
"""What a statement ends with that did not get its lock."""

Session = psycopg.AsyncConnection[dict[str, Any]]


@define
class Done:
    """What a round has done so far."""

    made: list[str] = field(factory=list)
    dropped: list[str] = field(factory=list)
    waiting: list[str] = field(factory=list)
    problems: list[str] = field(factory=list)
    is_busy: bool = False

    def result(self, ahead: int) -> Maintained:
        """Return what the round did."""
        return Maintained(
            tuple(self.made), tuple(self.dropped), tuple(self.waiting), ahead, self.is_busy,
            problems=tuple(self.problems),
        )  # fmt: skip


async def read_layout(session: Session) -> Layout:
    """Read the partitions as they are now."""
    return layout_of(await (await session.execute(LAYOUT.encode(), layout_parameters())).fetchall())


async def patiently(session: Session, work: Callable[[], Awaitable[object]]) -> bool:
    """Do in a transaction what needs a lock that others queue behind, again while it is taken; whether it was done."""
    for _ in range(TRIES):
        try:
            async with session.transaction():
                await work()
        except BUSY:
            await asyncio.sleep(PAUSE_S)
        else:
            return True
    return False


@asynccontextmanager
async def waiting_long(session: Session) -> AsyncIterator[None]:
    """Wait long for a lock that nobody queues behind."""
    await session.execute(f"SET lock_timeout = {DETACH_TIMEOUT_MS}".encode())
    try:
        yield
    finally:
        if not session.closed:
            await session.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}".encode())
