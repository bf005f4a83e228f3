"""Webhook endpoints in every store: once for each URL, and their deliveries follow their state."""

import pytest

from meetcore.testing.contracts import EndpointRepositoryContract


@pytest.mark.spec("5/8", "4.3/2", "4.4/1", "3/pause")
class TestEndpointRepository(EndpointRepositoryContract):
    """In memory and in Postgres."""
