"""One daily cap for keys that were rolled, in every store."""

import pytest

from meetcore.testing.contracts import SharedCapContract


@pytest.mark.spec("5/7")
class TestSharedCap(SharedCapContract):
    """In memory and in Postgres."""
