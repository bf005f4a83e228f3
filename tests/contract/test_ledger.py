"""Money in PostgreSQL: what the schema refuses, and how an operation is found."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from attrs import evolve

from meetcore.adapters.postgres.money import postings as statements
from meetcore.domain.money import ledger
from meetcore.domain.money.ledger import Reference
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import AT, append_one, funds_of, new_id, open_customer, top_up


@pytest.mark.parametrize("statement", ["UPDATE {} SET amount = 1", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["ledger_transfers", "ledger_entries"])
async def test_postgres_refuses_to_change_the_ledger(rig: PostgresRig, statement: str, table: str):
    customer = await open_customer(rig, 100)
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        await rig.rows(statement.format(table))
    assert len(await rig.entries(customer.account_id)) == 1


@pytest.mark.parametrize("amount", [0, -5, 10**15 + 1])
async def test_postgres_refuses_amounts_that_are_none(rig: PostgresRig, amount: int):
    customer = await open_customer(rig)
    funds = await funds_of(rig, customer)
    posting = ledger.adjust(funds, new_id(), "x", 5, Reference("ticket", "x"), AT)
    assert posting.entry is not None
    transfer = evolve(posting.entry.transfer, amount=amount)
    wrong = evolve(posting, entry=evolve(posting.entry, amount=amount, transfer=transfer))
    with pytest.raises(psycopg.IntegrityError):
        async with rig.store.begin() as tx:
            await append_one(tx, funds, wrong)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


async def test_a_repeated_operation_is_found_without_reading_the_history(rig: PostgresRig):
    """With so few rows the planner may scan them all: it is set not to, as it will not with many."""
    customer = await open_customer(rig)
    for number in range(200):
        await top_up(rig, customer, 5, f"INV-{number}")
    operation = (await rig.entries(customer.account_id))[100].transfer.operation
    await rig.rows("ANALYZE ledger_entries, ledger_transfers")
    async with rig.pool.connection() as connection, connection.transaction():
        await connection.execute("SET LOCAL enable_seqscan = off")
        cursor = await connection.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statements.SQL['load_posting']}",
            {"account_id": customer.account_id, "operations": [operation]},
        )
        [plan] = [row["QUERY PLAN"] for row in await cursor.fetchall()]
    [looked_up] = [node for node in _nodes(plan[0]["Plan"]) if node.get("Alias") == "e"]
    assert looked_up["Index Name"] == "ledger_entries_by_transfer"
    assert (looked_up["Actual Rows"], looked_up.get("Rows Removed by Filter", 0)) == (1, 0)
