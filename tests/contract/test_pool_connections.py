"""Connections between two callers: given back, drained, closed, and their statements kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from meetcore.adapters.postgres.pool import Pool, make_pool
from tests.support.api_harness import until

_BACKENDS = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name LIKE %s"
ROLE = "kept-connections-test"


@asynccontextmanager
async def pool_of(url: str, size: int) -> AsyncIterator[Pool]:
    pool = make_pool(url, min_size=1, max_size=size, role=ROLE)
    await pool.open(wait=True)
    try:
        yield pool
    finally:
        await pool.close()


async def backend(pool: Pool) -> int:
    """The server's process that answers a read."""
    return int((await pool.read("SELECT pg_backend_pid() AS pid", {}))[0]["pid"])


async def test_who_waits_in_the_pool_is_served_by_the_first_that_comes_back(database_url: str):
    async with pool_of(database_url, 1) as pool:
        async with pool.connection():
            waiting = asyncio.create_task(backend(pool))
            await until(lambda: pool.get_stats().get("requests_waiting"))
        async with asyncio.timeout(5):
            assert await waiting


async def test_a_connection_in_a_transaction_is_rolled_back(database_url: str):
    async with pool_of(database_url, 1) as pool:
        async with pool.connection() as connection:
            await connection.execute("BEGIN")
        assert await pool.read("SELECT 1 AS one", {}) == [{"one": 1}]


async def test_a_drained_pool_lends_no_connection_of_before(database_url: str):
    async with pool_of(database_url, 3) as pool:
        async with pool.connection() as lent, pool.connection() as kept:
            old = {connection.pgconn.backend_pid for connection in (lent, kept)}
            await pool.give_back(await pool.take(5))
            await pool.drain()
        found = {await backend(pool) for _ in range(4)}
        assert not found & old


async def test_a_closed_pool_leaves_no_connection_open(database_url: str):
    async with pool_of(database_url, 3) as pool:
        await asyncio.gather(*(backend(pool) for _ in range(6)))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:

        async def is_none_left() -> bool:
            return await (await connection.execute(_BACKENDS, (f"%{ROLE}%",))).fetchone() == (0,)

        await until(is_none_left)


async def test_a_caller_that_leaves_while_it_gives_back_takes_no_connection_along(database_url: str):
    async with pool_of(database_url, 2) as pool:
        taken = [await pool.take(5) for _ in range(2)]
        async with pool._lock:
            leaving = [asyncio.create_task(pool.give_back(connection)) for connection in taken]
            await asyncio.sleep(0)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
        assert {await pool.take(5), await pool.take(5)} == set(taken)
        for connection in taken:
            await pool.give_back(connection)


async def test_a_statement_keeps_its_cursor_and_nothing_of_its_rows_and_parameters(database_url: str):
    async with pool_of(database_url, 1) as pool, pool.connection() as connection:
        statement = "SELECT n, %(text)s::text AS text FROM generate_series(1, %(n)s::int) AS n"
        for count in (2, 1, 500, 0, 3):
            rows = await connection.fetch(statement, {"n": count, "text": "x" * 10_000})
            assert rows == [{"n": n, "text": "x" * 10_000} for n in range(1, count + 1)]
            [(cursor, *_)] = connection._statements.values()
            assert (cursor.pgresult, cursor._query, cursor._results) == (None, None, [])
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.fetch("SELECT 1 / %(n)s::int AS n", {"n": 0})
        assert await connection.fetch("SELECT 1 / %(n)s::int AS n", {"n": 1}) == [{"n": 1}]


async def test_rows_are_named_as_they_are_now(empty_database_url: str):
    async with pool_of(empty_database_url, 1) as pool, pool.connection() as connection:
        await connection.execute("CREATE TABLE growing (a int)")
        await connection.execute("INSERT INTO growing VALUES (1)")
        connection.prepare_threshold = None  # as behind a pooler; prepared, the server would refuse it
        assert await connection.fetch("SELECT * FROM growing", {}) == [{"a": 1}]
        await connection.execute("ALTER TABLE growing ADD COLUMN b int")
        assert await connection.fetch("SELECT * FROM growing", {}) == [{"a": 1, "b": None}]


async def test_the_sizes_of_tables_are_read_once_for_all_connections(store_pool: Pool) -> None:
    seen: list[object] = []
    for _ in range(2):
        async with store_pool.connection() as first, store_pool.connection() as second:
            seen += [first.compared_with, second.compared_with]
    assert all(each is store_pool.sizes.rows for each in seen)
    assert len(store_pool.sizes.rows) > 30
