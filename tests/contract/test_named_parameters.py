"""A statement gets its parameters by name, however long it is and however many it has."""

from __future__ import annotations

import pytest

from meetcore.adapters.postgres.pool import Pool


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
