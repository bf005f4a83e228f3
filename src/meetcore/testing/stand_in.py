"""The shared part of the stand-ins of services: an HTTP server, faults that wait for calls, and switches.

Faults of every stand-in::

    hang     does not respond until the client has gone
    drop     closes the connection without a response
    garbage  responds 200 with a body that is not JSON
    huge     responds 200 with the right body, and more than a client should read
    cut      sends half of the announced body, and closes the connection

The server writes bytes, so that it can break off anywhere. Everything is in memory.
"""

import argparse
import asyncio
import json
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

from attrs import asdict, define, evolve, field, frozen


@frozen
class Request:
    """A complete request. `segments` are those of the path, decoded."""

    method: str
    segments: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    until_disconnected: Callable[[], Awaitable[object]] = field(repr=False)

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object in the body; empty where there is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@frozen
class Reply:
    """A response. With `sent`, the connection ends after that many bytes of the body and after `lingers`."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)
    sent: int | None = None
    lingers: Callable[[], Awaitable[object]] | None = None


Handler: TypeAlias = Callable[[Request], Awaitable[Reply | None]]
"""Responds to a request; None drops the connection."""


def as_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Make a response with a JSON body."""
    kind = {"Content-Type": "application/json;charset=UTF-8"}
    return Reply(status, json.dumps(value).encode(), {**kind, **(headers or {})})


def utc_now() -> datetime:
    """Return the present instant by the machine's clock."""
    return datetime.now(UTC)


@asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncIterator[int]:
    """Serve on loopback, on a free port for 0; yield the port."""
    tasks: set[asyncio.Task[None]] = set()
    errors: list[BaseException] = []

    def over(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            errors.append(error)

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
    if errors:
        raise BaseExceptionGroup("the stand-in has failed", errors)


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
            if reply.sent is not None or request.headers.get("connection", "").lower() == "close":
                return
    except (OSError, asyncio.LimitOverrunError):
        pass  # the client has gone, or sends an endless head
    except Exception:
        traceback.print_exc()  # the client only sees that the connection ends
        raise
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


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


_HUGE_BYTES: Final = 8 * 1024 * 1024
BROKEN: Final = ("hang", "drop", "garbage", "huge", "cut")


@define
class PlannedFault:
    """A fault that waits for its calls.

    `call` is one of `CALLS` or `any`; a `marker` must stand in the request. `times` counts down; None is for
    ever. `fault` is one of `FAULTS`, or an HTTP status.
    """

    CALLS: ClassVar[tuple[str, ...]] = ()
    FAULTS: ClassVar[tuple[str, ...]] = BROKEN

    fault: str
    call: str = "any"
    times: int | None = 1
    marker: str = ""

    def __attrs_post_init__(self) -> None:
        if self.fault not in self.FAULTS and not self.fault.isdigit():
            raise ValueError(f"no such fault: {self.fault}")
        if self.call not in (*self.CALLS, "any"):
            raise ValueError(f"no such call: {self.call}")


async def broken(fault: PlannedFault, request: Request, reply: Reply) -> Reply | None:
    """Apply one of `BROKEN` to the right response; None drops the connection."""
    match fault.fault:
        case "hang":
            await request.until_disconnected()
            return None
        case "drop":
            return None
        case "garbage":
            return Reply(200, b"<html>not what was asked for", {"Content-Type": "text/html"})
        case "huge":
            return Reply(200, reply.body + b" " * _HUGE_BYTES, reply.headers)
        case "cut":
            return evolve(reply, sent=len(reply.body) // 2)
        case _:
            return reply


F = TypeVar("F", bound=PlannedFault)
T = TypeVar("T")
Switch: TypeAlias = Callable[[], object]


class Faults(Generic[F]):
    """The planned faults, in their order."""

    def __init__(self) -> None:
        self._planned: list[F] = []

    @property
    def planned(self) -> Sequence[F]:
        """The faults that wait, oldest first."""
        return tuple(self._planned)

    def plan(self, *faults: F) -> None:
        """Add faults; a call meets the first one that fits."""
        self._planned.extend(faults)

    def clear(self) -> None:
        """Drop all planned faults."""
        self._planned.clear()

    def due(self, call: str, body: bytes) -> F | None:
        """Take the fault that fits to a call and its body."""
        for fault in self._planned:
            if fault.call in (call, "any") and fault.marker.encode() in body:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._planned.remove(fault)
                return fault
        return None


class StandIn(Generic[F]):
    """A service at `url`, with planned faults, and switches under `/stand-in` that need no token."""

    def __init__(self, kind: type[F]) -> None:
        self._kind = kind
        self.faults: Faults[F] = Faults()
        self.url = ""

    @asynccontextmanager
    async def served(self, port: int) -> AsyncIterator[Self]:
        """Run on loopback, on a free port for 0."""
        async with serving(self.handle, port) as taken:
            self.url = f"http://127.0.0.1:{taken}"
            yield self

    async def answer(self, request: Request) -> Reply | None:
        """Respond as the service does; None drops the connection."""
        raise NotImplementedError

    def switch(self, request: Request) -> Switch | None:
        """Return the action of a request under `/stand-in`, beside those on `faults`."""
        raise NotImplementedError

    async def handle(self, request: Request) -> Reply | None:
        """Respond to a request of a client, or of a test."""
        if request.segments[0] != "stand-in":
            return await self.answer(request)
        switch = self._fault_switch(request) or self.switch(request)
        if switch is None:
            return as_json({"error": "no such switch"}, 404)
        try:
            return as_json(switch())
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            return as_json({"error": str(error)}, 400)

    def _fault_switch(self, request: Request) -> Switch | None:
        match request.method, *request.segments[1:]:
            case "GET", "faults":
                return lambda: [asdict(each) for each in self.faults.planned]
            case "POST", "faults":
                return lambda: self._plan(json.loads(request.body))
            case "DELETE", "faults":
                return self.faults.clear
            case _:
                return None

    def _plan(self, records: list[dict[str, Any]] | dict[str, Any]) -> int:
        faults = [self._kind(**each) for each in (records if isinstance(records, list) else [records])]
        self.faults.plan(*faults)
        return len(faults)


def port_option(module: str, about: str | None) -> int:
    """Read the options of a stand-in that has none but its port."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--port", type=int, default=0)
    return int(parser.parse_args().port)


def run_stand_in(opened: AbstractAsyncContextManager[T], shown: Callable[[T], Mapping[str, str]]) -> None:
    """Run a stand-in as a process until Ctrl-C; print one line of JSON when it is ready."""

    async def run() -> None:
        async with opened as stand_in:
            sys.stdout.write(json.dumps(shown(stand_in)) + "\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(run())
