"""Money in every store: appended once, in order, never lost and never changed."""

import psycopg
import pytest
from attrs import evolve

from meetcore.domain import ledger
from meetcore.domain.ledger import Reference
from meetcore.testing.contracts import LedgerRepositoryContract
from meetcore.testing.contracts.acts import (
    AT,
    adjust,
    new_id,
    open_customer,
)
from meetcore.testing.contracts.reads import funds_of
from tests.contract.rigs import PostgresRig


@pytest.mark.spec("1/credits")
class TestLedgerRepository(LedgerRepositoryContract):
    """In memory and in Postgres."""


@pytest.mark.parametrize("statement", ["UPDATE {} SET amount = 1", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["ledger_transfers", "ledger_entries"])
async def test_postgres_refuses_to_change_the_ledger(postgres_rig: PostgresRig, statement: str, table: str):
    customer = await open_customer(postgres_rig, 100)
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        await postgres_rig.rows(statement.format(table))
    assert len(await postgres_rig.entries(customer.account_id)) == 1


@pytest.mark.parametrize("amount", [0, -5, 10**15 + 1])
async def test_postgres_refuses_amounts_that_are_none(postgres_rig: PostgresRig, amount: int):
    customer = await open_customer(postgres_rig)
    funds = await funds_of(postgres_rig, customer)
    entry = ledger.adjust(funds, new_id(), "x", 5, Reference("ticket", "x"), AT).entry
    assert entry is not None
    wrong = evolve(entry, amount=amount, transfer=evolve(entry.transfer, amount=amount))
    with pytest.raises(psycopg.IntegrityError):
        async with postgres_rig.store.begin() as tx:
            await tx.ledger.append(funds, wrong, [])


async def test_the_legs_of_all_transfers_sum_to_zero(postgres_rig: PostgresRig):
    customer = await open_customer(postgres_rig, 100)
    await adjust(postgres_rig, customer, -30, "take")
    found = await postgres_rig.rows(
        """SELECT account_id, transfer_id FROM ledger_entries GROUP BY 1, 2
        HAVING sum(amount) <> 0 OR count(*) <> 2"""
    )
    assert found == []
