"""A connection to a receiver: one request at a time, its response parsed by httptools up to the limits.

The error codes are shown to customers and reveal neither our network nor exception texts.
"""

import asyncio
import re
import ssl
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from io import BytesIO
from math import ceil
from typing import cast

from attrs import define, field
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt
from meetcore.domain.errors import HostUnresolved, Unprocessable
from meetcore.ports.webhook_sender import OutgoingPost

_DEFAULT_HEADERS = {
    "user-agent": "User-Agent: meetcore\r\n",
    "content-type": "Content-Type: application/json\r\n",
    "accept": "Accept: */*\r\n",
    "accept-encoding": "Accept-Encoding: identity\r\n",
}
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@define
class Exchange:
    """The progress of an attempt, kept outside its timeout so that a time-out loses nothing."""

    dial: ConnectionAttempt | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(factory=dict)
    body: bytearray = field(factory=bytearray)


def request_bytes(post: OutgoingPost) -> bytes:
    """Serialise the request; raise `ValueError` for a header that is not one line of ASCII."""
    url, (kept, defaults) = post.url, _plan(tuple(post.headers))
    host = f"[{url.host}]" if ":" in url.host else url.host
    head = "".join([
        f"{post.method} {url.request_target} HTTP/1.1\r\n",
        f"Host: {host}\r\nContent-Length: {len(post.body)}\r\n",
        *[f"{name}: {text}\r\n" for name, text in post.headers.items() if name in kept],
        defaults,
        "\r\n",
    ])  # fmt: skip
    # Prevents header injection.
    if not head.count("\r") == head.count("\n") == 4 + len(kept) + defaults.count("\n") or "\0" in head:
        raise ValueError("a header is not one line of ASCII")
    return head.encode("ascii") + post.body


@lru_cache(64)
def _plan(names: tuple[str, ...]) -> tuple[frozenset[str], str]:
    """Return the given headers that are sent, and the added lines."""
    given = {name.lower(): name for name in names}
    defaults = "".join(line for name, line in _DEFAULT_HEADERS.items() if name not in given)
    return frozenset(name for lowered, name in given.items() if lowered not in _OWN_HEADERS), defaults


MAX_BODY_BYTES = 64 * 1024
"""Counted on the wire; only the excerpt is decompressed."""

_EXCERPT_BYTES = 2048
_GZIP_OR_ZLIB = 47  # zlib: 32 detects the header, 15 is the largest window
_MAX_WAIT_S = 999_999_999  # fits a 32-bit integer; the schedule caps it far lower


class InvalidResponse(Exception):
    """The response is not HTTP, or endless."""


def excerpt_of(body: bytes, content_encoding: str) -> str | None:
    """Return the first 2 KiB of the body as storable text; `None` if it is empty."""
    if content_encoding.strip().lower() in ("gzip", "x-gzip", "deflate"):
        try:
            body = zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, _EXCERPT_BYTES)
        except zlib.error:
            pass  # wrongly declared encoding: shown as received
    text = body[:_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "")
    # Replacement characters are longer than the bytes that they replace.
    return text.encode("utf-8")[:_EXCERPT_BYTES].decode("utf-8", "ignore") or None


def retry_after_s(headers: Mapping[str, str], now: datetime) -> int | None:
    """Return `Retry-After` (seconds or an HTTP date) as seconds from now; `None` if absent or invalid."""
    given = headers.get("Retry-After")
    if given is None:
        return None
    value = given.strip()
    if re.fullmatch(r"[0-9]+", value):
        return min(int(value[:10]), _MAX_WAIT_S)
    try:
        moment = parsedate_to_datetime(value)
        wait_s = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(0, ceil(wait_s)), _MAX_WAIT_S)


def error_code(fault: Exception, *, is_connected: bool) -> str:
    """Return the stable code for a failure before a whole response."""
    match fault:
        case HostUnresolved():
            return "dns_failed"
        case Unprocessable():
            return "address_refused"
        case ssl.SSLError():
            return "tls_failed"
        case OSError():
            return "connection_lost" if is_connected else "connect_failed"
        case _:
            return "invalid_response"


_MAX_HEAD_BYTES = 32 * 1024
_MAX_BYTES = 1024 * 1024
"""With the marks of chunks, six bytes for each of a body, and what follows it, which the parser collects."""
_MAX_HEADERS = 128
_MAX_EARLY_RESPONSES = 100
_FIRST_FINAL_STATUS = 200
_UPGRADE = 101
_LENGTH = b"content-length"
_LENGTHS = re.compile(rb"content-length:[ \t]*([0-9]+)(?:[ \t]*,[ \t]*\1)*[ \t]*\r?\n", re.IGNORECASE)


class _ResponseReader:
    """Parser callbacks that write a response into an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._headers: dict[str, str] = {}
        self._header_count = self._early_responses = self._read_bytes = 0
        self._may_keep = False
        self._held = b""  # the beginning of a line that may be a length
        self._length: bytes | None = None
        self.is_complete = False
        self.is_kept_open = False
        self._parser = HttpResponseParser(self)
        # Accept sloppy but unambiguous responses.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> None:
        """Parse more bytes; raise `InvalidResponse` if not HTTP, or for an endless head or end."""
        self._read_bytes += len(data)
        try:
            for part in self._parts(data) if self._exchange.status is None else (data,):
                self._parser.feed_data(part)
        except HttpParserUpgrade:
            self.is_complete = True
        except HttpParserError as fault:
            if not self.is_complete:
                raise InvalidResponse("not HTTP") from fault
            self.is_kept_open = False
        if self._read_bytes > (_MAX_HEAD_BYTES if self._exchange.status is None else _MAX_BYTES):
            raise InvalidResponse("response too long")

    def _parts(self, data: bytes) -> Iterator[bytes]:
        """Yield a head line by line, with equal lengths given once (RFC 9110, 8.6), and then the rest."""
        lines, self._held = BytesIO(self._held + data), b""
        while self._exchange.status is None and (line := lines.readline()):
            if not line.endswith(b"\n") and _LENGTH.startswith(line[: len(_LENGTH)].lower()):
                self._held = line
                return
            if found := _LENGTHS.fullmatch(line):
                is_repeated, self._length = found[1] == self._length, found[1]
                line = b"" if is_repeated else b"Content-Length: %b\r\n" % found[1]
            elif not line.strip():
                self._length = None
            yield line
        yield lines.read()

    def end(self) -> None:
        """Handle the end of the connection; raise `ConnectionResetError` where the response is incomplete."""
        headers = self._exchange.headers
        is_framed = "Content-Length" in headers or "chunked" in headers.get("Transfer-Encoding", "").lower()
        if self._exchange.status is None or is_framed:
            raise ConnectionResetError("the receiver closed the connection")

    def on_message_begin(self) -> None:
        # Data after the response: do not reuse the connection.
        self.is_kept_open = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if b"\0" in value or self._header_count > _MAX_HEADERS:
            raise InvalidResponse("invalid header, or too many")
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
                raise InvalidResponse("too many interim responses")

    def on_body(self, body: bytes) -> None:
        kept = self._exchange.body
        kept += body[: MAX_BODY_BYTES - len(kept)]
        self.is_complete = self.is_complete or len(kept) == MAX_BODY_BYTES

    def on_message_complete(self) -> None:
        if self._exchange.status is not None:
            self.is_complete = True
            self.is_kept_open = self._may_keep


class ReceiverConnection(asyncio.Protocol):
    """A connection, open or closed."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader: _ResponseReader | None = None
        self._ended: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the peer; `None` when closed."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return None if peer is None else peer[:2]

    async def post(self, request: bytes, exchange: Exchange) -> bool:
        """Send a request, read the response into the exchange, and return whether the connection is reusable.

        Raises `InvalidResponse` if it is not HTTP, `OSError` where the connection ended before it.
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
        """Close at once: a TLS shutdown would wait for an unresponsive peer."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            self.abort()  # unsolicited data
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
