"""What is asked often, in every store: cheap reads of what was committed."""

import socket

import pytest

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.ports.store import StoreAway
from meetcore.testing.contracts import QueriesContract


class TestQueries(QueriesContract):
    """In memory and in Postgres."""


async def test_a_database_that_is_gone_is_away():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        closed_port = holder.getsockname()[1]
    nowhere = f"postgresql://nobody@127.0.0.1:{closed_port}/none"
    pool = make_pool(nowhere, min_size=0, max_size=1, timeout_s=0.2)
    await pool.open()
    try:
        with pytest.raises(StoreAway):
            await PostgresQueries(pool, PlainCipher()).ping()
        with pytest.raises(StoreAway):
            async with PostgresStore(pool, PlainCipher()).begin():
                raise AssertionError("there is no transaction")
    finally:
        await pool.close()
