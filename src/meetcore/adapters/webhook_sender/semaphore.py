"""A semaphore whose permits go to tasks in the order in which they asked for them.

That of asyncio does the same, and looks through its waiters at each post, of which nearly none has to wait.
"""

import asyncio
from collections import deque


class Semaphore:
    """A bounded number of permits, for the tasks of one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, max_wait_s: float) -> None:
        """Take a permit.

        Raises:
            TimeoutError: none came free in time.
        """
        if self._free:
            self._free -= 1
            return
        permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(permit)
        try:
            async with asyncio.timeout(max_wait_s):
                await permit
        except BaseException:
            if not permit.cancelled():  # it was passed on in the moment in which the wait ended
                self.release()
            raise

    def release(self) -> None:
        """Pass a permit on to the task that has waited longest, if one waits."""
        while self._waiting:
            permit = self._waiting.popleft()
            if not permit.done():
                permit.set_result(None)
                return
        self._free += 1
