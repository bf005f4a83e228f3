"""HTTP/1.1 of uvicorn, with bounds on a connection before its request is whole.

uvicorn waits for ever for a head, keeps all of it in memory, and has no bound on connections. This protocol
adds a time and a size for the head, a time for what is left of a body after the answer, and the bounds of
`connections`. It refuses a head without the one `Host` field that RFC 9112 (3.2) asks for, and leaves trailer
fields out of the header fields (RFC 9110, 6.5.1). While a request is carried out the application owns the
clock: it bounds the body it reads.

`meetcore serve` and `meetcore dev` use it, and so does a uvicorn that is started with
`--http meetcore.adapters.http.protocol:BoundedHttpProtocol`. The application passes its `Front` in the
lifespan's state; without one the defaults hold.
"""

import asyncio
import socket
import struct
from asyncio import Transport
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final

import httptools
from attrs import define, field
from starlette.responses import PlainTextResponse, Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from meetcore.adapters.api.answers import HeadTooLarge, status_of
from meetcore.adapters.api.streams import ABORT
from meetcore.adapters.http.connections import Connections
from meetcore.domain.errors import InvalidRequest

NOT_SENT_BYTES: Final = 128 * 1024
"""Bytes that the kernel buffers unsent for a client, at most."""

_AT_ONCE: Final = struct.pack("ii", 1, 0)


class AbortableProtocol(HttpToolsProtocol):
    """uvicorn's protocol on httptools, with droppable connections and small buffers, to measure readers."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Bound the kernel's unsent bytes for the client, which may be megabytes otherwise."""
        super().connection_made(transport)
        if (connection := _tcp_socket(transport)) is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOT_SENT_BYTES)

    def on_message_begin(self) -> None:
        """Put the extension into the scope of the request that begins."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: partial(abort, self.transport)}  # type: ignore[dict-item]


def abort(transport: Transport) -> None:
    """Reset a connection: data that was not read yet is discarded, in the kernel too."""
    if (connection := _tcp_socket(transport)) is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


def _tcp_socket(transport: Transport) -> socket.socket | None:
    found: socket.socket | None = transport.get_extra_info("socket")
    return found if found is not None and found.family in (socket.AF_INET, socket.AF_INET6) else None


FRONT: Final = "meetcore.front"
"""The name of the `Front` in the state of the lifespan."""

MAX_FIELDS: Final = 100
"""Header fields of one request: every look at a field walks through all of them."""

LINGER_S: Final = 2.0
"""How long a refused connection is read on, so that its client gets to read the refusal."""


def _plain(refusal: InvalidRequest) -> Response:
    return PlainTextResponse(f"{refusal.message}\n", status_of(refusal))


@define(eq=False)
class Front:
    """The state that the connections of one process share.

    `answer_to` answers a request that was never complete. `is_draining`: connections are not kept open.
    """

    connections: Connections = field(factory=Connections)
    answer_to: Callable[[InvalidRequest], Response] = _plain
    is_draining: Callable[[], bool] = lambda: False


class _Reading(Enum):
    HEAD = auto()
    BODY = auto()
    NOTHING = auto()


class _Refused(Exception):
    """Stops the parser."""


class BoundedHttpProtocol(AbortableProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._front: Front = app_state.get(FRONT) or app_state.setdefault(FRONT, Front())
        self._limits = self._front.connections.limits
        self._reading = _Reading.HEAD
        self._made_progress = False
        self._overhead_bytes = 0  # that came since a part of the request was last complete
        self._deadline: asyncio.TimerHandle | None = None
        self._problem: InvalidRequest | None = None
        self._is_refused = False

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, if there is room for it."""
        super().connection_made(transport)
        if self._front.connections.admit(self, self.client[0] if self.client else None):
            self._expire_in(self._limits.head_timeout_s)
        else:
            self._is_refused = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the counts."""
        super().connection_lost(exc)
        self._cancel_deadline()
        self._unset_keepalive_if_required()
        self._front.connections.leave(self)

    def evict(self) -> None:
        """Close a connection that has no request in progress."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes within the bounds."""
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        self._made_progress = False
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(self._problem or InvalidRequest({"request": ["must be valid HTTP/1.1"]}))
            return
        if not self._made_progress:
            self._overhead_bytes += len(data)
            if self._overhead_bytes > self._limits.head_bytes:
                self._refuse(self._head_too_large())
                return
        # Bytes that belong to no request, such as empty lines, have ended the time of an idle connection.
        is_head_due = self._reading is _Reading.HEAD or (self._is_idle() and not self._made_progress)
        if is_head_due and self._deadline is None:
            self._expire_in(self._limits.head_timeout_s)

    def _parse(self, data: bytes) -> None:
        """Parse bytes. No other protocol is spoken: a head that asks for one is parsed without `Upgrade`.

        With it the parser passes over a body, which would be read as the next request.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stop:
                data = self._head_without_upgrade() + data[stop.args[0] :]
                self.parser = httptools.HttpRequestParser(self)

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._reading = _Reading.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; a trailer field is not one.

        White space around a value is no part of it (RFC 9110, 5.5); the parser leaves that after it.
        """
        if self._reading is _Reading.HEAD:
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Judge a head and start its request."""
        self._problem = self._problem_of_head()
        if self._problem is not None:
            raise _Refused
        if self.parser.should_upgrade():
            return
        self._reading = _Reading.BODY
        self._progress()
        self._cancel_deadline()
        self._front.connections.work(self)
        super().on_headers_complete()
        if self._front.is_draining():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._progress()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request whose body is complete."""
        if self.parser.should_upgrade():
            return
        self._reading = _Reading.NOTHING
        self._progress()
        super().on_message_complete()
        if self._is_idle():
            self._cancel_deadline()
            self._wait_for_another()

    def _progress(self) -> None:
        self._made_progress = True
        self._overhead_bytes = 0

    def _should_upgrade(self) -> bool:
        return False

    def _problem_of_head(self) -> InvalidRequest | None:
        size, hosts = len(self.url), 0
        for name, value in self.headers:
            size += len(name) + len(value) + len(": \r\n")
            hosts += name == b"host"
        if size > self._limits.head_bytes or len(self.headers) > MAX_FIELDS:
            return self._head_too_large()
        version = self.parser.get_http_version()
        if self.parser.get_method() == b"CONNECT":  # what comes after it would be a tunnel's
            return InvalidRequest({"request": ["must not be CONNECT"]})
        if version not in ("1.0", "1.1"):  # an answer of HTTP/0.9 would be a body without a head
            return InvalidRequest({"request": ["must be valid HTTP/1.1"]})
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            return InvalidRequest({"Host": ["must be there once"]})
        return None

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(self._limits.head_bytes, MAX_FIELDS)

    # Answers

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        is_last = not self.pipeline
        super().on_response_complete()
        if not is_last or self.transport.is_closing():
            return
        if self._reading is _Reading.BODY:
            self._expire_in(self._limits.body_timeout_s)
        self._front.connections.wait(self)

    def _is_idle(self) -> bool:
        """Return whether the last request was read and answered, and no other one has begun."""
        return self._reading is _Reading.NOTHING and self.cycle.response_complete

    def _wait_for_another(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _refuse(self, problem: InvalidRequest) -> None:
        """Answer a request that cannot be read and end the connection."""
        self._is_refused = True
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._reading is not _Reading.BODY or self.pipeline or cycle.response_started:
                cycle.keep_alive = False  # an answer before this one is not out yet: it is the last
                return
            cycle.disconnected = True  # notifies the application that its client disconnected
            cycle.message_event.set()
        answer = self._front.answer_to(problem)
        fields = [*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close")]
        head = b"".join(b"%b: %b\r\n" % each for each in fields)
        self.transport.write(STATUS_LINE[answer.status_code] + head + b"\r\n" + bytes(answer.body))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._cancel_deadline()
        self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)

    # Time

    def _expire_in(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        """End a connection that did not complete its request in time."""
        self._deadline = None
        cycle: RequestResponseCycle | None = self.cycle
        if self.flow.read_paused:  # the missing part may have arrived but was not read yet
            self._expire_in(self._limits.head_timeout_s)
        elif cycle is not None and not cycle.response_complete:
            self._is_refused = True
            cycle.keep_alive = False
        else:
            self.transport.abort()
