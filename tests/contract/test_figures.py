"""The figures that an operator watches, and how far the verification of the ledger is, in every store."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg

from meetcore.adapters.postgres.figures import PostgresFigures
from meetcore.adapters.postgres.pool import make_pool
from meetcore.ports.figures import Figures
from meetcore.testing.contracts import FigureReaderContract, VerificationLogContract
from tests.support import servers


class TestFigures(FigureReaderContract):
    """In memory and in Postgres."""


class TestVerificationLog(VerificationLogContract):
    """In memory and in Postgres."""


async def read(url: str) -> Figures:
    pool = make_pool(url, max_size=1)
    await pool.open()
    try:
        return await PostgresFigures(pool).read()
    finally:
        await pool.close()


async def test_what_a_role_may_not_see_of_the_server_is_no_figure(postgres_server_url: str) -> None:
    servers.skip_without_roles(postgres_server_url)
    with servers.migrated_database(postgres_server_url) as url, servers.service_role(url) as service_url:
        found = await read(service_url)
        assert (found.oldest_transaction_s, found.replication_lag_s) == (None, None)
        with psycopg.connect(url) as connection:  # a transaction of another role, open to the end
            role = urlsplit(service_url).username
            with psycopg.connect(url, autocommit=True) as other:
                other.execute(f"GRANT pg_read_all_stats TO {role}".encode())
            connection.execute("SELECT 1")
            found = await read(service_url)
            assert found.oldest_transaction_s is not None
            assert found.oldest_transaction_s > 0
            assert found.replication_lag_s is not None
