"""One request and its answer, on a connection that aiohttp's pool gave.

Owns the bytes of the request, which go out in one write, and the reading of the answer by aiohttp's
parser, up to the caps. It neither chooses the peer nor judges the answer. A `ClientSession` is not
used: what it prepares for each request (cookies, redirects, forms, a task for the body) costs more than
the rest of a post, and none of it is wanted.
"""

from collections.abc import Mapping
from functools import lru_cache

from aiohttp import StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from attrs import define, field

from meetcore.adapters.webhook_sender.answers import MAX_BODY_BYTES
from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt, vetted_transport
from meetcore.ports.webhook_sender import OutgoingPost

__all__ = ["Exchange", "request_bytes", "send_and_read"]

_READ_AT_ONCE_BYTES = 16 * 1024  # aiohttp stops reading at twice as much unread data
_UPGRADE = 101
_FIRST_FINAL_STATUS = 200
_DEFAULT_HEADERS = {
    "user-agent": "User-Agent: meetcore\r\n",
    "content-type": "Content-Type: application/json\r\n",
    "accept": "Accept: */*\r\n",
    "accept-encoding": "Accept-Encoding: identity\r\n",
}
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@define
class Exchange:
    """What is known of an attempt so far: kept outside the clock, so that a time-out loses nothing."""

    dial: ConnectionAttempt | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(factory=dict)
    body: bytearray = field(factory=bytearray)


def request_bytes(post: OutgoingPost) -> bytes:
    """Write the whole request down.

    Raises:
        ValueError: a header of the delivery is not one line of ASCII.
    """
    url, (kept, defaults) = post.url, _plan(tuple(post.headers))
    host = f"[{url.host}]" if ":" in url.host else url.host
    head = "".join([
        f"POST {url.request_target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(post.body)}\r\n",
        *[f"{name}: {text}\r\n" for name, text in post.headers.items() if name in kept],
        defaults,
        "\r\n",
    ])  # fmt: skip
    # Whatever was given, a line ends where it was ended here.
    if not head.count("\r") == head.count("\n") == 4 + len(kept) + defaults.count("\n") or "\0" in head:
        raise ValueError("a header of the delivery is not one line")
    return head.encode("ascii") + post.body


@lru_cache(64)
def _plan(names: tuple[str, ...]) -> tuple[frozenset[str], str]:
    """Which of the given headers go out, and the lines that are added; deliveries all give the same names."""
    given = {name.lower(): name for name in names}
    defaults = "".join(line for name, line in _DEFAULT_HEADERS.items() if name not in given)
    return frozenset(name for lowered, name in given.items() if lowered not in _OWN_HEADERS), defaults


async def send_and_read(
    connection: Connection, request: bytes, exchange: Exchange, *, may_keep: bool = True
) -> None:
    """Send and read. The connection goes back to the pool if the whole answer was read; else it is cut.

    Args:
        request: all of it.
        exchange: its dial holds the vetted peers; the answer is written into it.
        may_keep: whether the pool has room.

    Raises:
        aiohttp.ClientError: the connection broke, or its peer was not vetted.
        aiohttp.http.HttpProcessingError: the answer is not HTTP.
        OSError: the system's word on the connection.
    """
    is_whole = False
    transport = None
    try:
        protocol, dial = connection.protocol, exchange.dial
        assert protocol is not None
        assert dial is not None
        transport = vetted_transport(connection, dial)
        protocol.set_response_params(
            read_until_eof=True, auto_decompress=False, read_bufsize=_READ_AT_ONCE_BYTES
        )
        transport.write(request)
        is_whole = await _read_answer(protocol, exchange)
    finally:
        if is_whole and may_keep:
            connection.release()
        else:
            if transport is not None:
                # At once: a polite TLS goodbye would wait half a minute for a peer that does not answer.
                transport.abort()
            connection.close()


async def _read_answer(protocol: ResponseHandler, exchange: Exchange) -> bool:
    """Read the first final answer; return whether it was complete."""
    message, content = await protocol.read()
    while message.code < _FIRST_FINAL_STATUS and message.code != _UPGRADE:
        message, content = await protocol.read()
    exchange.status = message.code
    exchange.headers = message.headers
    return message.code != _UPGRADE and await _read_capped(content, exchange.body)


async def _read_capped(content: StreamReader, into: bytearray) -> bool:
    """Read the body up to `MAX_BODY_BYTES`; return whether it was complete."""
    while not content.at_eof():
        chunk = await content.readany()
        into += chunk[: MAX_BODY_BYTES - len(into)]
        if len(into) == MAX_BODY_BYTES:
            return content.at_eof()
    return True
