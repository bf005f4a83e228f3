"""Postings in every store, and those of two processes on one account."""

import asyncio
from typing import Any

import pytest

from meetcore.adapters.memory.worker_notifier import MemoryWorkerNotifier
from meetcore.adapters.postgres.ledger import post as statements
from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.testing.contracts import PostingRepositoryContract
from meetcore.testing.contracts.ledger import prove_history
from meetcore.testing.contracts.posting_repository import append, postings_on
from meetcore.testing.contracts.reads import funds_of
from meetcore.testing.contracts.store_rig import FullRig
from meetcore.testing.contracts.transactions import RUNTIME, Customer, open_customer
from meetcore.usecases.administration import Administration
from tests.support.postgres_rig import PostgresRig


@pytest.mark.spec("1/credits")
class TestPostingRepository(PostingRepositoryContract):
    """In memory and in Postgres."""


def _process(rig: FullRig) -> Administration:
    return Administration(rig.store, rig.registry, MemoryWorkerNotifier(), RUNTIME, "mk")


async def test_two_processes_post_to_one_account_each_reference_once(rig: FullRig):
    customer, others = await open_customer(rig, 60), [await open_customer(rig, 500) for _ in range(3)]
    one, other = _process(rig), _process(rig)
    moves = [
        process.adjust(customer.account_id, -7 if number % 3 else 4, "race", f"r-{number % 40}")
        for number in range(60)
        for process in (one, other)
    ]
    moves += [
        process.adjust(each.account_id, -1, "race", f"r-{number}")
        for each in others
        for number in range(20)
        for process in (one, other)
    ]
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert {type(each) for each in refused} <= {InsufficientCredits, Conflict}
    funds = await funds_of(rig, customer)
    await prove_history(rig, customer.account_id, funds)
    entries = await rig.entries(customer.account_id)
    assert len({each.transfer.operation for each in entries}) == len(entries)
    new = [each.entry for each in outcomes if not isinstance(each, BaseException) and each.is_new]
    assert sorted((e.account_id, e.number) for e in new if e.account_id == customer.account_id) == [
        (e.account_id, e.number) for e in entries[1:]
    ]
    for each in others:
        await prove_history(rig, each.account_id, await funds_of(rig, each))
        assert (await funds_of(rig, each)).balance == 480


async def test_an_account_that_is_locked_is_left_alone_and_not_waited_for(postgres_rig: PostgresRig):
    rig = postgres_rig
    locked, free = await open_customer(rig, 100), await open_customer(rig, 100)
    made = [postings_on(await funds_of(rig, each), -30) for each in (locked, free)]
    async with rig.store.begin() as tx:
        await tx.lock_account(locked.account_id)
        assert await append(rig, *made) == {free.account_id: 0}


def _nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


async def test_accounts_operations_and_endpoints_are_found_by_their_keys(postgres_rig: PostgresRig):
    """With tables as small as these the plan could as well read an index from end to end."""
    rig = postgres_rig
    customers: list[Customer] = [await open_customer(rig, 100) for _ in range(3)]
    made = [postings_on(await funds_of(rig, each), -30, -1) for each in customers]
    async with rig.store.at_once() as tx:
        parameters = tx.postings.parameters(made)
    async with rig.pool.connection() as connection:
        cursor = await connection.execute(
            f"EXPLAIN (FORMAT JSON) {statements._APPEND_IF_UNCHANGED}", parameters
        )
        [plan] = [row["QUERY PLAN"] for row in await cursor.fetchall()]
    read = [
        each for each in _nodes(plan[0]["Plan"]) if "Relation Name" in each and "Scan" in each["Node Type"]
    ]
    assert {each["Relation Name"] for each in read} == {"accounts", "ledger_transfers", "webhook_endpoints"}
    assert not any(each["Node Type"] == "Seq Scan" for each in read)
    keyed = [each for each in _nodes(plan[0]["Plan"]) if each.get("Index Name")]
    assert all("Index Cond" in each for each in keyed)
