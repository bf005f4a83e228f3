"""Every test here may use the store."""

import pytest

from tests.support.postgres_rig import PostgresRig
from tests.unit.usecases.conftest import harness as harness


@pytest.fixture(autouse=True)
def _opened(use_case_store: PostgresRig) -> None:
    """Open it."""
