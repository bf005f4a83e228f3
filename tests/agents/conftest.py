"""Agents of a real service: the application of the HTTP tests, on a database of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from meetcore.app import Service
from tests.agents.clients import ERAS, Agent
from tests.support.api_harness import BASE_URL, Customer
from tests.support.service_fixtures import *  # noqa: F403  (fixtures)


@pytest.fixture(scope="session")
async def line(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service as a whole, without a key."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL) as line:
        yield line


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """The revision of the protocol: every test of an agent runs with both kinds."""
    return str(request.param)


@pytest.fixture
def agent(line: httpx.AsyncClient, customer: Customer, era: str) -> Agent:
    """An agent with a new customer's key."""
    return Agent(line, customer.key.text, era)
