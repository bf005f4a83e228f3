"""The connections of one process: their bounds, and its graceful shutdown.

Connections are bounded in total and for each address; those of trusted proxies count for the total only.
When the total is reached, the connection that has been idle longest is closed, so that silent sockets do not
block others.
"""

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

import structlog
from attrs import define, field, frozen

from meetcore.adapters.api.http_common import is_trusted_proxy
from meetcore.domain.requests.clients import one_client, parse_address
from meetcore.domain.webhooks.addresses import Network

REPORT_EVERY_S: Final = 10.0

log = structlog.get_logger("meetcore.http")


class Connection(Protocol):
    """The interface of a connection."""

    def evict(self) -> None:
        """Close the connection in favour of another."""


@frozen
class ConnectionLimits:
    """The limits of connections and of what they send before a request is whole.

    A head has at most `head_bytes` bytes and is whole within `head_timeout_s` seconds. What is left of a body
    after its request was answered is read for `body_timeout_s` seconds more. A head is mostly cookies, of
    which browsers send 8 KiB at most, and is sent in one piece.
    """

    total: int = 1000
    per_address: int = 200
    head_bytes: int = 32 * 1024
    head_timeout_s: float = 10.0
    body_timeout_s: float = 10.0


@define
class Connections:
    """The connections of one process; those of trusted proxies are not counted by address or evicted."""

    limits: ConnectionLimits = field(factory=ConnectionLimits)
    proxies: Sequence[Network] = ()
    _groups: dict[Connection, str] = field(factory=dict, init=False)
    _sizes: Counter[str] = field(factory=Counter, init=False)
    _waiting: dict[Connection, None] = field(factory=dict, init=False)
    _refused: Counter[str] = field(factory=Counter, init=False)
    _reported_at: float = field(default=0.0, init=False)

    def admit(self, connection: Connection, peer: str | None) -> bool:
        """Count a connection of a peer's address in; `False` where it is one too many."""
        group = self._group_of(peer)
        if group and self._sizes[group] >= self.limits.per_address:
            self._report("too many connections from one address", group)
            return False
        if len(self._groups) >= self.limits.total and not self._evict_oldest():
            self._report("too many connections", group)
            return False
        self._groups[connection] = group
        self._sizes[group] += 1
        self.wait(connection)
        return True

    def leave(self, connection: Connection) -> None:
        """Remove a connection from the counts; a second call changes nothing."""
        group = self._groups.pop(connection, None)
        if group is None:
            return
        self._waiting.pop(connection, None)
        self._sizes[group] -= 1
        if not self._sizes[group]:
            del self._sizes[group]

    def work(self, connection: Connection) -> None:
        """Note that a connection has a request in progress."""
        self._waiting.pop(connection, None)

    def wait(self, connection: Connection) -> None:
        """Note that a connection waits for a request."""
        if self._groups.get(connection):
            self._waiting[connection] = None

    def _evict_oldest(self) -> bool:
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        self._report("connections evicted", self._groups[oldest])
        self.leave(oldest)
        oldest.evict()
        return True

    def _group_of(self, peer: str | None) -> str:
        """Return the client that a peer counts for; empty if it is not counted."""
        address = None if peer is None else parse_address(peer)
        if address is None or is_trusted_proxy(address, self.proxies):
            return ""
        return one_client(peer)

    def _report(self, event: str, group: str) -> None:
        """Log at most once in ten seconds, so that many connections cannot fill the log."""
        self._refused[event] += 1
        now = time.monotonic()
        if now - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = now
            log.warning(event, client=group, counts=dict(self._refused))
            self._refused.clear()


@define
class Drain:
    """Whether the process is about to stop."""

    is_on: bool = False


@contextmanager
def drain_on_sigterm(drain_s: float) -> Iterator[Drain]:
    """Hold SIGTERM back for `drain_s` seconds from the server that runs this application, unless 0.

    The server has taken the signal before it starts the application: its handler is called after the first
    SIGTERM. Further ones change nothing, as a service manager signals every process of a group and the parent
    of the group signals each of them again; SIGINT still ends the server at once. The state is on from the
    signal until the end; it stays off if no server handles the signal, and outside the main thread, where
    none arrives.
    """
    drain = Drain()
    server = signal.getsignal(signal.SIGTERM)
    is_main = threading.current_thread() is threading.main_thread()
    if not (drain_s and is_main and callable(server)):
        yield drain
        return
    loop = asyncio.get_running_loop()

    def end_later(number: int) -> None:
        loop.call_later(drain_s, server, number, None)
        log.info("drain started", drain_s=drain_s)  # not in the handler, which may interrupt another log call

    def begin(number: int, _: FrameType | None) -> None:
        if not drain.is_on:
            drain.is_on = True
            loop.call_soon_threadsafe(end_later, number)

    signal.signal(signal.SIGTERM, begin)
    try:
        yield drain
    finally:
        if signal.getsignal(signal.SIGTERM) is begin:
            signal.signal(signal.SIGTERM, server)
