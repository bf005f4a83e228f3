"""The store that the tests run against, a database for each file of tests."""

from collections.abc import AsyncIterator, Iterator

import pytest

from meetcore.adapters.postgres.pool import Pool, make_pool
from tests.support import servers
from tests.support.fakes import PlainCipher
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import Customer, open_customer


@pytest.fixture(scope="module")
def store_database(postgres_server_url: str) -> Iterator[str]:
    """A migrated database of one file of tests."""
    with servers.migrated_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="module")
async def store_pool(store_database: str) -> AsyncIterator[Pool]:
    """Connections of the owner, for reads behind the ports and for tampering."""
    pool = make_pool(store_database, min_size=1, max_size=4, timeout_s=60.0, idle_s=2.0, deadline_s=60)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.fixture(scope="module")
def service_database(store_database: str) -> Iterator[str]:
    """The same database for the service's own role, as it is run in production."""
    with servers.service_role(store_database) as url:
        yield url


@pytest.fixture(scope="module")
async def service_pool(service_database: str) -> AsyncIterator[Pool]:
    """Connections of the service's role, enough for a real race."""
    pool = make_pool(service_database, min_size=1, max_size=12, timeout_s=60.0, idle_s=2.0, deadline_s=60)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.fixture
async def rig(service_pool: Pool, store_pool: Pool) -> AsyncIterator[PostgresRig]:
    """An empty store."""
    rig = PostgresRig(service_pool, PlainCipher(), owner=store_pool)
    await rig.reset()
    yield rig
    rig.close()


@pytest.fixture
async def customer(rig: PostgresRig) -> Customer:
    """An account without credits, and a key for everything."""
    return await open_customer(rig)
