"""Verifying the ledger of a store: a sound ledger passes, what was tampered with is named."""

from collections import Counter
from uuid import UUID

import pytest

from meetcore.domain.money.chain_keys import ChainKey, seal
from meetcore.ports.audit import FlawKind
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.contracts.store_rig import LedgerAuditRig, Tampering
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    finish_cancelling,
    new_host,
    open_customer,
    reserved,
    rolled,
    scheduled,
    start_cancelling,
    top_up,
)
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.seal_ledger import AlreadySealed, SealLedger
from meetcore.usecases.verify_ledger import VerifyLedger

KEY, LATER, UNKNOWN = (ChainKey.of(bytes([number]) * 32) for number in range(1, 4))
USAGE: tuple[int | None, str] = (None, FlawKind.USAGE)
TRUNCATED: list[tuple[int | None, str]] = [
    (None, "the stored number of entries is 4, and its entries make 3"),
    (None, "the stored last hash is "),
]


async def _findings(rig: LedgerAuditRig, customer: Customer, *keys: ChainKey) -> list[tuple[int | None, str]]:
    """What is found of a customer's entries under these keys."""
    audit = await VerifyLedger(rig.audit, keys)()
    await _check_spans(rig, customer.account_id)
    findings = [each for each in audit.findings if each.account_id == customer.account_id]
    return [(each.number, each.problem) for each in findings]


async def _check_spans(rig: LedgerAuditRig, account_id: UUID) -> None:
    """Check that the flaws of spans of accounts are those of the whole."""
    before = UUID(int=account_id.int - 1)
    async with rig.audit.snapshot() as snapshot:
        spans = [(None, before), (before, account_id), (account_id, None)]
        parts = [await snapshot.flaws_of_span(after, last) for after, last in spans]
        whole = await snapshot.flaws()
    assert {each.account_id for each in parts[1]} <= {account_id}
    assert Counter(each for part in parts for each in part) == Counter(whole)


@pytest.mark.asyncio
class LedgerAuditContract:
    """What `ports.audit.LedgerAudit` promises, as `meetcore.usecases.verify_ledger` reads it."""

    async def test_a_used_ledger_is_sound_and_every_entry_is_checked(self, rig: LedgerAuditRig) -> None:
        await rig.put_hosts(new_host(), new_host())
        customer = await open_customer(rig)
        await top_up(rig, customer, 50, "first")
        await scheduled(rig, customer, MeetingSpec())
        await reserved(rig, customer, MeetingSpec())
        progress: list[tuple[int, int]] = []
        audit = await VerifyLedger(rig.audit)(lambda done, total: progress.append((done, total)))
        findings = [finding for finding in audit.findings if finding.account_id == customer.account_id]
        assert findings == []
        assert audit.entries == progress[-1][0] == progress[-1][1]
        assert audit.accounts >= 1

    async def test_the_usage_of_a_cap_is_the_sum_of_the_keys_that_share_it(self, rig: LedgerAuditRig) -> None:
        await rig.put_hosts(new_host(max_concurrent=9))
        first = await open_customer(rig, 100, cap=60)
        second = await rolled(rig, first)
        for key in (first, second):
            await scheduled(rig, key, MeetingSpec())
            await reserved(rig, key, MeetingSpec(credits=5))
        assert await _findings(rig, first) == []
        await rig.tamper(first.account_id, 1, Tampering.USAGE)
        ((_, problem),) = await _findings(rig, first)
        assert problem.startswith(f"the usage of key {first.key_id} on ")

    async def test_a_snapshot_is_of_the_moment_it_was_opened(self, rig: LedgerAuditRig) -> None:
        customer = await open_customer(rig, 100)
        async with rig.audit.snapshot() as snapshot:
            await top_up(rig, customer, 5, "later")
            async for portion in snapshot.accounts():
                for stored in portion:
                    if stored.funds.account_id == customer.account_id:
                        assert (stored.funds.entries, stored.funds.balance) == (1, 100)
        async with rig.audit.snapshot() as snapshot:
            found = [stored.funds async for portion in snapshot.accounts() for stored in portion]
        assert [one.balance for one in found if one.account_id == customer.account_id] == [105]

    async def test_accounts_are_read_from_an_id_on(self, rig: LedgerAuditRig) -> None:
        first, second = await open_customer(rig), await open_customer(rig)
        async with rig.audit.snapshot() as snapshot:
            found = [one.funds.account_id async for each in snapshot.accounts() for one in each]
            after = [
                one.funds.account_id async for each in snapshot.accounts(first.account_id) for one in each
            ]
        assert found == sorted(found)
        assert after == found[found.index(first.account_id) + 1 :]
        assert second.account_id in after

    async def test_a_moment_is_shared_with_those_who_join_it(self, rig: LedgerAuditRig) -> None:
        customer = await open_customer(rig, 100)
        async with rig.audit.snapshot() as snapshot:
            await top_up(rig, customer, 5, "later")
            async with rig.audit.joined(snapshot.name) as joined:
                found = [stored.funds async for portion in joined.accounts() for stored in portion]
        assert [one.balance for one in found if one.account_id == customer.account_id] == [100]

    async def test_a_moment_that_is_over_cannot_be_joined(self, rig: LedgerAuditRig) -> None:
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
            (
                Tampering.GONE,
                4,
                [(None, "the stored balance is 40, and its entries make 30"), *TRUNCATED, USAGE],
            ),
            (Tampering.BALANCE, 0, [(None, "the stored balance is 41, and its entries make 40")]),
            (Tampering.HELD, 0, [(None, "11 is held, and its open holds make 10")]),
            (Tampering.USAGE, 0, [USAGE]),
        ],
    )
    async def test_a_tampering_is_reported_by_account_entry_and_fault(
        self, rig: LedgerAuditRig, tampering: Tampering, number: int, expected: list[tuple[int | None, str]]
    ) -> None:
        await rig.put_hosts(new_host(), new_host(), new_host())
        customer = await open_customer(rig)
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

    async def test_entries_under_a_key_hold_under_that_key_alone(self, rig: LedgerAuditRig) -> None:
        customer = await open_customer(rig)
        await top_up(rig, customer, 50, "first", key=KEY)
        await top_up(rig, customer, 5, "second", key=LATER)
        assert await _findings(rig, customer, LATER, KEY) == []
        [(number, problem)] = await _findings(rig, customer, LATER)
        assert (number, f"under the key {KEY.id.hex()}, which is not given" in problem) == (1, True)
        assert (await _findings(rig, customer))[0][0] == 1
        await rig.tamper(customer.account_id, 2, Tampering.REVERSES)
        [(number, problem), _] = await _findings(rig, customer, KEY, LATER)
        assert (number, "its hash is not that of" in problem) == (2, True)

    async def test_entries_without_a_key_hold_only_as_far_as_they_are_sealed(
        self, rig: LedgerAuditRig
    ) -> None:
        customer, bare = await open_customer(rig), await open_customer(rig, 5)
        await top_up(rig, customer, 50, "first")
        await top_up(rig, customer, 50, "second", key=KEY)
        behind = [(1, "it is chained without a key, behind what is sealed")]
        assert await _findings(rig, customer, KEY) == behind
        runtime = Runtime(ManualClock(AT), SeededEntropy(1))
        await SealLedger(rig.audit, [KEY], runtime)(again=True)
        assert await _findings(rig, customer, KEY) == await _findings(rig, bare, KEY) == []
        await top_up(rig, customer, 7, "third", key=KEY)
        assert await _findings(rig, customer, KEY) == []
        await top_up(rig, bare, 1_000_000, "forged")
        assert await _findings(rig, bare, KEY) == [(2, behind[0][1])]
        with pytest.raises(AlreadySealed):
            await SealLedger(rig.audit, [KEY], runtime)()
        await SealLedger(rig.audit, [KEY], runtime)(again=True)
        assert await _findings(rig, bare, KEY) == [(2, behind[0][1])], "a seal is never replaced"
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE_AFTER)
        assert (await _findings(rig, customer, KEY))[0][0] == 1

    async def test_a_history_that_does_not_hold_is_not_sealed(self, rig: LedgerAuditRig) -> None:
        customer = await open_customer(rig, 50)
        await rig.tamper(customer.account_id, 1, Tampering.BALANCE_AFTER)
        runtime = Runtime(ManualClock(AT), SeededEntropy(1))
        done = await SealLedger(rig.audit, [KEY], runtime)(again=True)
        assert customer.account_id in [finding.account_id for finding in done.findings]
        assert (await _findings(rig, customer, KEY))[0][0] == 1

    async def test_a_forged_seal_is_found(self, rig: LedgerAuditRig) -> None:
        customer, other = await open_customer(rig, 50), await open_customer(rig)
        async with rig.audit.snapshot() as snapshot:
            found = [each async for portion in snapshot.accounts() for each in portion]
        hashes = {each.funds.account_id: each.funds.last_hash for each in found}
        before = await rig.audit.count_seals()
        forged = seal(customer.account_id, 1, hashes[customer.account_id], ChainKey(KEY.id, UNKNOWN.secret))
        strange = seal(other.account_id, 1, bytes(32), UNKNOWN)
        await rig.audit.add_seals([forged, strange], AT)
        await rig.audit.add_seals([], AT)
        assert await rig.audit.count_seals() == before + 2
        assert await _findings(rig, customer, KEY) == [(None, "its seal is not ours")]
        [(_, problem)] = await _findings(rig, other, KEY)
        assert UNKNOWN.id.hex() in problem
