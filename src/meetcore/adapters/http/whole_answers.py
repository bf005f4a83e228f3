"""Write a whole answer at once, where the server is uvicorn and nothing stands between.

uvicorn checks each field of a head by itself and writes head and body one after the other, which together
take a tenth of the time of a short request. Here the values of all fields are checked together, and there is
one write. It is done as `RequestResponseCycle.send` does it; whatever that would wait for, log or leave out
goes the way of ASGI.

That class is no public interface of uvicorn. An answer changes its state, so it must have the attributes that
are known here, neither fewer nor more, and its `send` must use what is known here. With others, as with
another server, answers go the way of ASGI.
"""

import re
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Final

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_FORBIDDEN: Final = re.compile("[^\t\x20-\x7e\x80-\xff]")

_CLOSE: Final = (b"connection", b"close")

_STATE: Final = frozenset({
    "scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers", "message_event",
    "on_response", "disconnected", "keep_alive", "waiting_for_100_continue", "body", "more_body",
    "response_started", "response_complete", "chunked_encoding", "expected_content_length",
})  # fmt: skip
"""The attributes of a `RequestResponseCycle` of uvicorn 0.40, 0.47, 0.50 and 0.54; 0.44 has one more."""

_SEND: Final = frozenset({
    "HEADER_RE", "HEADER_VALUE_RE", "RuntimeError", "STATUS_LINE", "access_log", "access_logger",
    "append", "chunked_encoding", "close", "decode", "default_headers", "disconnected", "drain",
    "expected_content_length", "extend", "flow", "get", "get_client_addr", "get_path_with_query_string",
    "info", "int", "join", "keep_alive", "len", "list", "lower", "message_event", "on_response",
    "response_complete", "response_started", "scope", "search", "set", "transport",
    "waiting_for_100_continue", "write", "write_paused",
})  # fmt: skip
"""What `send` uses by name in all of them."""

_SEND_OF_SOME: Final = frozenset({"CLOSE_HEADER", "bytes", "cast", "split", "strip"})
"""What it uses in some of them, to look for the wish to close."""

_WRITTEN: Final = frozenset({
    b"", b"\r\n", b"%x\r\n", b"0\r\n\r\n", b": ", b",", b"chunked", b"close", b"connection",
    b"connection: close\r\n", b"content-length", b"transfer-encoding", b"transfer-encoding: chunked\r\n",
})  # fmt: skip
"""What it compares or writes, in one of them or more."""


def is_known(cycle: type) -> bool:
    """Return whether a request of the server has the attributes, and sends with what is known here."""
    made = getattr(cycle.__init__, "__code__", None)  # type: ignore[misc]
    sends = getattr(getattr(cycle, "send", None), "__code__", None)
    if made is None or sends is None or frozenset(made.co_names) - {"bytearray"} != _STATE:
        return False
    parts = list(_parts_of(sends))
    names = frozenset(name for part in parts for name in part.co_names)
    written = frozenset(each for part in parts for each in part.co_consts if isinstance(each, bytes))
    return _SEND <= names <= _SEND | _SEND_OF_SOME and written <= _WRITTEN


def _parts_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the comprehensions in it, which some versions of Python keep apart."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _parts_of(each)


_IS_KNOWN: Final = is_known(RequestResponseCycle)


def write_whole(send: Send, status: int, fields: Mapping[str, str], media_type: str, body: bytes) -> bool:
    """Write an answer with a body, and return whether that was possible.

    Args:
        send: as the server gave it; a wrapper around it gets the messages of ASGI instead.
        status: one that allows a body.
        fields: of the head, but for length and type.
        media_type: of the body, which is not empty.
        body: all of it.
    """
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle or not _IS_KNOWN or not _is_plain(cycle):
        return False
    if _FORBIDDEN.search("".join(fields.values())):
        return False
    head = "".join([f"{name.lower()}: {value}\r\n" for name, value in fields.items()])
    ending = "" if cycle.keep_alive else "connection: close\r\n"
    text = f"{head}content-length: {len(body)}\r\ncontent-type: {media_type}\r\n{ending}\r\n"
    by_server = b"".join([b"%b: %b\r\n" % field for field in cycle.default_headers])
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"".join((STATUS_LINE[status], by_server, text.encode("latin-1"), body)))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _is_plain(cycle: RequestResponseCycle) -> bool:
    """Return whether an answer may be written now, with its body, and with no line in the access log."""
    is_open = not (cycle.response_started or cycle.disconnected or cycle.flow.write_paused)
    is_whole = is_open and not cycle.access_log and cycle.scope["method"] != "HEAD"
    # Older servers look for the wish to close when they write the head.
    return is_whole and _CLOSE not in cycle.scope["headers"]
