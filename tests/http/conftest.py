"""One running service for all tests over HTTP, and services that deliver."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http.delivery_harness import DeliveryHarness, Opened, delivery_harnesses
from tests.support.api_contract import Contract
from tests.support.service_fixtures import *  # noqa: F403  (fixtures)
from tests.support.visitors import SignIn, Visitors


@pytest.fixture
def sign_in(visitors: Visitors) -> SignIn:
    return visitors.guest


@pytest.fixture(scope="module")
def opened(postgres_server_url: str, contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Opens a service that delivers, with a retry schedule."""
    return delivery_harnesses(postgres_server_url, contract, tmp_path_factory)


@pytest.fixture(scope="module")
async def shared_office(opened: Opened) -> AsyncIterator[DeliveryHarness]:
    async with opened("") as office:
        yield office


@pytest.fixture
def office(shared_office: DeliveryHarness) -> DeliveryHarness:
    """A service that delivers without retries, which tests of a module share: each has its own customers."""
    receiver = shared_office.receiver
    receiver.status, receiver.answers[:], receiver.received[:] = 204, [], []
    return shared_office
