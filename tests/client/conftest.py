"""Both clients, against a real service over real HTTP and against a server with bad days."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
from attrs import frozen

from meetcore.app import Service
from meetcore.client import MeetcoreError
from tests.client.clients import KINDS, ClientUnderTest, Waits, open_client, served
from tests.client.scripted_server import ScriptedServer, Step
from tests.support.api_harness import Customer
from tests.support.service_fixtures import *  # noqa: F403  (fixtures)

API_KEY = f"mk_live_{'k' * 43}"


@pytest.fixture(scope="session")
async def service_url(service: Service) -> AsyncIterator[str]:
    """The service on a port of loopback."""
    async with served(service) as url:
        yield url


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which client: every test of a call runs with both."""
    return str(request.param)


@pytest.fixture
async def invoke(kind: str, service_url: str, customer: Customer) -> AsyncIterator[ClientUnderTest]:
    """A client of a new customer with 1000 credits."""
    async with open_client(kind, service_url, customer.key.text) as invoke:
        yield invoke


@frozen
class Trial:
    """A client, the server that it meets, and the waits that it was seen to make."""

    invoke: ClientUnderTest
    server: ScriptedServer
    waits: Waits

    async def refused(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that must fail; the error."""
        with pytest.raises(MeetcoreError) as caught:
            await self.invoke(name, *args, **kwargs)
        return caught.value


@pytest.fixture
def bad_day() -> Iterator[Callable[..., ScriptedServer]]:
    """Opens servers that answer by a script."""
    with ExitStack() as stack:
        yield lambda *script: stack.enter_context(ScriptedServer(*script))


@pytest.fixture
async def against(kind: str, bad_day: Callable[..., ScriptedServer]) -> AsyncIterator[Callable[..., Any]]:
    """Opens a client on a server with a script; time passes only as it waits."""
    async with AsyncExitStack() as stack:

        async def opened(*script: Step, **options: Any) -> Trial:
            server, waits = bad_day(*script), Waits()
            settings: dict[str, Any] = {"clock": waits.clock, "sleep": waits.sleep_of(kind)}
            settings |= {"jitter": lambda: 0.5} | options
            invoke = await stack.enter_async_context(open_client(kind, server.url, API_KEY, **settings))
            return Trial(invoke, server, waits)

        yield opened
