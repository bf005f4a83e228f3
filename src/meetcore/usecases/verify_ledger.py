"""Proving the ledger: every chain, every balance, every hold, every pair of legs.

Reads one snapshot, so that it can run while the service writes, and in constant memory.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from uuid import UUID

from attrs import define, field, frozen

from meetcore.domain.ledger import Entry, Proof, is_proven
from meetcore.ports.audit import LedgerAudit, LedgerSnapshot, StoredFunds

__all__ = ["Audit", "VerifyLedger"]

MAX_FINDINGS = 100


@define
class Audit:
    """What was found. `findings` names what is wrong, the first hundred."""

    accounts: int = 0
    entries: int = 0
    findings: list[str] = field(factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


@frozen
class VerifyLedger:
    """Recomputes what is stored."""

    audit: LedgerAudit

    async def __call__(self, on_progress: Callable[[int, int], None] = lambda done, total: None) -> Audit:
        """Prove the ledger.

        Args:
            on_progress: told how many entries are proven, and how many there are.

        Raises:
            StoreAway: the store does not answer.
        """
        found = Audit()
        async with self.audit.snapshot() as snapshot:
            total = await snapshot.count_entries()
            async for portion in snapshot.accounts():
                await self._prove(snapshot, portion, found)
                on_progress(found.entries, total)
            for name in await snapshot.unbalanced():
                found.findings.append(f"{name}: its legs do not sum to zero")
        del found.findings[MAX_FINDINGS:]
        return found

    async def _prove(self, snapshot: LedgerSnapshot, portion: Sequence[StoredFunds], found: Audit) -> None:
        entries = snapshot.entries(portion)
        proofs = {stored.funds.account_id: Proof(stored.funds.account_id) for stored in portion}
        broken = await _fold(entries, proofs, found)
        for stored in portion:
            account_id = stored.funds.account_id
            if account_id not in broken and not is_proven(stored.funds, proofs[account_id]):
                found.findings.append(f"account {account_id}: the stored balance is not what its entries say")
            if stored.open_holds != stored.funds.held:
                found.findings.append(f"account {account_id}: its open holds do not sum to what is held")
        found.accounts += len(portion)


async def _fold(entries: AsyncIterator[Entry], proofs: dict[UUID, Proof], found: Audit) -> set[UUID]:
    broken: set[UUID] = set()
    async for entry in entries:
        found.entries += 1
        if entry.account_id in broken:
            continue
        proof = proofs[entry.account_id]
        extended = proof.extended(entry)
        if extended is None:
            broken.add(entry.account_id)
            found.findings.append(f"account {entry.account_id}: entry {proof.entries + 1} is wrong")
        else:
            proofs[entry.account_id] = extended
    return broken
