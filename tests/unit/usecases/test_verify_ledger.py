"""Proving the ledger, where the store gives up and where there is too much to tell."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from meetcore.adapters.memory.audit import MemoryLedgerAudit, MemoryLedgerSnapshot
from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.money.hash_chain import CanonicalEntry
from meetcore.ports.audit import Flaw, FlawKind, LedgerSnapshot, StoredFunds
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.contracts.store_rig import Tampering
from meetcore.testing.contracts.transactions import new_id, open_customer
from meetcore.testing.memory_rig import MemoryRig
from meetcore.usecases.verify_ledger import MAX_FINDINGS, PortionVerifier, Proven, VerifyLedger, VerifyPortion


class Slow(MemoryLedgerSnapshot):
    """Cannot read its entries while it looks for flaws."""

    def __init__(self, state: MemoryState) -> None:
        super().__init__(state.committed)
        self.left: list[str] = []

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        await asyncio.sleep(0)
        if portion:
            raise StoreUnavailable("gone")
        yield []

    async def flaws(self) -> Sequence[Flaw]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.left.append("cancelled")
            raise
        return []


async def test_a_store_that_becomes_unavailable_leaves_nothing_running() -> None:
    rig = MemoryRig()
    await open_customer(rig, 5)
    slow = Slow(rig.state)

    class Audit(MemoryLedgerAudit):
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[MemoryLedgerSnapshot]:
            yield slow

    with pytest.raises(StoreUnavailable):
        await VerifyLedger(Audit(rig.state))()
    assert slow.left == ["cancelled"]


async def test_the_first_hundred_findings_are_kept() -> None:
    class Bad(MemoryLedgerSnapshot):
        async def flaws(self) -> Sequence[Flaw]:
            return [
                Flaw(new_id(), FlawKind.UNBALANCED, f"transfer {number}", number) for number in range(500)
            ]

    class Audit(MemoryLedgerAudit):
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[MemoryLedgerSnapshot]:
            yield Bad(MemoryState().committed)

    audit = await VerifyLedger(Audit(MemoryState()))()
    assert [finding.number for finding in audit.findings] == list(range(MAX_FINDINGS))
    assert not audit.is_sound


async def test_findings_are_reported_in_account_order_whichever_verifier_finishes_first() -> None:
    rig = MemoryRig()
    tampered = sorted([(await open_customer(rig, 5)).account_id for _ in range(MAX_FINDINGS + 20)])
    for account_id in tampered:
        await rig.tamper(account_id, 0, Tampering.BALANCE)
    others_are_done = asyncio.Event()
    proven: list[int] = []

    @asynccontextmanager
    async def two(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        prove = VerifyPortion(snapshot)

        async def slow(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
            """Takes the first portion and holds it until every other is proven."""
            await others_are_done.wait()
            return await prove(portion, on_entries)

        async def quick(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
            proven.append(len(proven))
            if len(proven) == entries - 1:
                others_are_done.set()
            return await prove(portion, on_entries)

        yield [slow, quick]

    progress: list[int] = []
    audit = await VerifyLedger(rig.audit)(lambda done, total: progress.append(done), two)
    assert [finding.account_id for finding in audit.findings] == tampered[:MAX_FINDINGS]
    assert audit == await VerifyLedger(rig.audit)()
    assert progress == [*range(1, len(tampered) + 1), len(tampered)]


async def test_a_verifier_that_fails_ends_the_others() -> None:
    rig = MemoryRig()
    for _ in range(3):
        await open_customer(rig, 5)
    left: list[str] = []

    @asynccontextmanager
    async def two(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        async def waiting(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
            try:
                await asyncio.Event().wait()
            finally:
                left.append("waiting")
            raise AssertionError

        async def failing(portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
            raise StoreUnavailable("gone")

        yield [waiting, failing]
        left.append("not reached: an error passes through here")

    with pytest.raises(StoreUnavailable):
        await VerifyLedger(rig.audit)(verifiers=two)
    assert left == ["waiting"]
