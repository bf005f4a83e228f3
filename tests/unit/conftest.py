"""The store that use cases are tested on."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from tests.support.postgres_rig import PostgresRig, StoreClock, open_rig

START = datetime(2026, 12, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="session")
async def use_case_store(postgres_server_url: str) -> AsyncIterator[PostgresRig]:
    """One for each process of tests; a harness empties it when it starts."""
    async with open_rig(postgres_server_url) as rig:
        yield rig


@pytest.fixture
async def rig(use_case_store: PostgresRig) -> PostgresRig:
    """An empty store, for tests without a harness."""
    await use_case_store.reset()
    use_case_store.stop_time(StoreClock(START))
    return use_case_store
