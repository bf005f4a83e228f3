"""Verification of the ledger on PostgreSQL: the faults it names, its processes and the log of its runs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from multiprocessing import active_children
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.postgres.money import verification as postgres_verification
from meetcore.composition.verification import verifiers_of
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.views import FlawKind, VerificationRun
from meetcore.ports.money import LedgerSnapshot
from meetcore.ports.runtime import Lease
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.money.verify_ledger import Audit, PortionVerifier, VerifierLost, VerifyLedger
from tests.support.postgres_rig import PostgresRig, Tampering
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    reserved,
    rolled,
    scheduled,
    start_cancelling,
    top_up,
)

KEY, LATER = (ChainKey.of(bytes([number]) * 32) for number in range(1, 3))
USAGE: tuple[int | None, str] = (None, FlawKind.USAGE)
TRUNCATED: list[tuple[int | None, str]] = [
    (None, "the stored number of entries is 4, and its entries make 3"),
    (None, "the stored last hash is "),
]


async def _findings(rig: PostgresRig, customer: Customer, *keys: ChainKey) -> list[tuple[int | None, str]]:
    """What is found of a customer's entries under these keys."""
    audit = await VerifyLedger(rig.audit, keys)()
    await _check_spans(rig, customer.account_id)
    findings = [each for each in audit.findings if each.account_id == customer.account_id]
    return [(each.number, each.problem) for each in findings]


async def _check_spans(rig: PostgresRig, account_id: UUID) -> None:
    """Check that the flaws of spans of accounts are those of the whole."""
    before = UUID(int=account_id.int - 1)
    async with rig.audit.snapshot() as snapshot:
        spans = [(None, before), (before, account_id), (account_id, None)]
        parts = [await snapshot.flaws_of_span(after, last) for after, last in spans]
        whole = await snapshot.flaws()
    assert {each.account_id for each in parts[1]} <= {account_id}
    assert Counter(each for part in parts for each in part) == Counter(whole)


async def test_the_usage_of_a_cap_is_the_sum_of_the_keys_that_share_it(rig: PostgresRig) -> None:
    first = await open_customer(rig, 100, new_host(max_concurrent=9), cap=60)
    second = await rolled(rig, first)
    for key in (first, second):
        await scheduled(rig, key, MeetingSpec())
        await reserved(rig, key, MeetingSpec(credits=5))
    assert await _findings(rig, first) == []
    await rig.tamper(first.account_id, 1, Tampering.USAGE)
    ((_, problem),) = await _findings(rig, first)
    assert problem.startswith(f"the usage of key {first.key_id} on ")


async def test_a_snapshot_is_of_the_moment_it_was_opened_for_those_who_join_it_too(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)

    async def found(snapshot: LedgerSnapshot) -> list[tuple[int, int]]:
        stored = [one.funds async for portion in snapshot.accounts() for one in portion]
        return [(one.entries, one.balance) for one in stored if one.account_id == customer.account_id]

    async with rig.audit.snapshot() as snapshot:
        await top_up(rig, customer, 5, "later")
        assert await found(snapshot) == [(1, 100)]
        async with rig.audit.joined(snapshot.name) as joined:
            assert await found(joined) == [(1, 100)]
    async with rig.audit.snapshot() as snapshot:
        assert await found(snapshot) == [(2, 105)]


async def test_accounts_are_read_from_an_id_on(rig: PostgresRig) -> None:
    first, second = await open_customer(rig), await open_customer(rig)
    async with rig.audit.snapshot() as snapshot:
        found = [one.funds.account_id async for each in snapshot.accounts() for one in each]
        after = [one.funds.account_id async for each in snapshot.accounts(first.account_id) for one in each]
    assert found == sorted(found)
    assert after == found[found.index(first.account_id) + 1 :]
    assert second.account_id in after


async def test_a_moment_that_is_over_cannot_be_joined(rig: PostgresRig) -> None:
    async with rig.audit.snapshot() as snapshot:
        name = snapshot.name
    with pytest.raises(StoreUnavailable):
        async with rig.audit.joined(name):
            pass


@pytest.mark.parametrize(
    ("tampering", "number", "expected"),
    [
        (Tampering.BALANCE_AFTER, 1, [(1, "its balance_after is 51, and the entries make 50")]),
        (Tampering.BALANCE_AFTER, 4, [(4, "its balance_after is 41, and the entries make 40")]),
        (Tampering.AMOUNT, 1, [(1, "its balance_after is 50, and the entries make 51")]),
        (Tampering.AMOUNT, 2, [(2, "its balance_after is 40, and the entries make 39"), USAGE]),
        (Tampering.AMOUNT, 4, [(4, "its balance_after is 40, "), (4, FlawKind.TOO_MUCH), USAGE]),
        (Tampering.REVERSES, 4, [(4, "its hash is not that of "), (4, FlawKind.NO_CHARGE)]),
        (Tampering.GONE, 2, [(2, "entry 3 stands in its place"), USAGE]),
        (Tampering.GONE, 3, [(3, "entry 4 stands in its place"), (4, FlawKind.NO_CHARGE), USAGE]),
        (Tampering.GONE, 4, [(None, "the stored balance is 40, and its entries make 30"), *TRUNCATED, USAGE]),
        (Tampering.BALANCE, 0, [(None, "the stored balance is 41, and its entries make 40")]),
        (Tampering.HELD, 0, [(None, "11 is held, and its open holds make 10")]),
        (Tampering.USAGE, 0, [USAGE]),
    ],
)
async def test_a_tampering_is_reported_by_account_entry_and_fault(
    rig: PostgresRig, tampering: Tampering, number: int, expected: list[tuple[int | None, str]]
) -> None:
    customer = await open_customer(rig, 0, new_host(), new_host(), new_host())
    await top_up(rig, customer, 50, "first")
    await scheduled(rig, customer, MeetingSpec())
    cancelled = await scheduled(rig, customer, MeetingSpec())
    await finish_cancelling(rig, cancelled, await start_cancelling(rig, cancelled))
    await reserved(rig, customer, MeetingSpec())
    before = await VerifyLedger(rig.audit)()
    assert not [finding for finding in before.findings if finding.account_id == customer.account_id]
    await rig.tamper(customer.account_id, number, tampering)
    audit = await VerifyLedger(rig.audit)()
    found = [each for each in audit.findings if each.account_id == customer.account_id]
    assert [each.number for each in found] == [place for place, _ in expected]
    for finding, (_, problem) in zip(found, expected, strict=True):
        assert problem in finding.problem
        assert str(finding).startswith(f"account {customer.account_id}:")
    assert not audit.is_sound


@pytest.mark.parametrize(
    ("column", "makes"), [("credits", "56 credits in 2"), ("entries", "55 credits in 3")]
)
async def test_daily_totals_that_are_not_those_of_the_entries_are_named(
    rig: PostgresRig, column: str, makes: str
) -> None:
    """Statements and the liability of all months are made of them."""
    customer = await open_customer(rig, 50)
    await top_up(rig, customer, 5, "second")
    assert await _findings(rig, customer) == []
    change = f"UPDATE ledger_day_totals SET {column} = {column} + %(by)s WHERE account_id = %(id)s"
    await rig.tamper_with(change, id=customer.account_id, by=1)
    expected = f"its daily totals come to {makes} entries, and its entries to 55 in 2"
    assert await _findings(rig, customer) == [(None, expected)]
    await rig.tamper_with(change, id=customer.account_id, by=-1)


async def test_entries_under_a_key_hold_under_that_key_alone(rig: PostgresRig, customer: Customer) -> None:
    await top_up(rig, customer, 50, "first", key=KEY)
    await top_up(rig, customer, 5, "second", key=LATER)
    assert await _findings(rig, customer, LATER, KEY) == []
    [(number, problem)] = await _findings(rig, customer, LATER)
    assert (number, f"under the key {KEY.id.hex()}, which is not given" in problem) == (1, True)
    assert (await _findings(rig, customer))[0][0] == 1
    await rig.tamper(customer.account_id, 2, Tampering.REVERSES)
    [(number, problem), _] = await _findings(rig, customer, KEY, LATER)
    assert (number, "its hash is not that of" in problem) == (2, True)


async def test_a_ledger_under_keys_has_no_entry_without_one(rig: PostgresRig, customer: Customer) -> None:
    await top_up(rig, customer, 50, "first", key=KEY)
    assert await _findings(rig, customer, KEY) == []
    await top_up(rig, customer, 1_000_000, "forged")
    assert await _findings(rig, customer, KEY) == [(2, "it is chained without a key")]


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
    rig: PostgresRig, tampering: str, number: int
) -> None:
    """Only this store keeps both legs."""
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


async def test_a_charge_that_was_returned_twice_is_named(rig: PostgresRig) -> None:
    """The unique index would refuse it: it must be gone first."""
    customer = await open_customer(rig, 50, new_host())
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
    rig: PostgresRig, service_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A portion for each account, so that there is something to share out."""
    monkeypatch.setattr(postgres_verification, "ENTRIES_OF_A_PORTION", 1)
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
    rig: PostgresRig, service_database: str
) -> None:
    await open_customer(rig, 50)
    await open_customer(rig, 50)
    bring = verifiers_of(service_database, 2, worth=1)

    async def prove_in_killed(
        prove: PortionVerifier, portion: Any, on_entries: Callable[[int], None]
    ) -> Audit:
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
        await VerifyLedger(rig.audit)(verifiers=failing)
    assert active_children() == []


async def test_a_process_whose_snapshot_is_over_reports_it(rig: PostgresRig, service_database: str) -> None:
    await open_customer(rig, 50)
    async with rig.audit.snapshot() as snapshot:
        portion = await anext(aiter(snapshot.accounts()))
    async with verifiers_of(service_database, 2, worth=1)(snapshot, 2) as verifiers:
        with pytest.raises(StoreUnavailable, match="is over"):
            await verifiers[0](portion, lambda _: None)


async def test_a_process_stays_in_the_snapshot_for_every_portion(
    rig: PostgresRig, service_database: str
) -> None:
    """What is posted meanwhile belongs to no portion, not to a later one either."""
    customer = await open_customer(rig, 50)
    async with rig.audit.snapshot() as snapshot:
        portions = [portion async for portion in snapshot.accounts()]
        async with verifiers_of(service_database, 2, worth=1)(snapshot, 2) as (prove, *_):
            before = [await prove(portion, lambda _: None) for portion in portions]
            await top_up(rig, customer, 5, "INV-LATER")
            assert [await prove(portion, lambda _: None) for portion in portions] == before


DAY_S = 86_400.0
MINUTE = timedelta(minutes=1)


async def _claim(rig: PostgresRig, seconds: float = 60.0) -> VerificationRun | None:
    return await rig.verification_log.claim(Lease(new_id(), seconds), AT)


async def _claimed(rig: PostgresRig, seconds: float = 60.0) -> VerificationRun:
    run = await _claim(rig, seconds)
    assert run is not None
    return run


async def _result(rig: PostgresRig) -> tuple[datetime | None, bool]:
    found = await rig.figures.read()
    return found.ledger_verified_at, found.ledger_is_sound


async def test_a_run_is_kept_under_its_lease_alone(rig: PostgresRig) -> None:
    lost = await _claimed(rig, 0.0)
    run = await _claimed(rig)
    assert await _claim(rig) is None
    assert run.started_at == lost.started_at
    assert not await rig.verification_log.save(evolve(lost, accounts=7, findings=("a finding",)), 0.0)
    assert not await rig.verification_log.renew(lost, 60.0)
    assert not await rig.verification_log.finish(lost, AT, 0.0)
    assert await rig.verification_log.save(run, 0.0)
    assert (await _claimed(rig)).accounts == 0


async def test_a_run_that_is_to_wait_is_not_due(rig: PostgresRig) -> None:
    assert await rig.verification_log.save(await _claimed(rig), 60.0)
    assert await _claim(rig) is None


async def test_a_result_of_another_verification_is_kept_beside_a_run(rig: PostgresRig) -> None:
    run = await _claimed(rig)
    kept = evolve(run, after_account=new_id(), accounts=3)
    assert await rig.verification_log.save(kept, 0.0)
    await rig.verification_log.end_unsound_run(AT)
    await rig.verification_log.keep_result(AT, is_sound=True)
    assert await _result(rig) == (AT, True)
    again = await _claimed(rig)
    assert again == evolve(kept, token=again.token)


async def test_an_earlier_result_replaces_no_later_one(rig: PostgresRig) -> None:
    await rig.verification_log.keep_result(AT, is_sound=False)
    await rig.verification_log.keep_result(AT - timedelta(minutes=1), is_sound=True)
    assert await _result(rig) == (AT, False)
    assert await _claim(rig) is not None, "the next run is due as before"


async def test_findings_of_a_run_outlast_a_sound_verification_that_began_before_them(
    rig: PostgresRig,
) -> None:
    run = await _claimed(rig)
    await rig.verification_log.end_unsound_run(AT + MINUTE)
    assert await rig.verification_log.save(evolve(run, findings=("a finding",)), 0.0)
    await rig.verification_log.keep_result(AT + MINUTE, is_sound=True)
    assert await _result(rig) == (None, False)
    run = await _claimed(rig)
    assert run.findings == ("a finding",)
    assert await rig.verification_log.finish(run, AT + 2 * MINUTE, DAY_S)
    await rig.verification_log.keep_result(AT + MINUTE, is_sound=True)
    assert await _result(rig) == (AT + 2 * MINUTE, False)


async def test_an_unsound_verification_is_kept_beside_a_later_sound_result(rig: PostgresRig) -> None:
    assert await rig.verification_log.finish(await _claimed(rig), AT + 2 * MINUTE, DAY_S)
    await rig.verification_log.keep_result(AT + MINUTE, is_sound=False)
    assert await _result(rig) == (AT + 2 * MINUTE, False)


async def test_a_sound_run_replaces_no_result_of_after_its_beginning(rig: PostgresRig) -> None:
    run = await _claimed(rig)
    await rig.verification_log.keep_result(AT + MINUTE, is_sound=False)
    assert await rig.verification_log.finish(run, AT + 3 * MINUTE, 0.0)
    assert await _result(rig) == (AT + MINUTE, False)
    later = await rig.verification_log.claim(Lease(new_id(), 60.0), AT + 2 * MINUTE)
    assert later is not None
    assert await rig.verification_log.finish(later, AT + 3 * MINUTE, DAY_S)
    assert await _result(rig) == (AT + 3 * MINUTE, True)
