"""One interface to either client, a service on a real port, and the descriptions of all operations."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any, Literal

import httpx
import pytest
import uvicorn
from attrs import define, field, frozen

from meetcore.client import AsyncClient, AsyncPages, AsyncResponsePages, Client, MeetcoreError, MeetingFlags
from meetcore.client.calls import Call
from meetcore.client.descriptors import listing, operation, procedure
from meetcore.client.operations import (
    AccountOperations,
    CreditOperations,
    MeetingOperations,
    NoteOperations,
    RecordingOperations,
)
from meetcore.client.webhooks import EventOperations, WebhookOperations
from tests.client.samples import ID, WANTED
from tests.client.scripted_server import ScriptedServer

KINDS = ("blocking", "awaited")
API_KEY = f"mk_live_{'k' * 43}"
Against = Callable[..., Any]
"""The fixture `against`: opens a client of a server with a script."""


@frozen
class ClientUnderTest:
    """A client whose methods are called by their names; a blocking one is called in a thread."""

    client: Client | AsyncClient

    async def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call: `await invoke("meetings.get", id)`."""
        method = attrgetter(name)(self.client)
        if isinstance(self.client, AsyncClient):
            return await method(*args, **kwargs)
        return await asyncio.to_thread(method, *args, **kwargs)

    async def items(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        pages = attrgetter(name)(self.client)(*args, **kwargs)
        if isinstance(pages, AsyncPages | AsyncResponsePages):
            return [item async for item in pages]
        return await asyncio.to_thread(list, pages)

    async def pages(self, name: str, /, *args: Any, cursor: str | None = None, **kwargs: Any) -> list[Any]:
        pages = attrgetter(name)(self.client)(*args, **kwargs)
        if isinstance(pages, AsyncPages | AsyncResponsePages):
            return [page async for page in pages.pages(cursor)]
        return await asyncio.to_thread(lambda: list(pages.pages(cursor)))

    async def close(self) -> None:
        if isinstance(self.client, AsyncClient):
            await self.client.aclose()
        else:
            self.client.close()


@asynccontextmanager
async def open_client(
    kind: str, url: str | None, api_key: str | None, **options: Any
) -> AsyncIterator[ClientUnderTest]:
    """Open a client. A transport of its own keeps the environment's proxies out."""
    make, transport = (
        (Client, httpx.HTTPTransport) if kind == "blocking" else (AsyncClient, httpx.AsyncHTTPTransport)
    )
    invoke = ClientUnderTest(make(url, api_key, **{"transport": transport()} | options))
    try:
        yield invoke
    finally:
        await invoke.close()


@asynccontextmanager
async def served(
    app: Any, listener: socket.socket | None = None, lifespan: Literal["auto", "off"] = "off"
) -> AsyncIterator[str]:
    """Serve an application by uvicorn on loopback; yield its address."""
    config = uvicorn.Config(app, log_level="critical", lifespan=lifespan, ws="none", access_log=False)
    server = uvicorn.Server(config)
    # It listens already, so that a request waits until the server is up.
    with listener or socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@define
class Waits:
    """A clock that advances by sleeping alone."""

    slept: list[float] = field(factory=list)

    def clock(self) -> float:
        return sum(self.slept)

    def sleep_of(self, kind: str) -> Callable[[float], Any]:
        async def awaited(seconds: float) -> None:
            self.slept.append(seconds)

        return self.slept.append if kind == "blocking" else awaited


@frozen
class Trial:
    """A client, its server, and the waits that it made."""

    invoke: ClientUnderTest
    server: ScriptedServer
    waits: Waits

    async def refused(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that must fail; return the error."""
        with pytest.raises(MeetcoreError) as caught:
            await self.invoke(name, *args, **kwargs)
        return caught.value

    def changed(self, **options: Any) -> ClientUnderTest:
        """Return the same client with other options."""
        return ClientUnderTest(self.invoke.client.with_options(**options))


# Every description of an operation, and the call that it makes of its required arguments

ROOMS = (
    AccountOperations, CreditOperations, MeetingOperations, WebhookOperations, RecordingOperations,
    NoteOperations, EventOperations,
)  # fmt: skip
GIVEN: dict[str, Any] = WANTED | {
    "meeting_id": ID, "webhook_id": ID, "delivery_id": ID, "recording_id": ID, "note_id": ID, "topup_id": ID,
    "event_id": ID,
    "duration": 60, "url": "https://example.com", "event_types": ["meeting.created"], "since": "2026-11-21",
}  # fmt: skip
Described = operation[Any, Any] | listing[Any, Any] | procedure[Any, Any]


def described() -> Iterator[tuple[str, Described]]:
    for room in ROOMS:
        for name, found in vars(room).items():
            if isinstance(found, operation | listing | procedure):
                yield f"{room.__name__.removesuffix('Operations').lower()}.{name}", found


def calls() -> dict[str, Call[Any]]:
    """Return the call of each operation; of a list, the call of its first page."""
    return {name: _call(found) for name, found in described() if not isinstance(found, procedure)}


def _call(found: Any) -> Call[Any]:
    parameters = inspect.signature(found._describe).parameters
    required = [each for each in GIVEN if each in parameters and parameters[each].default is inspect._empty]
    made = found._describe(None, **{name: GIVEN[name] for name in required})
    call: Call[Any] = made if isinstance(made, Call) else made.first
    return call


def arguments_of(name: str) -> set[str]:
    """Return the arguments of an operation that are given by name."""
    parameters = inspect.signature(dict(described())[name]._describe).parameters
    given = {each for each, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    return given | (MeetingFlags.__annotations__.keys() if "flags" in parameters else set())
