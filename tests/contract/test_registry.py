"""The operator's records in every store."""

import pytest

from meetcore.testing.contracts import RegistryContract


@pytest.mark.spec("5/7")
class TestRegistry(RegistryContract):
    """In memory and in Postgres."""
