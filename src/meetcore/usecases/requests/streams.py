"""Files that are made while they are read: CSV of the ledger, archives of accounts.

A process makes a few at a time and one for each account. Each leaves the event loop, and the database, to
others for most of the time.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final, TypeVar
from uuid import UUID
from weakref import finalize

from meetcore.domain.errors import Unprocessable

T = TypeVar("T")

REST: Final = 3.0
"""How long a file rests after each piece, in times of its making: a quarter of the process makes it."""


class Place:
    """The place of one file in the making, until it is released once."""

    def __init__(self, running: set[UUID], account_id: UUID) -> None:
        self._running: set[UUID] | None = running
        self._account_id = account_id
        running.add(account_id)

    def release(self) -> None:
        """Give the place back; a second call changes nothing."""
        if self._running is not None:
            self._running.discard(self._account_id)
        self._running = None


def take_place(running: set[UUID], account_id: UUID, in_all: int) -> Place:
    """Take the place of an account among the `in_all` of the process; raise `Unprocessable` without one."""
    if account_id in running or len(running) >= in_all:
        raise Unprocessable("Another export is being made. Try again when it is done.")
    return Place(running, account_id)


def in_place(pieces: AsyncIterator[T], place: Place) -> AsyncGenerator[T, None]:
    """Return the pieces of a file, gently made, which releases its place at its end, read or not."""
    made = _held(pieces, place)
    finalize(made, place.release)  # one that was never asked for a piece runs no `finally`
    return made


async def _held(pieces: AsyncIterator[T], place: Place) -> AsyncGenerator[T, None]:
    try:
        async with aclosing(gently(pieces)) as gentle:
            async for piece in gentle:
                yield piece
    finally:
        place.release()


async def gently(pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield pieces, and rest `REST` times as long as each took to make."""
    clock = asyncio.get_running_loop().time
    while True:
        start = clock()
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            return
        took_s = clock() - start
        yield piece
        await asyncio.sleep(took_s * REST)
