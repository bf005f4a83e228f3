"""A webhook receiver on loopback that records requests and answers as configured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from attrs import define, field, frozen

from meetcore.testing import receiver as kit


@frozen
class Received:
    """A request, names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float = 0.0
    """Time of its end, by a monotonic clock."""

    @classmethod
    def of(cls, head: bytes, body: bytes) -> Received:
        line, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
        method, path, _ = line.split(" ")
        headers = (each.split(": ", 1) for each in lines)
        return cls(method, path, {name.lower(): value for name, value in headers}, body, time.monotonic())


@define
class Receiver:
    """Answers each request with `status`, and keeps it."""

    port: int = 0
    ca_file: str = ""
    status: int = 204
    answers: list[int] = field(factory=list)
    """Statuses of the next requests, before `status`."""
    received: list[Received] = field(factory=list)
    takes_s: float = 0.0
    """Seconds per request; paths that begin with `/hang` wait for `release`."""
    release: asyncio.Event = field(factory=asyncio.Event)
    under_way: int = 0
    most_under_way: int = 0

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.received.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if request.path.startswith("/hang"):
                await self.release.wait()
            elif self.takes_s:
                await asyncio.sleep(self.takes_s)
        finally:
            self.under_way -= 1
        status = self.answers.pop(0) if self.answers else self.status
        length = "" if status == 204 else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {status} X\r\n{length}\r\n".encode())
        await writer.drain()


@asynccontextmanager
async def receiving(directory: Path, *hosts: str) -> AsyncIterator[Receiver]:
    """Run a receiver for host names, on a free port."""
    authority = kit.Authority(directory)
    receiver = Receiver(ca_file=authority.ca_file)

    async def behaviour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The request of this connection was the last to be noted: nothing has run since.
        await receiver.answer(Received.of(server.heads[-1], server.bodies[-1]), writer)

    async with kit.receiving(authority.certified(*hosts), behaviour) as server:
        receiver.port = server.port
        try:
            yield receiver
        finally:
            receiver.release.set()
