"""Verifying the ledger in every store: a sound ledger passes, what was tampered with is named."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing import active_children
from typing import Any

import pytest

from meetcore.adapters.postgres.ledger import audit as postgres_audit
from meetcore.composition.verification import verifiers_of
from meetcore.ports.audit import FlawKind, LedgerSnapshot
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.contracts import LedgerAuditContract
from meetcore.testing.contracts.store_rig import Tampering
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    scheduled,
    start_cancelling,
    top_up,
)
from meetcore.usecases.verify_ledger import PortionVerifier, Proven, VerifierLost, VerifyLedger
from tests.support.postgres_rig import PostgresRig


class TestLedgerAudit(LedgerAuditContract):
    """In memory and in Postgres."""


_OTHER_LEG = "WHERE account_id = %(account_id)s AND number = 2 AND book <> 'customer'"
_LONE = """INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, at)
    VALUES (%(account_id)s, 3, 'topups', %(new_id)s, 5, now())"""


@pytest.mark.parametrize(
    ("tampering", "number"),
    [
        (f"UPDATE ledger_entries SET amount = amount - 1 {_OTHER_LEG}", 2),
        (f"UPDATE ledger_entries SET book = 'meetings' {_OTHER_LEG}", 2),
        (f"UPDATE ledger_entries SET transfer_id = %(new_id)s {_OTHER_LEG}", 2),
        (f"DELETE FROM ledger_entries {_OTHER_LEG}", 2),
        (_LONE, 3),
    ],
)
async def test_a_leg_that_is_not_its_transfers_is_named(
    postgres_rig: PostgresRig, tampering: str, number: int
) -> None:
    """Only this store keeps both legs."""
    rig = postgres_rig
    customer = await open_customer(rig, 50)
    await top_up(rig, customer, 5, "second")
    await rig.tamper_with(tampering, account_id=customer.account_id, new_id=new_id())
    audit = await VerifyLedger(rig.audit)()
    found = [each for each in audit.findings if each.account_id == customer.account_id]
    assert found
    assert {each.number for each in found} == {number}
    assert all(FlawKind.UNBALANCED in each.problem for each in found)
    await rig.tamper_with(
        "DELETE FROM ledger_entries WHERE number = 3 AND account_id = %(account_id)s",
        account_id=customer.account_id,
    )


async def test_a_charge_that_was_returned_twice_is_named(postgres_rig: PostgresRig) -> None:
    """The unique index would refuse it: it must be gone first."""
    rig = postgres_rig
    await rig.put_hosts(new_host())
    customer = await open_customer(rig, 50)
    for _ in range(2):
        meeting = await scheduled(rig, customer, MeetingSpec())
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
        await rig.tamper_with(reverses, account_id=customer.account_id, charge=2)
        audit = await VerifyLedger(rig.audit)()
    finally:
        await rig.tamper_with(reverses, account_id=customer.account_id, charge=4)
        await rig.rows(index["definition"])
    found = [each for each in audit.findings if each.account_id == customer.account_id]
    assert {each.number for each in found if FlawKind.RETURNED_BEFORE in each.problem} == {3, 5}


async def test_several_processes_find_what_one_finds(
    postgres_rig: PostgresRig, service_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A portion for each account, so that there is something to share out."""
    monkeypatch.setattr(postgres_audit, "ENTRIES_OF_A_PORTION", 1)
    rig = postgres_rig
    customers = [await open_customer(rig, 50) for _ in range(4)]
    for customer in customers:
        await top_up(rig, customer, 5, "second")
    for customer in (customers[3], customers[1]):
        await rig.tamper(customer.account_id, 2, Tampering.BALANCE_AFTER)
    progress: list[tuple[int, int]] = []
    alone = await VerifyLedger(rig.audit)()
    audit = await VerifyLedger(rig.audit)(
        lambda done, total: progress.append((done, total)), verifiers_of(service_database, 2, worth=1)
    )
    assert audit == alone
    findings = [
        finding for finding in audit.findings if finding.account_id in {c.account_id for c in customers}
    ]
    assert [(each.account_id, each.number) for each in findings] == [
        (account_id, 2) for account_id in sorted([customers[1].account_id, customers[3].account_id])
    ]
    assert progress[-1] == (audit.entries, audit.entries)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    for customer in (customers[3], customers[1]):
        await rig.tamper_with(
            "UPDATE ledger_entries SET balance_after = balance_after - 1"
            " WHERE account_id = %(id)s AND number = 2 AND book = 'customer'",
            id=customer.account_id,
        )


async def test_a_process_that_dies_is_reported_and_leaves_no_wrong_verdict(
    postgres_rig: PostgresRig, service_database: str
) -> None:
    await open_customer(postgres_rig, 50)
    await open_customer(postgres_rig, 50)
    bring = verifiers_of(service_database, 2, worth=1)

    async def prove_in_killed(
        prove: PortionVerifier, portion: Any, on_entries: Callable[[int], None]
    ) -> Proven:
        proving = asyncio.ensure_future(prove(portion, on_entries))
        while not (processes := active_children()):  # noqa: ASYNC110  (a process has no event for its start)
            await asyncio.sleep(0.01)
        for process in processes:
            process.kill()
        return await proving

    @asynccontextmanager
    async def failing(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        async with bring(snapshot, entries) as verifiers:
            yield [partial(prove_in_killed, prove) for prove in verifiers]

    with pytest.raises(VerifierLost, match="ended: prove again"):
        await VerifyLedger(postgres_rig.audit)(verifiers=failing)
    assert active_children() == []


async def test_a_process_whose_snapshot_is_over_reports_it(
    postgres_rig: PostgresRig, service_database: str
) -> None:
    await open_customer(postgres_rig, 50)
    async with postgres_rig.audit.snapshot() as snapshot:
        portion = await anext(aiter(snapshot.accounts()))
    async with verifiers_of(service_database, 2, worth=1)(snapshot, 2) as verifiers:
        with pytest.raises(StoreUnavailable, match="is over"):
            await verifiers[0](portion, lambda _: None)


async def test_a_process_stays_in_the_snapshot_for_every_portion(
    postgres_rig: PostgresRig, service_database: str
) -> None:
    """What is posted meanwhile belongs to no portion, not to a later one either."""
    customer = await open_customer(postgres_rig, 50)
    async with postgres_rig.audit.snapshot() as snapshot:
        portions = [portion async for portion in snapshot.accounts()]
        async with verifiers_of(service_database, 2, worth=1)(snapshot, 2) as (prove, *_):
            before = [await prove(portion, lambda _: None) for portion in portions]
            await top_up(postgres_rig, customer, 5, "INV-LATER")
            assert [await prove(portion, lambda _: None) for portion in portions] == before
