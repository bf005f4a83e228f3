"""A small HTTP server that speaks bytes, so that it can misbehave in every way.

Owns connections. A handler answers, or returns `None` and the connection drops.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote

from attrs import field, frozen

__all__ = ["Handler", "Reply", "Request", "as_json", "serving"]


@frozen
class Request:
    """One request, read whole. `segments` are those of the path, decoded once each."""

    method: str
    segments: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    until_disconnected: Callable[[], Awaitable[object]] = field(repr=False)

    @property
    def json(self) -> dict[str, Any]:
        """The body's JSON object; empty when it is no object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@frozen
class Reply:
    """One answer. With `sent`, that many bytes of the body go out; then `lingers` is waited for, no more."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)
    sent: int | None = None
    lingers: Callable[[], Awaitable[object]] | None = None


Handler: TypeAlias = Callable[[Request], Awaitable[Reply | None]]


def as_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer in JSON."""
    kind = {"Content-Type": "application/json;charset=UTF-8"}
    return Reply(status, json.dumps(value).encode(), {**kind, **(headers or {})})


@asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncIterator[int]:
    """Serve on loopback while the context lasts; gives the port, a free one for 0."""
    tasks: set[asyncio.Task[None]] = set()
    faults: list[BaseException] = []

    def over(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            faults.append(fault)

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_serve_connection(handler, reader, writer))
        tasks.add(task)
        task.add_done_callback(over)

    server = await asyncio.start_server(accepted, "127.0.0.1", port, backlog=1024)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
    if faults:
        raise BaseExceptionGroup("the stand-in itself is at fault", faults)


async def _serve_connection(
    handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while (request := await _request(reader)) is not None:
            reply = await handler(request)
            if reply is None:
                return
            writer.write(_bytes_of(reply))
            await writer.drain()
            if reply.lingers is not None:
                await reply.lingers()
            if reply.sent is not None:
                return
            if request.headers.get("connection", "").lower() == "close":
                return
    except (OSError, asyncio.LimitOverrunError):
        pass  # the client has gone, or sends what is not read
    finally:
        writer.transport.abort() if writer.is_closing() else await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass  # closed all the same


async def _request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length") or 0))
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = first.split(" ", 2)
    path, _, query = target.partition("?")
    segments = tuple(unquote(each) for each in path.strip("/").split("/"))
    return Request(method, segments, dict(parse_qsl(query)), headers, body, reader.read)


def _bytes_of(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} As-It-Is", f"Content-Length: {len(reply.body)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body[: reply.sent]
