"""One running service for all tests over HTTP, and services that deliver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from meetcore.app import Service
from meetcore.composition.application import Application
from tests.http.delivery_harness import Opened, delivery_harnesses
from tests.support.api_contract import Contract
from tests.support.console_pages import browsers, sign_in  # noqa: F401  (fixtures)
from tests.support.service_fixtures import *  # noqa: F403  (fixtures)
from tests.support.visitors import Visitors


@pytest.fixture
def opened(postgres_server_url: str, contract: Contract, tmp_path: Path) -> Opened:
    """Opens a service that delivers, with a retry schedule."""
    return delivery_harnesses(postgres_server_url, contract, tmp_path)


@pytest.fixture
async def visitors(service: Service, application: Application) -> AsyncIterator[Visitors]:
    """Makes browsers that are signed in, or not."""
    visitors = Visitors(service, application)
    yield visitors
    for each in visitors.opened:
        await each.aclose()
