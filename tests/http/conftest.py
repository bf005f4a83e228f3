"""One running service for all tests over HTTP, and services that deliver."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.http.delivery_harness import Opened, delivery_harnesses
from tests.support.api_contract import Contract
from tests.support.service_fixtures import *  # noqa: F403  (fixtures)
from tests.support.visitors import SignIn, Visitors


@pytest.fixture
def sign_in(visitors: Visitors) -> SignIn:
    return visitors.guest


@pytest.fixture
def opened(postgres_server_url: str, contract: Contract, tmp_path: Path) -> Opened:
    """Opens a service that delivers, with a retry schedule."""
    return delivery_harnesses(postgres_server_url, contract, tmp_path)
