"""Dropping a connection at once, with everything that lies in its buffers.

A connection that is closed the ordinary way stays open until its client has taken what was written: a client
that takes nothing keeps its socket for ever. ASGI has no message for more, so the server's protocol puts a
callable into the scope.
"""

import socket
import struct
from asyncio import Transport
from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ABORT: Final = "meetcore.abort"
"""The extension of the scope: a callable that drops the connection of the request."""

NOT_SENT_BYTES: Final = 128 * 1024
"""What the kernel takes from us for a client and has not sent, at most."""

_AT_ONCE: Final = struct.pack("ii", 1, 0)


class AbortableProtocol(HttpToolsProtocol):
    """uvicorn's protocol on httptools; requests can drop their connection.

    Little is buffered for the client, so that the rate at which it reads can be measured.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Bound what the kernel holds unsent for the client, which may be megabytes otherwise."""
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


def abort_of(scope: Scope) -> Callable[[], None] | None:
    """Return the callable that drops a request's connection; `None` if the server provides none."""
    found: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
    return found


def _tcp_socket(transport: Transport) -> socket.socket | None:
    found: socket.socket | None = transport.get_extra_info("socket")
    return found if found is not None and found.family in (socket.AF_INET, socket.AF_INET6) else None
