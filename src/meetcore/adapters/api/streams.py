"""Streams to clients at the client's pace: cut where the client reads too slowly or for too long.

Every answer that is longer than a page is sent by it, so that no reader holds a place for ever.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from meetcore.domain.notes.downloads import DownloadLimits

ABORT: Final = "meetcore.abort"
"""The extension of the scope: a callable that drops the connection of the request."""

log = structlog.get_logger("meetcore.http")

_PIECE_BYTES: Final = 64 * 1024
"""The size of one send: a larger one would count only when the client took all of it."""

_CHECKS_PER_WINDOW: Final = 60


class ReaderPace:
    """Send to a reader and measure its rate by windows of waiting; the source's silence does not count."""

    def __init__(self, send: Send, limits: DownloadLimits) -> None:
        self._to_server = send
        self._limits = limits
        self._taken_bytes = 0
        self._waited_s = 0.0
        self._waiting_since: float | None = None

    async def send(self, message: Message) -> None:
        """Pass a message on, a body in pieces."""
        body = message.get("body", b"")
        while len(body) > _PIECE_BYTES:
            await self._send({**message, "body": body[:_PIECE_BYTES], "more_body": True}, _PIECE_BYTES)
            body = body[_PIECE_BYTES:]
        await self._send({**message, "body": body} if body else message, len(body))

    async def until_too_slow(self) -> None:
        """Return when the reader took less than it must over a window; never while it keeps up."""
        least_s = self._limits.rate_window_s / _CHECKS_PER_WINDOW
        while True:
            await asyncio.sleep(max(self._limits.rate_window_s - self._waited(), least_s))
            waited_s = self._waited()
            if self._limits.is_too_slow(self._taken_bytes, waited_s):
                return
            if waited_s >= self._limits.rate_window_s:
                self._begin_window()

    async def _send(self, message: Message, size_bytes: int) -> None:
        self._waiting_since = self._now()
        try:
            await self._to_server(message)
        finally:
            self._waited_s, self._waiting_since = self._waited(), None
        self._taken_bytes += size_bytes
        # A send does not always wait, least of all for a client that is gone: others get their turn here.
        await asyncio.sleep(0)

    def _waited(self) -> float:
        """Return the waiting time in this window in seconds, a send in progress included."""
        if self._waiting_since is None:
            return self._waited_s
        return self._waited_s + self._now() - self._waiting_since

    def _begin_window(self) -> None:
        self._taken_bytes, self._waited_s = 0, 0.0
        if self._waiting_since is not None:
            self._waiting_since = self._now()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


PAGE_STREAMS: Final = DownloadLimits(longest_s=3600.0)
"""The limits of a file that a page sends: what makes it is held while the client reads."""


async def send_at_pace(
    respond: Callable[[Send], Awaitable[object]],
    scope: Scope,
    receive: Receive,
    send: Send,
    limits: DownloadLimits,
) -> None:
    """Answer a request; stop when the client disconnects; drop one that reads too slowly or too long."""
    pace = ReaderPace(send, limits)
    responding = asyncio.ensure_future(respond(pace.send))
    leaving = asyncio.create_task(_disconnected(receive))
    lagging = asyncio.create_task(pace.until_too_slow())
    tasks = (responding, leaving, lagging)
    try:
        await asyncio.wait(tasks, timeout=limits.longest_s, return_when=asyncio.FIRST_COMPLETED)
        if not (responding.done() or leaving.done()):
            await _cut(scope, leaving)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not responding.cancelled():
        responding.result()


class PacedResponse(StreamingResponse):
    """A file that a page sends; `pieces` are closed with the request."""

    def __init__(
        self, pieces: AsyncGenerator[bytes, None], headers: dict[str, str], media_type: str,
        limits: DownloadLimits = PAGE_STREAMS,
    ) -> None:  # fmt: skip
        super().__init__(pieces, headers=headers, media_type=media_type)
        self._pieces = pieces
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        async with aclosing(self._pieces):
            await send_at_pace(self.stream_response, scope, receive, send, self._limits)


def abort_of(scope: Scope) -> Callable[[], None] | None:
    """Return the callable that drops a request's connection; `None` if the server provides none."""
    found: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
    return found


async def _cut(scope: Scope, leaving: asyncio.Task[None]) -> None:
    """Drop the connection of a slow reader; if the server cannot, it is closed at its end."""
    log.warning("download cut", path=scope["path"], cause="the reader is too slow")
    if (abort := abort_of(scope)) is not None:
        abort()
        await leaving  # the server ends it: an earlier end is a fault to it


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
