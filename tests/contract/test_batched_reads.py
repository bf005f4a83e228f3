"""Reads that share a statement: what is wrong with one caller's row, and what ends before it begins."""

import asyncio

import pytest
from attrs import evolve
from psycopg.errors import DivisionByZero

from meetcore.adapters.postgres.batched_reads import BatchedRead
from meetcore.ports.store import StoreUnavailable
from tests.support.postgres_rig import PostgresRig


def _reads(rig: PostgresRig) -> BatchedRead:
    return BatchedRead(
        rig.pool,
        "SELECT 60 / %(divisor)s::int AS found",
        "SELECT q.number, 60 / q.divisor AS found"
        " FROM unnest(%(divisors)s::int[]) WITH ORDINALITY AS q (divisor, number)",
        lambda asked: {"divisors": [each["divisor"] for each in asked]},
    )


async def _ask(reads: BatchedRead, *divisors: int) -> list[asyncio.Task[object]]:
    """Ask for the first one, and for the others while its statement is under way."""
    first = asyncio.create_task(_find(reads, divisors[0]))
    while reads._latest is None:  # noqa: ASYNC110  (the reads have no event for it)
        await asyncio.sleep(0)
    return [first, *(asyncio.create_task(_find(reads, divisor)) for divisor in divisors[1:])]


async def _find(reads: BatchedRead, divisor: int) -> object:
    row = await reads.find({"divisor": divisor})
    return None if row is None else row["found"]


async def test_those_that_ask_in_one_turn_share_a_statement(rig: PostgresRig) -> None:
    reads = evolve(_reads(rig), alone="SELECT 0 AS found")
    assert await asyncio.gather(*(_find(reads, divisor) for divisor in (1, 2, 3))) == [60, 30, 20]
    assert await _find(reads, 1) == 0


async def test_a_fault_of_one_row_is_not_one_of_the_others(rig: PostgresRig) -> None:
    asked = await _ask(_reads(rig), 1, 2, 0, 3, 0)
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [found[0], found[1], found[3]] == [60, 30, 20]
    assert [type(found[2]), type(found[4])] == [DivisionByZero, DivisionByZero]
    assert found[2] is not found[4]


async def test_a_store_that_goes_away_is_asked_for_one_of_them_only(rig: PostgresRig) -> None:
    async with rig.owner.connection() as connection:
        await connection.execute("CREATE SEQUENCE IF NOT EXISTS tries")
        await connection.execute("GRANT USAGE ON SEQUENCE tries TO PUBLIC")
        await connection.execute("ALTER SEQUENCE tries RESTART")
    reads = evolve(
        _reads(rig),
        alone="SELECT nextval('tries') * %(divisor)s::int AS found, pg_terminate_backend(pg_backend_pid())",
    )
    found = await asyncio.gather(*await _ask(reads, 1, 0, 2, 3, 4), return_exceptions=True)
    assert {type(each) for each in found} == {StoreUnavailable}
    async with rig.owner.connection() as connection:
        [row] = await connection.fetch("SELECT last_value AS tries FROM tries", {})
    # The first caller, and the first of those together; each read is tried again on another connection.
    assert row["tries"] == 4


@pytest.mark.parametrize("divisors", [(1, 0), (1, 2, 3)])
async def test_nobody_waits_for_a_read_that_is_cancelled_before_it_begins(
    rig: PostgresRig, divisors: tuple[int, ...]
) -> None:
    reads = _reads(rig)
    asked = await _ask(reads, *divisors)
    async with asyncio.timeout(10):
        [alone] = reads._tasks
        while reads._tasks <= {alone}:  # noqa: ASYNC110  (the reads have no event for it)
            await asyncio.sleep(0)
        [together] = reads._tasks - {alone}
        together.cancel()  # it was made by the step before, and has not run
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert found[0] == 60
    assert {type(each) for each in found[1:]} == {asyncio.CancelledError}
    assert await _find(reads, 4) == 15
