"""The graceful shutdown of a server: it reports not ready, serves on for a while, then closes.

A load balancer needs time to notice a shutdown; a server that closes its listener first refuses requests
still sent to it. Owns the delay between SIGTERM and the server's own reaction to it.
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import structlog
from attrs import define

log = structlog.get_logger("meetcore.http")


@define
class Drain:
    """Whether the process is about to stop."""

    is_on: bool = False


@contextmanager
def drain_on_sigterm(drain_s: float) -> Iterator[Drain]:
    """Hold SIGTERM back from the server that runs this application.

    The server has taken the signal before it starts the application: its handler is called `drain_s` seconds
    after the first SIGTERM. Further ones change nothing, as a service manager signals every process of a
    group and the parent of the group signals each of them again; SIGINT still ends the server at once.

    Args:
        drain_s: seconds; 0 leaves the signal to the server.

    Returns:
        A state that is on from the signal until the end. It stays off if no server handles the signal, and
        outside the main thread, where no signal arrives.
    """
    drain = Drain()
    server = signal.getsignal(signal.SIGTERM)
    is_main = threading.current_thread() is threading.main_thread()
    if not (drain_s and is_main and callable(server)):
        yield drain
        return
    loop = asyncio.get_running_loop()

    def end_later(number: int) -> None:
        log.info("drain started", drain_s=drain_s)  # not in the handler, which may interrupt another log call
        loop.call_later(drain_s, server, number, None)

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
