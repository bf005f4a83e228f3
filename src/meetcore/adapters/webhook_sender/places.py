"""A bounded number of places for posts under way, given in the order in which they were asked for.

A semaphore of asyncio does the same, and looks through its waiters at each post, of which nearly none has
to wait.
"""

import asyncio
from collections import deque


class Places:
    """Places for posts of one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, max_wait_s: float) -> None:
        """Take a place.

        Raises:
            TimeoutError: none came free in time.
        """
        if self._free:
            self._free -= 1
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        try:
            async with asyncio.timeout(max_wait_s):
                await given
        except BaseException:
            if not given.cancelled():  # given in the moment in which the wait ended
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a place back: to the one who has waited longest, if anyone waits."""
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():
                given.set_result(None)
                return
        self._free += 1
