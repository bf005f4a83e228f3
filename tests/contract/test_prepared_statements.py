"""Statements with named parameters, prepared and batched."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import waiting as waiting_states
from psycopg.pq import Format

from meetcore.adapters.postgres.connection import Connection
from meetcore.adapters.postgres.pool import Pool
from tests.support.api_harness import until


async def test_a_name_stands_for_its_value_wherever_it_is(store_pool: Pool) -> None:
    statement = "SELECT %(b)s::text || %(a)s || %(b)s AS joined, 7 %% 4 AS rest, 'x' LIKE '%%' AS is_any"
    async with store_pool.connection() as connection:
        cursor = await connection.execute(statement, {"a": "%(b)s", "b": "$1 %%"})
        row = await cursor.fetchone()
    assert row == {"joined": "$1 %%%(b)s$1 %%", "rest": 3, "is_any": True}


async def test_parameters_that_a_statement_does_not_name_are_ignored(store_pool: Pool) -> None:
    async with store_pool.connection() as connection:
        cursor = await connection.execute("SELECT %(a)s::int AS a", {"a": 1, "other": object()})
        assert await cursor.fetchone() == {"a": 1}


async def test_a_parameter_that_is_missing_is_named(store_pool: Pool) -> None:
    async with store_pool.connection() as connection:
        with pytest.raises(KeyError, match="absent"):
            await connection.execute("SELECT %(absent)s::int", {"present": 1})


async def test_a_statement_without_parameters_is_sent_as_it_is(store_pool: Pool) -> None:
    async with store_pool.connection() as connection:
        assert await (await connection.execute("SELECT 7 % 4 AS rest")).fetchone() == {"rest": 3}


async def test_a_statement_may_be_longer_than_what_the_driver_keeps(store_pool: Pool) -> None:
    names = [f"value_{number}" for number in range(120)]
    listed = ", ".join(f"%({name})s::integer AS {name}" for name in names)
    values = {name: number for number, name in enumerate(names)}
    async with store_pool.connection() as connection:
        for _ in range(2):
            assert await (await connection.execute(f"SELECT {listed}", values)).fetchone() == values


TYPED = """
SELECT %(id)s::uuid AS id, %(name)s::text AS name, %(at)s::timestamptz AS at, %(count)s::bigint AS count,
    %(raw)s::bytea AS raw, %(is_so)s::boolean AS is_so, %(ids)s::uuid[] AS ids
"""
VALUES: dict[str, object] = {
    "id": UUID(int=7), "name": "Ünïcode", "at": datetime(2026, 3, 1, tzinfo=UTC), "count": 2**40,
    "raw": b"\x00\xff", "is_so": False, "ids": [UUID(int=1), UUID(int=2)],
}  # fmt: skip
TIMES = 3


async def prepared(connection: Connection) -> list[str]:
    cursor = await connection.execute("SELECT statement FROM pg_prepared_statements", prepare=False)
    return [row["statement"] for row in await cursor.fetchall()]


async def test_each_time_brings_the_same_values(store_pool: Pool) -> None:
    async with store_pool.connection() as connection:
        for _ in range(TIMES):
            assert await connection.fetch(TYPED, VALUES) == [VALUES]
        assert sum("AS is_so" in statement for statement in await prepared(connection)) == 1


async def test_values_may_be_of_other_types_each_time(store_pool: Pool) -> None:
    absent: dict[str, object] = dict.fromkeys(VALUES)
    async with store_pool.connection() as connection:
        for _ in range(TIMES):
            assert await connection.fetch(TYPED, VALUES) == [VALUES]
            assert await connection.fetch(TYPED, absent) == [absent]


EACH_TYPE = """
SELECT true AS bool, decode('00ff', 'hex') AS bytea, date '2026-03-01' AS date, 1.5::float8 AS float8,
    7::int2 AS int2, -7::int4 AS int4, 2::int8 AS int8, 'Ü'::text AS text,
    timestamptz '2026-03-01 07:00+07' AS at, ARRAY['a', NULL, 'ö']::text[] AS texts, ARRAY[]::uuid[] AS uuids,
    ARRAY[timestamptz '2026-03-01 00:00Z'] AS times
"""
AS_TEXT = """, 1.50::numeric AS numeric, '{"a": [1]}'::jsonb AS jsonb, interval '90 s' AS lasts"""


@pytest.mark.parametrize(
    ("more", "read_as"), [("", Format.BINARY), (AS_TEXT, Format.TEXT)], ids=["binary", "text"]
)
async def test_each_format_brings_values_of_the_driver(store_pool: Pool, more: str, read_as: Format) -> None:
    statement = EACH_TYPE + more
    async with store_pool.connection() as connection:
        expected = await (await connection.execute(statement)).fetchall()
        for _ in range(TIMES):
            found = await connection.fetch(statement, {})
            assert found == expected
            assert [type(value) for value in found[0].values()] == [type(x) for x in expected[0].values()]
            assert found[0]["at"].tzinfo == expected[0]["at"].tzinfo
        *_, known = connection._statements.values()
    assert known.result_format is read_as


@pytest.mark.parametrize("threshold", [0, None], ids=["prepares", "behind a pooler"])
async def test_only_the_first_time_goes_through_a_cursor_where_statements_are_prepared(
    store_pool: Pool, monkeypatch: pytest.MonkeyPatch, threshold: int | None
) -> None:
    executions: list[object] = []  # of each, its connection: the pool opens others meanwhile
    executed = psycopg.AsyncRawCursor.execute

    async def counted(cursor: psycopg.AsyncRawCursor, *args: Any, **kwargs: Any) -> object:
        executions.append(cursor.connection)
        return await executed(cursor, *args, **kwargs)

    monkeypatch.setattr(psycopg.AsyncRawCursor, "execute", counted)
    async with store_pool.connection() as connection:
        connection.prepare_threshold = threshold
        for _ in range(TIMES):
            assert await connection.fetch("SELECT %(n)s::int AS n", {"n": 7}) == [{"n": 7}]
        connection.prepare_threshold = 0
    assert executions.count(connection) == (TIMES if threshold is None else 1)


async def test_two_callers_of_one_connection_wait_for_each_other(store_pool: Pool) -> None:
    asked = "SELECT pg_sleep(0.01)::text AS slept, %(n)s::int AS n"
    async with store_pool.connection() as connection:
        await connection.fetch(asked, {"n": 0})
        both = await asyncio.gather(*(connection.fetch(asked, {"n": n}) for n in range(TIMES)))
    assert [row["n"] for [row] in both] == list(range(TIMES))


@pytest.mark.parametrize("has_come", [False, True], ids=["no answer yet", "an answer not yet read"])
async def test_what_waits_on_a_connection_that_is_closed_fails_at_once(
    store_pool: Pool, has_come: bool
) -> None:
    async with store_pool.connection() as connection:
        waiting = asyncio.create_task(connection.fetch("SELECT pg_sleep(60)::text AS slept", {}))

        async def is_asked() -> bool:
            return bool(connection.pgconn.is_busy())

        await until(is_asked)
        if has_come:
            assert connection._ready is not None
            connection._ready.set_result(waiting_states.READY_R)
        await connection.close()
        with pytest.raises(psycopg.OperationalError):
            await waiting


@pytest.mark.parametrize("rows", [0, 1, 5_000])
async def test_there_may_be_no_row_and_many(store_pool: Pool, rows: int) -> None:
    async with store_pool.connection() as connection:
        for _ in range(TIMES):
            found = await connection.fetch(
                "SELECT n FROM generate_series(1, %(rows)s::int) AS n", {"rows": rows}
            )
            assert [row["n"] for row in found] == list(range(1, rows + 1))


async def test_a_parameter_may_be_larger_than_a_socket_takes_at_once(store_pool: Pool) -> None:
    large = "x" * 30_000_000
    async with store_pool.connection(deadline_s=60.0) as connection:
        for _ in range(TIMES):
            assert await connection.fetch("SELECT length(%(a)s::text) AS n", {"a": large}) == [
                {"n": len(large)}
            ]


async def test_what_fails_raises_the_drivers_error_and_leaves_the_connection_usable(store_pool: Pool) -> None:
    async with store_pool.connection() as connection:
        for divisor in (1, 0, 1, 0, 2):
            asked = connection.fetch("SELECT 4 / %(by)s::int AS n", {"by": divisor})
            if divisor:
                assert await asked == [{"n": 4 // divisor}]
            else:
                with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
                    await asked


async def test_rollback_after_which_driver_discards_what_it_prepared_is_survived(
    store_pool: Pool,
) -> None:
    async def fail(connection: Connection) -> None:
        async with connection.transaction():
            assert await connection.fetch(TYPED, VALUES) == [VALUES]
            await connection.fetch("SELECT 1 / %(by)s::int AS n", {"by": 0})

    async with store_pool.connection() as connection:
        for _ in range(TIMES):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await fail(connection)
            assert await connection.fetch(TYPED, VALUES) == [VALUES]


async def test_what_is_read_in_a_transaction_sees_its_changes(store_pool: Pool) -> None:
    async with store_pool.connection() as connection, connection.transaction(force_rollback=True):
        await connection.execute("CREATE TEMPORARY TABLE counted (n int) ON COMMIT DROP")
        for number in range(TIMES):
            await connection.execute("INSERT INTO counted VALUES (%(n)s::int)", {"n": number})
            assert await connection.fetch("SELECT count(*) AS n FROM counted", {}) == [{"n": number + 1}]


async def test_a_cancelled_statement_drops_its_connection(store_pool: Pool) -> None:
    async with store_pool.connection() as connection:
        for _ in range(TIMES):
            await connection.fetch("SELECT pg_sleep(%(s)s::float8)::text AS slept", {"s": 0})
        waiting = asyncio.create_task(
            connection.fetch("SELECT pg_sleep(%(s)s::float8)::text AS slept", {"s": 60})
        )

        async def is_asked() -> bool:
            return bool(connection.pgconn.is_busy())

        await until(is_asked)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert connection.closed
    async with store_pool.connection() as connection:
        assert await connection.fetch("SELECT 1 AS n", {}) == [{"n": 1}]
