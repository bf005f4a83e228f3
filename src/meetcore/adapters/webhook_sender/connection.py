"""A connection to a receiver: one request at a time, and its answer read by httptools up to the caps.

Owns the reading of answers. It neither chooses the peer nor judges what was answered.
"""

import asyncio
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from meetcore.adapters.webhook_sender.answers import MAX_BODY_BYTES, InvalidResponse
from meetcore.adapters.webhook_sender.exchange import Exchange

_MAX_HEAD_BYTES = 32 * 1024
_MAX_HEADERS = 128
_MAX_EARLY_RESPONSES = 100
_FIRST_FINAL_STATUS = 200
_UPGRADE = 101


class _ResponseReader:
    """Writes an answer into an exchange, as the parser reads it: the callbacks of `HttpResponseParser`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._headers: dict[str, str] = {}
        self._header_count = self._early_responses = self._head_bytes = 0
        self._may_keep = False
        self.is_complete = False
        self.is_kept_open = False
        self._parser = HttpResponseParser(self)
        # What is sloppy and cannot be read in two ways is taken.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            InvalidResponse: this is not HTTP, or a head without end.
        """
        if self._exchange.status is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.is_complete = True
        except HttpParserError as fault:
            if not self.is_complete:
                raise InvalidResponse("the answer is not HTTP") from fault
            self.is_kept_open = False
        if self._exchange.status is None and self._head_bytes > _MAX_HEAD_BYTES:
            raise InvalidResponse("a head without end")

    def end(self) -> None:
        """Take the end of the connection, which ends a body of no declared length.

        Raises:
            ConnectionResetError: the answer was to go on.
        """
        headers = self._exchange.headers
        is_framed = "Content-Length" in headers or "chunked" in headers.get("Transfer-Encoding", "").lower()
        if self._exchange.status is None or is_framed:
            raise ConnectionResetError("the receiver closed the connection")

    def on_message_begin(self) -> None:
        # Something follows the answer: nothing more is asked of such a connection.
        self.is_kept_open = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if b"\0" in value or self._header_count > _MAX_HEADERS:
            raise InvalidResponse("a header that is none, or too many")
        self._headers.setdefault(name.decode("latin-1").title(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL_STATUS or status == _UPGRADE:
            self._exchange.status, self._exchange.headers = status, self._headers
            self._may_keep = self._parser.should_keep_alive() and status != _UPGRADE
        else:
            self._headers = {}
            self._early_responses += 1
            if self._early_responses > _MAX_EARLY_RESPONSES:
                raise InvalidResponse("early answers without end")

    def on_body(self, body: bytes) -> None:
        kept = self._exchange.body
        kept += body[: MAX_BODY_BYTES - len(kept)]
        self.is_complete = self.is_complete or len(kept) == MAX_BODY_BYTES

    def on_message_complete(self) -> None:
        if self._exchange.status is not None:
            self.is_complete = True
            self.is_kept_open = self._may_keep


class ReceiverConnection(asyncio.Protocol):
    """A connection that is open or was."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader: _ResponseReader | None = None
        self._ended: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the other end; `None` when the connection is closed."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return None if peer is None else peer[:2]

    async def post(self, request: bytes, exchange: Exchange) -> bool:
        """Send a whole request and write the answer into the exchange.

        Returns:
            Whether another request may follow on this connection.

        Raises:
            InvalidResponse: the answer is not HTTP.
            OSError: the connection ended before the answer did.
        """
        if self._transport is None or self.closed.done():
            raise ConnectionResetError("the receiver closed the connection")
        self._reader = reader = _ResponseReader(exchange)
        self._ended = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._ended
        finally:
            self._reader = None
        return reader.is_kept_open

    def abort(self) -> None:
        """Cut the connection at once: a polite TLS goodbye would wait for a peer that does not answer."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            self.abort()  # nothing was asked
            return
        try:
            self._reader.feed(data)
        except InvalidResponse as fault:
            self._end(fault)
        else:
            if self._reader.is_complete:
                self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)
        if self._reader is not None:
            try:
                self._reader.end()
            except ConnectionResetError as fault:
                self._end(exc or fault)
            else:
                self._end(exc)

    def _end(self, fault: Exception | None) -> None:
        if self._ended is not None and not self._ended.done():
            if fault is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(fault)
