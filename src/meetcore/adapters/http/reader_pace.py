"""The rate at which a client reads a download.

The server lets a `send` wait while the client's buffers are full. Only that waiting is counted against the
reader: while the source is silent, nothing is.
"""

import asyncio
from typing import Final

from starlette.types import Message, Send

from meetcore.domain.notes.download_limits import DownloadLimits

_PIECE_BYTES: Final = 64 * 1024
"""What is handed to the server at a time: a larger piece would count only when all of it was taken."""

_CHECKS_PER_WINDOW: Final = 60


class ReaderPace:
    """Sends to a reader and measures the rate at which it takes what it is sent, window after window."""

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
