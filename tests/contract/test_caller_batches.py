"""Callers that PostgreSQL reads together, while a lock holds their statements up."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from meetcore.adapters.postgres.batched_reads import BatchedRead
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.requests import callers
from meetcore.ports.queries import Caller, CallerIncludes
from meetcore.ports.store import StoreUnavailable
from tests.support.fakes import PlainCipher
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import AT, Customer, open_customer

CALLERS = 10
HOLD = 4711

_WAITING = """
SELECT count(*)::int AS waiting FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'
"""


@asynccontextmanager
async def accounts_locked(rig: PostgresRig) -> AsyncIterator[None]:
    """Hold up every statement that reads an account."""
    async with rig.owner.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        yield


async def until_waiting(rig: PostgresRig, statements: int) -> None:
    async with asyncio.timeout(20):
        while True:
            if (await rig.rows(_WAITING))[0]["waiting"] >= statements:
                return
            await asyncio.sleep(0.01)


def ask(queries: PostgresQueries, customers: Sequence[Customer]) -> list[asyncio.Task[Caller | None]]:
    return [asyncio.create_task(queries.find_caller(customer.digest)) for customer in customers]


async def connected(rig: PostgresRig) -> None:
    """Open connections and prepare the statements, so that nothing but the lock is waited for."""
    await asyncio.gather(*(rig.queries.find_caller(bytes(32)) for _ in range(CALLERS)))


async def test_callers_who_ask_meanwhile_share_one_statement(rig: PostgresRig):
    customers = [await open_customer(rig) for _ in range(CALLERS)]
    await connected(rig)
    async with accounts_locked(rig):
        asked = ask(rig.queries, customers[:1])
        await until_waiting(rig, 1)
        asked += ask(rig.queries, customers[1:])
        await until_waiting(rig, 2)  # the second leaves although the first has no end
        assert (await rig.rows(_WAITING))[0]["waiting"] == 2
    found = await asyncio.gather(*asked)
    assert [caller is not None and caller.key.id for caller in found] == [each.key_id for each in customers]


async def test_a_key_revoked_while_a_statement_is_under_way_is_seen_by_those_who_ask_then(
    rig: PostgresRig,
):
    """Each statement is held up once it has its snapshot: a table's lock would be waited for before."""
    rig, queries = rig, PostgresQueries(rig.pool, PlainCipher())
    held = f" AND pg_advisory_xact_lock_shared({HOLD}) IS NOT NULL"
    queries._callers = BatchedRead(
        rig.pool, callers.SQL["find_caller"] + held, callers.SQL["find_callers"] + held, callers._digests
    )
    customers = [await open_customer(rig) for _ in range(CALLERS)]
    await connected(rig)
    async with rig.owner.connection() as connection, connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({HOLD})")
        before = ask(queries, customers[:1])
        await until_waiting(rig, 1)
        for customer in customers:
            await rig.alone.registry.revoke_key(customer.key_id, AT)
        after = ask(queries, customers)
        await until_waiting(rig, 2)
    [found] = await asyncio.gather(*before)
    assert found is not None
    assert found.key.revoked_at is None, "its statement was under way when the key was revoked"
    assert all(caller is not None and caller.key.revoked_at == AT for caller in await asyncio.gather(*after))


async def test_those_who_leave_take_nobody_with_them(rig: PostgresRig):
    """Neither the one whose statement is under way, nor one of those who wait for it."""
    customers = [await open_customer(rig) for _ in range(CALLERS)]
    await connected(rig)
    async with accounts_locked(rig):
        asked = ask(rig.queries, customers[:1])
        await until_waiting(rig, 1)
        asked += ask(rig.queries, customers[1:])
        left = [asked.pop(5), asked.pop(0)]
        for leaving in left:
            leaving.cancel()
        ended = await asyncio.gather(*left, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    found: list[Any] = await asyncio.gather(*asked)
    expected = [each.key_id for place, each in enumerate(customers) if place not in (0, 5)]
    assert [caller.key.id for caller in found] == expected


@pytest.mark.parametrize(
    "includes", [CallerIncludes(), CallerIncludes(usage_on=AT.date())], ids=["key", "usage"]
)
async def test_a_statement_that_fails_gives_each_caller_an_error_of_its_own(
    rig: PostgresRig, service_database: str, includes: CallerIncludes
):
    customers = [await open_customer(rig) for _ in range(CALLERS)]
    separator = "&" if "?" in service_database else "?"
    pool = make_pool(
        f"{service_database}{separator}options=-c%20lock_timeout%3D60", max_size=4, timeout_s=20.0
    )
    async with pool:
        queries = PostgresQueries(pool, PlainCipher())
        async with accounts_locked(rig):
            asked = (queries.find_caller(customer.digest, includes) for customer in customers)
            faults = await asyncio.gather(*asked, return_exceptions=True)
        assert all(type(fault) is StoreUnavailable and fault.__cause__ is not None for fault in faults)
        assert len({id(fault) for fault in faults}) == CALLERS
        assert await queries.find_caller(customers[0].digest, includes) is not None
