"""Duplicates of a running request: one request runs, a few wait, the others are refused at once (spec 4).

Counted in this process, without a database connection: a duplicate that waits here reads nothing until its
turn comes. Between processes, the record of the idempotency key decides as before.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from attrs import define, field

from meetcore.domain.errors import ServiceUnavailable
from meetcore.domain.requests.idempotency import DUPLICATE_WAIT_S, MAX_WAITING_DUPLICATES, next_look_s
from meetcore.ports.queries import Queries

_RETRY_AFTER_S: Final = 1


@define
class _Turn:
    lock: asyncio.Lock = field(factory=asyncio.Lock)
    waiting: int = 0


@define
class DuplicateLimit:
    """Run one request of each identity at a time; let at most `max_waiting` others wait for `wait_s`."""

    max_waiting: int = MAX_WAITING_DUPLICATES
    wait_s: float = DUPLICATE_WAIT_S
    _turns: dict[Hashable, _Turn] = field(factory=dict, init=False, repr=False)

    @asynccontextmanager
    async def turn(self, identity: Hashable) -> AsyncIterator[float]:
        """Wait until no other request with this identity runs here.

        Yields:
            The event loop's time until which this request may still wait, for another process say.

        Raises:
            ServiceUnavailable: as many requests wait already, or the running one takes too long.
        """
        deadline = asyncio.get_running_loop().time() + self.wait_s
        turn = self._turns.setdefault(identity, _Turn())
        if turn.lock.locked() and turn.waiting >= self.max_waiting:
            raise ServiceUnavailable(
                "Other requests wait already for the result of the same request. Try again.", _RETRY_AFTER_S
            )
        await self._wait(identity, turn, deadline)
        try:
            yield deadline
        finally:
            turn.lock.release()
            self._remove_if_idle(identity, turn)

    async def _wait(self, identity: Hashable, turn: _Turn, deadline: float) -> None:
        turn.waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await turn.lock.acquire()
        except TimeoutError:
            raise ServiceUnavailable(
                "The first request is still in progress. Try again.", _RETRY_AFTER_S
            ) from None
        finally:
            turn.waiting -= 1
            self._remove_if_idle(identity, turn)

    def _remove_if_idle(self, identity: Hashable, turn: _Turn) -> None:
        if not turn.lock.locked() and not turn.waiting and self._turns.get(identity) is turn:
            del self._turns[identity]


async def wait_while_in_progress(
    queries: Queries, account_id: UUID, meeting_id: UUID, deadline: float, first_pause_s: float
) -> bool:
    """Wait for the process that works on a meeting, without a lock or database connection in the pauses.

    Args:
        queries: read after each pause; the pauses grow.
        deadline: the event loop's time at which waiting ends.
        first_pause_s: seconds.

    Returns:
        False when the deadline came first.
    """
    loop, pause_s = asyncio.get_running_loop(), first_pause_s
    while (left_s := deadline - loop.time()) > 0:
        await asyncio.sleep(min(pause_s, left_s))
        if not await queries.is_in_progress(account_id, meeting_id):
            return True
        pause_s = next_look_s(pause_s)
    return False
