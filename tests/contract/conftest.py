"""The stores that the suites run against, a database for each file of tests.

Suites empty tables, and an audit of the ledger reads every account: no file may find what another one left.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.testing.contracts.store_rig import FullRig
from meetcore.testing.memory_rig import MemoryRig
from tests.support import servers
from tests.support.postgres_rig import PostgresRig

# Said for the type checker: both fill the protocol that the suites ask of a rig.
RIGS: tuple[type[FullRig], ...] = (MemoryRig, PostgresRig)


@pytest.fixture(scope="module")
def store_database(postgres_server_url: str) -> Iterator[str]:
    """A migrated database of the store suites alone."""
    with servers.migrated_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="module")
async def store_pool(store_database: str) -> AsyncIterator[Pool]:
    """Connections of the owner, for reads behind the ports and for tampering."""
    pool = make_pool(store_database, min_size=1, max_size=4, timeout_s=20.0, idle_s=2.0, passes_fence=True)
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
    """Connections of the service's role enough for a real race."""
    pool = make_pool(service_database, min_size=1, max_size=12, timeout_s=20.0, idle_s=2.0)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.fixture
async def postgres_rig(service_pool: Pool, store_pool: Pool) -> PostgresRig:
    rig = PostgresRig(service_pool, PlainCipher(), owner=store_pool)
    await rig.reset()
    return rig


@pytest.fixture
def memory_rig() -> MemoryRig:
    return MemoryRig()


@pytest.fixture(params=["memory", "postgres"])
def rig(request: pytest.FixtureRequest) -> FullRig:
    """Every store there is."""
    found: FullRig = request.getfixturevalue(f"{request.param}_rig")
    return found
