"""Rate counters in Redis, shared by all processes. Needs the extra `redis`.

Counters are named `<prefix>:<window>:<key>:<class>`. Hits that arrive while a reply is outstanding are sent
in one write after it; hits on the same counter become one `INCRBY`, its results assigned in order of arrival.
Every wait is bounded.

A counter's expiry is sent with its first hits over a connection only. If Redis loses a counter, the first hit
on the new one sends it again.

`RedisPipeline` replaces the pipeline of `redis.asyncio`, with which `GET /me` costs 25 to 30 % more processor
time (61 µs per counter at eight callers instead of 16).
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast
from uuid import UUID

import hiredis
from attrs import define, field, frozen
from redis.asyncio.connection import SSLConnection, parse_url

from meetcore.adapters.tls import client_context
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, OperationClass
from meetcore.ports.requests import RateStoreUnavailable

Outcome: TypeAlias = "list[object] | RedisUnavailable"

_KNOWN = {"connection_class", "host", "port", "path", "db", "username", "password", "ssl_ca_certs"}


class RedisUnavailable(Exception):
    """No connection, a connection lost, an error reply, or a timeout."""


@frozen
class RedisAddress:
    """Address and login commands."""

    host: str
    port: int
    path: str | None
    tls: ssl.SSLContext | None
    login: tuple[tuple[str, ...], ...] = field(repr=False)


def read_address(url: str) -> RedisAddress:
    """Parse `redis://`, `rediss://` or `unix://` with user, password and database number, or `ValueError`."""
    options: Mapping[str, object] = dict(parse_url(url))
    unknown = sorted(options.keys() - _KNOWN)
    if unknown:
        raise ValueError(f"The Redis address has options that are not supported: {', '.join(unknown)}.")
    login = []
    if password := options.get("password"):
        user = options.get("username")
        login.append(("AUTH", str(user), str(password)) if user else ("AUTH", str(password)))
    if database := options.get("db"):
        login.append(("SELECT", str(database)))
    authority = options.get("ssl_ca_certs")
    tls = options.get("connection_class") is SSLConnection
    path = options.get("path")
    return RedisAddress(
        host=str(options.get("host", "localhost")),
        port=int(str(options.get("port", 6379))),
        path=str(path) if path else None,
        tls=client_context(only=str(authority) if authority else None) if tls else None,
        login=tuple(login),
    )


@define(eq=False)
class _Batch:
    """Commands in flight: outstanding replies and their receiver."""

    missing: int
    deliver: Callable[[Outcome], None]
    deadline: asyncio.TimerHandle
    replies: list[object] = field(factory=list)


class RedisPipeline(asyncio.Protocol):
    """An open connection that never reconnects. Batches may overlap; replies arrive in order."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._batches: deque[_Batch] = deque()
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether a batch may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, commands: bytes, replies: int, deliver: Callable[[Outcome], None]) -> None:
        """Write commands; `deliver` gets all replies at once, with `hiredis.ReplyError`s, or the failure."""
        transport = self._transport
        if transport is None or transport.is_closing():
            deliver(RedisUnavailable("The connection to Redis is closed."))
            return
        deadline = self._loop.call_later(self._timeout_s, self.give_up, "Redis did not answer in time.")
        self._batches.append(_Batch(replies, deliver, deadline))
        transport.write(commands)

    def give_up(self, why: str) -> None:
        """Drop the connection and fail all batches: replies after a gap could not be matched."""
        if self._transport is not None:
            self._transport.abort()
        self._fail(why)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class does not inherit it

    def data_received(self, data: bytes) -> None:
        """Pass each complete reply to the oldest batch."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._take(reply)
        except hiredis.ProtocolError as error:
            self.give_up(f"Redis does not speak its protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"The connection to Redis was lost: {exc}" if exc else "Redis closed the connection.")

    def _take(self, reply: object) -> None:
        if not self._batches:
            self.give_up("Redis sent a reply without a request.")
            return
        batch = self._batches[0]
        batch.replies.append(reply)
        batch.missing -= 1
        if batch.missing == 0:
            self._batches.popleft()
            batch.deadline.cancel()
            batch.deliver(batch.replies)

    def _fail(self, why: str) -> None:
        while self._batches:
            batch = self._batches.popleft()
            batch.deadline.cancel()
            batch.deliver(RedisUnavailable(why))


async def dial(address: RedisAddress, timeout_s: float) -> RedisPipeline:
    """Connect and log in within `timeout_s` seconds, or raise `RedisUnavailable`."""
    pipeline = RedisPipeline(timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            await _connect(pipeline, address)
            await _log_in(pipeline, address)
    except (OSError, TimeoutError, UnicodeError) as error:  # UnicodeError: invalid host name
        pipeline.give_up("Not connected.")
        raise RedisUnavailable(f"Redis cannot be reached: {error!r}") from error
    except BaseException:
        pipeline.give_up("Not connected.")
        raise
    return pipeline


async def _connect(pipeline: RedisPipeline, address: RedisAddress) -> None:
    loop = asyncio.get_running_loop()
    if address.path is not None:
        await loop.create_unix_connection(lambda: pipeline, address.path)
    else:
        await loop.create_connection(lambda: pipeline, address.host, address.port, ssl=address.tls)


async def _log_in(pipeline: RedisPipeline, address: RedisAddress) -> None:
    if not address.login:
        return
    answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def deliver(outcome: Outcome) -> None:
        if not answered.done():
            answered.set_result(outcome)

    commands = b"".join(hiredis.pack_command(command) for command in address.login)  # type: ignore[arg-type]  # its stub says Tuple[one]
    pipeline.send(commands, len(address.login), deliver)
    outcome = await answered
    if isinstance(outcome, RedisUnavailable):
        raise outcome
    for reply in outcome:
        if isinstance(reply, hiredis.ReplyError):
            raise RedisUnavailable(f"Redis refused the login: {reply}") from reply


_Name: TypeAlias = tuple[int, UUID, OperationClass]
_Waiters: TypeAlias = list[asyncio.Future[int]]

# Ten windows, so that a clock set back by minutes finds its counts.
_KEPT_SECONDS = str(10 * WINDOW_SECONDS)

LATE_S: Final = 0.01
"""Seconds after which hits no longer wait for an outstanding reply."""


class RedisRateCounters:
    """Counts over one connection, reopened after a loss. Belongs to the event loop of its first hit.

    `url` is as of `read_address`, `prefix` that of every key; `timeout_s` are the seconds to connect, and
    again for the reply, before the store counts as unavailable.
    """

    def __init__(self, url: str, *, prefix: str = "meetcore:rate", timeout_s: float = 0.25) -> None:
        self._address = read_address(url)
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._pending: dict[_Name, _Waiters] = {}
        self._pipeline: RedisPipeline | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._expiring: set[_Name] = set()  # expiry sent over this connection, in one window
        self._expiring_of = 0
        self._asked_at: float | None = None  # while an answer is outstanding
        self._timer: asyncio.TimerHandle | None = None

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[int] = loop.create_future()
        pending = self._pending
        if not pending and self._dialling is None:
            # At the end of this turn of the loop, to include its other requests.
            loop.call_soon(self._flush)
        pending.setdefault((window_start, key_id, operation_class), []).append(waiter)
        return await waiter

    async def aclose(self) -> None:
        """Close the connection; waiting hits fail as unavailable, later ones reconnect."""
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.gather(self._dialling, return_exceptions=True)
            self._dialling = None  # a task cancelled before its first step runs no finally
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
        """Record that a counter's expiry is sent; return whether it is new."""
        window_start = name[0]
        if window_start != self._expiring_of:
            self._expiring_of = window_start
            self._expiring.clear()
        if name in self._expiring:
            return False
        self._expiring.add(name)
        return True

    def _expire(self, name: _Name) -> None:
        """Send the expiry of a counter that Redis has lost."""
        if self._pipeline is not None and self._pipeline.is_open:
            self._pipeline.send(self._command("EXPIRE", name, _KEPT_SECONDS).encode(), 1, lambda _: None)

    def _command(self, command: str, name: _Name, value: str) -> str:
        """Encode a command; formatting by hand is five times as fast as packing."""
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
        for (name, waiters), total in zip(batch.items(), outcome, strict=False):  # replies to EXPIRE follow
            if isinstance(total, int):
                if total == len(waiters) and name not in new:
                    self._expire(name)
                _deal_out(waiters, total)
            else:
                is_sound = False
                _refuse(waiters, RedisUnavailable(f"Redis answered with an error: {total}"))
        if not is_sound and self._pipeline is not None:
            # After a failover a replica answers READONLY; by now the name may resolve to the primary.
            self._pipeline.give_up("Redis answered with an error.")


def _deal_out(waiters: _Waiters, total: int) -> None:
    first = total - len(waiters) + 1
    for count, waiter in enumerate(waiters, first):
        if not waiter.done():  # a cancelled caller's attempt still counts
            waiter.set_result(count)


def _refuse(waiters: _Waiters, cause: RedisUnavailable) -> None:
    for waiter in waiters:
        if not waiter.done():
            unavailable = RateStoreUnavailable(str(cause))
            unavailable.__cause__ = cause
            waiter.set_exception(unavailable)
