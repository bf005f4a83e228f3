"""Proving the ledger, where the store gives up and where there is too much to tell."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from meetcore.adapters.memory.audit import MemoryLedgerAudit, MemoryLedgerSnapshot
from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.chain import EntryLine
from meetcore.ports.audit import Flaw, FlawKind, StoredFunds
from meetcore.ports.store import StoreAway
from meetcore.testing.contracts.acts import new_id, open_customer
from meetcore.testing.memory_rig import MemoryRig
from meetcore.usecases.verify_ledger import MAX_FINDINGS, VerifyLedger


class Slow(MemoryLedgerSnapshot):
    """Cannot read its entries while it looks for flaws."""

    def __init__(self, state: MemoryState) -> None:
        super().__init__(state.committed)
        self.left: list[str] = []

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncIterator[Sequence[EntryLine]]:
        await asyncio.sleep(0)
        if portion:
            raise StoreAway("gone")
        yield []

    async def flaws(self) -> Sequence[Flaw]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.left.append("cancelled")
            raise
        return []


async def test_a_store_that_goes_away_leaves_nothing_running() -> None:
    rig = MemoryRig()
    await open_customer(rig, 5)
    slow = Slow(rig.state)

    class Audit(MemoryLedgerAudit):
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[MemoryLedgerSnapshot]:
            yield slow

    with pytest.raises(StoreAway):
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
