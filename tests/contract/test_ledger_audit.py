"""Proving the ledger, in every store: what is right is proven, what was tampered with is named."""

import pytest

from meetcore.ports.audit import FlawKind
from meetcore.testing.contracts import LedgerAuditContract
from meetcore.testing.contracts.acts import (
    Wish,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    scheduled,
    start_cancelling,
    top_up,
)
from meetcore.usecases.verify_ledger import VerifyLedger
from tests.contract.rigs import PostgresRig


class TestLedgerAudit(LedgerAuditContract):
    """In memory and in Postgres."""


_HOUSE = "WHERE account_id = %(account_id)s AND number = 2 AND book <> 'customer'"
_LONE = """INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, at)
    VALUES (%(account_id)s, 3, 'topups', %(new_id)s, 5, now())"""


@pytest.mark.parametrize(
    ("theft", "number"),
    [
        (f"UPDATE ledger_entries SET amount = amount - 1 {_HOUSE}", 2),
        (f"UPDATE ledger_entries SET book = 'meetings' {_HOUSE}", 2),
        (f"UPDATE ledger_entries SET transfer_id = %(new_id)s {_HOUSE}", 2),
        (f"DELETE FROM ledger_entries {_HOUSE}", 2),
        (_LONE, 3),
    ],
)
async def test_a_leg_that_is_not_its_transfers_is_named(
    postgres_rig: PostgresRig, theft: str, number: int
) -> None:
    """Only this store keeps both legs."""
    rig = postgres_rig
    customer = await open_customer(rig, 50)
    await top_up(rig, customer, 5, "second")
    await rig.steal(theft, account_id=customer.account_id, new_id=new_id())
    audit = await VerifyLedger(rig.audit)()
    found = [each for each in audit.findings if each.account_id == customer.account_id]
    assert found
    assert {each.number for each in found} == {number}
    assert all(FlawKind.UNBALANCED in each.problem for each in found)
    await rig.steal(
        "DELETE FROM ledger_entries WHERE number = 3 AND account_id = %(account_id)s",
        account_id=customer.account_id,
    )


async def test_a_charge_that_was_returned_twice_is_named(postgres_rig: PostgresRig) -> None:
    """The unique index would refuse it: it must be gone first."""
    rig = postgres_rig
    await rig.plant(new_host())
    customer = await open_customer(rig, 50)
    for _ in range(2):
        meeting = await scheduled(rig, customer, Wish())
        await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
    [index] = await rig.rows(
        "SELECT pg_get_indexdef('ledger_transfers_reversed_once'::regclass) AS definition"
    )
    reverses = """UPDATE ledger_transfers SET reverses = (SELECT transfer_id FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = %(charge)s AND book = 'customer')
        WHERE account_id = %(account_id)s AND id = (SELECT transfer_id FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = 5 AND book = 'customer')"""
    await rig.rows("DROP INDEX ledger_transfers_reversed_once")
    try:
        await rig.steal(reverses, account_id=customer.account_id, charge=2)
        audit = await VerifyLedger(rig.audit)()
    finally:
        await rig.steal(reverses, account_id=customer.account_id, charge=4)
        await rig.rows(index["definition"])
    found = [each for each in audit.findings if each.account_id == customer.account_id]
    assert {each.number for each in found if FlawKind.RETURNED_BEFORE in each.problem} == {3, 5}
