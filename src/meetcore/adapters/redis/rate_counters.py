"""Rate counters in Redis, shared by every process.

It owns the names of the counters (`<prefix>:<window>:<key>:<class>`), their expiry, and the coalescing:
hits that come while an answer of Redis is outstanding leave in one write when it is there, hits on the same
counter as one `INCRBY` whose results are assigned in the order of arrival. Every wait for Redis is bounded.

The expiry of a counter is sent with the first hits over a connection, not with each. Redis may lose a counter
at any time: hits that turn out to be the first on it although its expiry was sent before are followed by it.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

from meetcore.adapters.redis.pipeline import Outcome, RedisPipeline, RedisUnavailable, dial, read_address
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, OperationClass
from meetcore.ports.rate_counters import RateStoreUnavailable

_Name: TypeAlias = tuple[int, UUID, OperationClass]
_Waiters: TypeAlias = list[asyncio.Future[int]]

# Ten windows: a clock set back by some minutes finds its counts again, and a month of keys does not pile up.
_KEPT_SECONDS = str(10 * WINDOW_SECONDS)

LATE_S: Final = 0.01
"""Seconds after which hits no longer wait for the answer to those before them."""


class RedisRateCounters:
    """Counters on one connection, which dials again by itself after it was lost.

    Belongs to the event loop of its first hit.

    Args:
        url: `redis://`, `rediss://` or `unix://`, with user, password and database number.
        prefix: the beginning of every key that is written.
        timeout_s: seconds for dialling, and again for the answer, before the store counts as unavailable.

    Raises:
        ValueError: the address cannot be understood.
    """

    def __init__(self, url: str, *, prefix: str = "meetcore:rate", timeout_s: float = 0.25) -> None:
        self._address = read_address(url)
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._pending: dict[_Name, _Waiters] = {}
        self._pipeline: RedisPipeline | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._expiring: set[_Name] = set()  # of one window: whose expiry was sent over this connection
        self._expiring_of = 0
        self._asked_at: float | None = None  # while an answer is outstanding
        self._timer: asyncio.TimerHandle | None = None

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[int] = loop.create_future()
        pending = self._pending
        if not pending and self._dialling is None:
            # At the end of this turn, so that the other requests of the turn come along.
            loop.call_soon(self._flush)
        pending.setdefault((window_start, key_id, operation_class), []).append(waiter)
        return await waiter

    async def aclose(self) -> None:
        """Close the connection. Waiting hits fail as unavailable; a later hit dials again."""
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.gather(self._dialling, return_exceptions=True)
            self._dialling = None  # a task cancelled before its first step never gets to its own end
        waiting = self._take_pending()
        if self._pipeline is not None:
            self._pipeline.give_up("The counters were closed.")
            self._pipeline = None
        self._settle(waiting, RedisUnavailable("The counters were closed."))

    def _flush(self) -> None:
        if not self._pending:  # closed since the turn began
            return
        loop = asyncio.get_running_loop()
        if self._asked_at is not None and loop.time() < self._asked_at + LATE_S:
            if self._timer is None:
                self._timer = loop.call_at(self._asked_at + LATE_S, self._flush_late)
            return
        pipeline = self._pipeline
        if pipeline is not None and pipeline.is_open:
            self._send(pipeline)
        elif self._dialling is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())

    def _flush_late(self) -> None:
        self._timer = self._asked_at = None
        self._flush()

    async def _dial(self) -> None:
        self._expiring.clear()
        try:
            self._pipeline = await dial(self._address, self._timeout_s)
        except RedisUnavailable as error:
            self._settle(self._take_pending(), error)
        else:
            self._send(self._pipeline)
        finally:
            self._dialling = None

    def _take_pending(self) -> dict[_Name, _Waiters]:
        batch, self._pending = self._pending, {}
        return batch

    def _send(self, pipeline: RedisPipeline) -> None:
        batch = self._take_pending()
        commands = [self._command("INCRBY", name, str(len(waiters))) for name, waiters in batch.items()]
        new = [name for name in batch if self._begin_expiry(name)]
        commands += [self._command("EXPIRE", name, _KEPT_SECONDS) for name in new]
        self._asked_at = asyncio.get_running_loop().time()
        pipeline.send("".join(commands).encode(), len(commands), partial(self._settle, batch, new=new))

    def _begin_expiry(self, name: _Name) -> bool:
        """Note that the expiry of a counter is sent; return whether it was not before."""
        window_start = name[0]
        if window_start != self._expiring_of:
            self._expiring_of = window_start
            self._expiring.clear()
        if name in self._expiring:
            return False
        self._expiring.add(name)
        return True

    def _expire(self, name: _Name) -> None:
        """Send the expiry of a counter that Redis has lost meanwhile."""
        if self._pipeline is not None and self._pipeline.is_open:
            self._pipeline.send(self._command("EXPIRE", name, _KEPT_SECONDS).encode(), 1, lambda _: None)

    def _command(self, command: str, name: _Name, value: str) -> str:
        """Write a command on the wire: formatting by hand is five times as fast as packing."""
        window_start, key_id, operation_class = name
        key = f"{self._prefix}:{window_start}:{key_id.hex}:{operation_class}"
        size = len(key) if key.isascii() else len(key.encode())
        return f"*3\r\n$6\r\n{command}\r\n${size}\r\n{key}\r\n${len(value)}\r\n{value}\r\n"

    def _settle(self, batch: dict[_Name, _Waiters], outcome: Outcome, *, new: Sequence[_Name] = ()) -> None:
        self._assign(batch, outcome, new)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._asked_at = None
        if self._pending and self._dialling is None:
            self._flush()

    def _assign(self, batch: dict[_Name, _Waiters], outcome: Outcome, new: Sequence[_Name]) -> None:
        if isinstance(outcome, RedisUnavailable):
            for waiters in batch.values():
                _refuse(waiters, outcome)
            return
        is_sound = True
        for (name, waiters), total in zip(batch.items(), outcome, strict=False):  # then the answers to EXPIRE
            if isinstance(total, int):
                if total == len(waiters) and name not in new:
                    self._expire(name)
                _deal_out(waiters, total)
            else:
                is_sound = False
                _refuse(waiters, RedisUnavailable(f"Redis answered with an error: {total}"))
        if not is_sound and self._pipeline is not None:
            # A replica after a failover answers READONLY for ever: the name may resolve to another server by
            # now.
            self._pipeline.give_up("Redis answered with an error.")


def _deal_out(waiters: _Waiters, total: int) -> None:
    first = total - len(waiters) + 1
    for count, waiter in enumerate(waiters, first):
        if not waiter.done():  # a caller that was cancelled has still made its attempt
            waiter.set_result(count)


def _refuse(waiters: _Waiters, cause: RedisUnavailable) -> None:
    for waiter in waiters:
        if not waiter.done():
            unavailable = RateStoreUnavailable(str(cause))
            unavailable.__cause__ = cause
            waiter.set_exception(unavailable)
