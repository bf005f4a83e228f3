"""The connections: opened and kept by aiohttp's connector, to vetted addresses, and not too many.

Owns TLS and the number of open connections. It neither vets, sends nor waits: how many posts are
under way is the sender's.
"""

import asyncio
import ssl
from functools import partial
from typing import Any

import aiohttp
from aiohttp import StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage

from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt, VettedResolver, vetted_socket

__all__ = ["ConnectionPool"]

_NO_PIECES = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""One clock runs over the whole attempt; aiohttp's own would each begin anew."""


_MAX_HEAD_BYTES = 32 * 1024
_MAX_EARLY_ANSWERS = 100
_FIRST_FINAL_STATUS = 200


class _AnswerHandler(ResponseHandler):
    """Reads an answer as aiohttp does, and gives up on one whose head has no end.

    aiohttp bounds each header and their number, which leaves a megabyte for each of hundreds of posts, and
    does not bound informational answers at all.
    """

    _head_bytes = 0
    _early_answers = 0
    _is_in_head = False
    _is_held = False

    def set_response_params(self, **params: Any) -> None:
        """Begin to count: an answer is awaited."""
        self._head_bytes = self._early_answers = 0
        self._is_in_head = True
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the body."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES or self._early_answers > _MAX_EARLY_ANSWERS:
                self.set_exception(HttpProcessingError(message="a head without end"))
                if self.transport is not None:
                    self.transport.abort()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head from the parser; the final one ends the counting."""
        is_final = data[0].code >= _FIRST_FINAL_STATUS
        if not is_final:
            self._early_answers += 1
        if self._early_answers <= _MAX_EARLY_ANSWERS:
            self._is_in_head = not is_final
            super().feed_data(data, size)

    def pause_reading(self) -> None:
        """Stop reading, and record it."""
        self._is_held = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on if reading was stopped; aiohttp runs its parser once more after every piece that is taken."""
        if self._is_held:
            self._is_held = False
            super().resume_reading(resume_parser)


def _answer_handler(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _AnswerHandler(loop)


class _Connector(aiohttp.TCPConnector):
    """aiohttp's connector with our cap on what it reads."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(
            ssl=context,
            resolver=VettedResolver(),
            socket_factory=vetted_socket,
            use_dns_cache=False,
            limit=0,  # aiohttp's queue would wait on the receiver's clock, and does not count the idle
        )
        # aiohttp has no public place for it; the tests of endless heads fail when it has moved.
        self._factory = partial(_answer_handler, asyncio.get_running_loop())


class ConnectionPool:
    """Gives connections; `Connection.release` brings one back, `Connection.close` ends it.

    Args:
        context: the trusted certificates.
        max_open: from so many open connections on, idle ones included, no connection is kept.
    """

    def __init__(self, context: ssl.SSLContext, max_open: int) -> None:
        self._connector = _Connector(context)
        self._max_open = max_open
        self._open = 0

    @property
    def may_keep(self) -> bool:
        """Whether there is room for an idle connection."""
        return self._open < self._max_open

    async def connect(self, dial: ConnectionAttempt) -> Connection:
        """Give a connection of the dial's route, one that was kept or a new one.

        Raises:
            aiohttp.ClientError: no connection could be opened.
        """
        connection = await self._connector.connect(dial.route.call, [], _NO_PIECES)
        if dial.is_new_connection and connection.protocol is not None:
            closed = connection.protocol.closed
            if closed is not None:
                self._open += 1
                closed.add_done_callback(self._closed)
        return connection

    def _closed(self, closed: asyncio.Future[None]) -> None:
        self._open -= 1
        closed.exception()  # its user got the error already

    async def close(self) -> None:
        """Cut every connection."""
        await self._connector.close(abort_ssl=True)
