"""One interface to either client, and a service on a real port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any

import httpx
import uvicorn
from attrs import define, field, frozen

from meetcore.client import AsyncClient, AsyncPages, AsyncResponsePages, Client

KINDS = ("blocking", "awaited")


@frozen
class ClientUnderTest:
    """A client, whose methods are called by their names; one that blocks is called in a thread."""

    client: Client | AsyncClient

    async def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call: `await speak("meetings.get", id)`."""
        method = attrgetter(name)(self.client)
        if isinstance(self.client, AsyncClient):
            return await method(*args, **kwargs)
        return await asyncio.to_thread(method, *args, **kwargs)

    async def items(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Every item of a list."""
        pages = attrgetter(name)(self.client)(*args, **kwargs)
        if isinstance(pages, AsyncPages | AsyncResponsePages):
            return [item async for item in pages]
        return await asyncio.to_thread(list, pages)

    async def pages(self, name: str, /, *args: Any, cursor: str | None = None, **kwargs: Any) -> list[Any]:
        """Every page of a list."""
        pages = attrgetter(name)(self.client)(*args, **kwargs)
        if isinstance(pages, AsyncPages | AsyncResponsePages):
            return [page async for page in pages.pages(cursor)]
        return await asyncio.to_thread(lambda: list(pages.pages(cursor)))


@asynccontextmanager
async def open_client(
    kind: str, url: str | None, api_key: str | None, **options: Any
) -> AsyncIterator[ClientUnderTest]:
    """A client of one kind. A transport of its own keeps the environment's proxies out."""
    if kind == "blocking":
        with Client(url, api_key, **{"transport": httpx.HTTPTransport()} | options) as client:
            yield ClientUnderTest(client)
    else:
        settings = {"transport": httpx.AsyncHTTPTransport()} | options
        async with AsyncClient(url, api_key, **settings) as awaited:
            yield ClientUnderTest(awaited)


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """An application whose lifespan runs already, behind uvicorn on a free port of loopback: its address."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none", access_log=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # It listens already, so that a request waits until the server is up.
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@define
class Waits:
    """Time that passes only when it is slept through."""

    slept: list[float] = field(factory=list)

    def clock(self) -> float:
        """Seconds so far."""
        return sum(self.slept)

    def sleep_of(self, kind: str) -> Callable[[float], Any]:
        """A sleep for a client of this kind, which takes no time."""

        async def awaited(seconds: float) -> None:
            self.slept.append(seconds)

        return self.slept.append if kind == "blocking" else awaited
