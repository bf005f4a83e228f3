"""Fixtures of a suite: one migrated database and one running service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import httpx
import pytest
import structlog

from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.composition.application import Application, Part
from meetcore.composition.infrastructure import Network, open_application
from meetcore.domain.members.sign_in import request_window
from meetcore.usecases.members import audit
from tests.support import servers
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    ALL_SCOPES,
    ApiHarness,
    Customer,
    Slots,
    client_of,
    pool_of,
    settings_for,
    started,
)
from tests.support.names import Names
from tests.support.visitors import Visitors

NAMES = {
    "hooks.test": "93.184.216.34",
    "inbox.meetcore.test": "93.184.216.34",  # the one of the documents
    "other.test": "93.184.216.34",
    "xn--bcher-kva.test": "93.184.216.34",
    "intern.test": "10.1.2.3",
    "loop.test": "127.0.0.1",
    "six.test": "fd00::1",
    "cloud.test": "169.254.169.254",
    "mixed.test": "93.184.216.34 192.168.1.1",
}


@pytest.fixture(scope="session")
def names() -> Names:
    return Names(NAMES)


@pytest.fixture(scope="module", autouse=True)
def quiet_log() -> Iterator[None]:
    """Log errors only."""
    configured = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    yield
    structlog.configure(**configured)


@pytest.fixture(scope="session")
def migrated_url(postgres_server_url: str) -> Iterator[str]:
    """A database per suite: all have the same names of hosts."""
    with servers.migrated_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="session")
def service_settings(migrated_url: str) -> Settings:
    return settings_for(migrated_url)


@pytest.fixture(scope="session")
def network(names: Names) -> Network:
    """A network without deliveries."""
    return Network(resolver=names)


@pytest.fixture(scope="session")
async def application(service_settings: Settings, network: Network) -> AsyncIterator[Application]:
    """An application beside the service, for operators' work and changed APIs."""
    async with open_application(service_settings, network, [Part.API]) as application:
        yield application


@pytest.fixture(scope="session")
async def pool(service_settings: Settings) -> AsyncIterator[Pool]:
    async with pool_of(service_settings) as pool:
        yield pool


@pytest.fixture(scope="session")
async def service(service_settings: Settings, names: Names) -> AsyncIterator[Service]:
    everywhere = dict.fromkeys(NAMES, ("127.0.0.1", 1))
    service = Service(service_settings, Network(names, everywhere))
    async with started(service):
        yield service


@pytest.fixture(scope="session")
async def contract(service: Service) -> Contract:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(service), base_url="https://meetcore.test"
    ) as http:
        answer = await http.get("/api/v1/openapi.json")
    return Contract(json.loads(answer.text))


@pytest.fixture(scope="session")
async def http(service: Service, contract: Contract) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, contract) as http:
        yield http


@pytest.fixture(scope="session")
async def harness(
    application: Application,
    http: httpx.AsyncClient,
    service_settings: Settings,
    network: Network,
    pool: Pool,
    contract: Contract,
) -> ApiHarness:
    """The service with two hosts for every tier."""
    for number in (1, 2):
        await application.administration.hosts.add(f"host-{number}@example.test", 1000)
    return ApiHarness(application, http, Slots(), service_settings, network, pool, contract)


@pytest.fixture
async def customer(harness: ApiHarness) -> Customer:
    """An account with 1000 credits and an unrestricted key."""
    return await harness.customer(scopes=ALL_SCOPES)


@pytest.fixture
async def no_attempts(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt was counted in this window, which does not turn: tests share one client address."""
    window = request_window(datetime.now(UTC))
    monkeypatch.setattr(audit, "request_window", lambda _now: window)
    await harness.query("DELETE FROM rate_counters")


@pytest.fixture
async def visitors(service: Service, application: Application) -> AsyncIterator[Visitors]:
    """Makes browsers that are signed in, or not."""
    visitors = Visitors(service, application)
    yield visitors
    for each in visitors.opened:
        await each.aclose()
