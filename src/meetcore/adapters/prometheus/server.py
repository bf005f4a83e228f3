"""`GET /metrics` on a port of its own: small, bounded, and apart from the API.

At most eight connections at once, each of one request, whose head must come within five seconds and hold no
more than 8 KiB.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

MOST_CONNECTIONS: Final = 8
HEAD_BYTES: Final = 8 * 1024
HEAD_S: Final = 5.0
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

log = structlog.get_logger("meetcore.metrics")


class MetricsServer:
    """Serves what a function renders."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._connections = 0

    async def open(self, host: str, port: int) -> asyncio.Server:
        """Listen; the caller closes what is returned.

        Raises:
            OSError: the address is taken, or not one of this machine.
        """
        return await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            # A client that is gone, too slow or too long gets no answer.
            with suppress(
                ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
            ):
                if self._connections <= MOST_CONNECTIONS:
                    async with asyncio.timeout(HEAD_S):
                        head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    async with asyncio.timeout(HEAD_S):
                        await writer.drain()
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _response("404 Not Found", b"The metrics are at /metrics.\n")
        if method != b"GET":
            return _response("405 Method Not Allowed", b"GET only.\n")
        try:
            return _response("200 OK", self._render())
        except Exception:
            log.exception("metrics not rendered")
            return _response("500 Internal Server Error", b"The metrics cannot be rendered; see the log.\n")


def _response(status: str, body: bytes) -> bytes:
    fields = f"Content-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body
