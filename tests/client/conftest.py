"""Both clients, against a real service over HTTP and against a server with a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from meetcore.app import Service
from tests.client.clients import API_KEY, KINDS, Against, ClientUnderTest, Trial, Waits, open_client, served
from tests.client.scripted_server import ScriptedServer, Step
from tests.support.api_harness import Customer
from tests.support.service_fixtures import *  # noqa: F403  (fixtures)


@pytest.fixture(scope="session")
async def service_url(service: Service) -> AsyncIterator[str]:
    """The service on a port of loopback."""
    async with served(service) as url:
        yield url


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of client: every test of a call runs with both."""
    return str(request.param)


@pytest.fixture
async def invoke(kind: str, service_url: str, customer: Customer) -> AsyncIterator[ClientUnderTest]:
    """A client of a new customer with 1000 credits."""
    async with open_client(kind, service_url, customer.key.text) as invoke:
        yield invoke


@pytest.fixture
async def against(kind: str) -> AsyncIterator[Against]:
    """Opens a client of a server with a script; time advances by its waits alone."""
    async with AsyncExitStack() as stack:

        async def opened(*script: Step, **options: Any) -> Trial:
            server, waits = stack.enter_context(ScriptedServer(*script)), Waits()
            settings: dict[str, Any] = {"clock": waits.clock, "sleep": waits.sleep_of(kind)}
            settings |= {"jitter": lambda: 0.5} | options
            invoke = await stack.enter_async_context(open_client(kind, server.url, API_KEY, **settings))
            return Trial(invoke, server, waits)

        yield opened
