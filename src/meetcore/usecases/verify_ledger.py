"""Proving the ledger: every chain, every balance, every hold, every pair of legs, every refund and cap.

Reads one snapshot, so that it can run while the service writes, and in constant memory.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from attrs import define, field, frozen

from meetcore.domain.chain import EntryLine, Fault, Proof
from meetcore.domain.ledger import funds_faults
from meetcore.ports.audit import Flaw, LedgerAudit, LedgerSnapshot, StoredFunds

__all__ = ["Audit", "Finding", "VerifyLedger"]

MAX_FINDINGS = 100

_account_of = itemgetter(0)


@frozen
class Finding:
    """Something wrong: whose, at which entry if it is one, and what. As text it is one sentence."""

    account_id: UUID
    number: int | None
    problem: str

    def __str__(self) -> str:
        place = "" if self.number is None else f" entry {self.number}:"
        return f"account {self.account_id}:{place} {self.problem}"


@define
class Audit:
    """What was found. `findings` are the first hundred; of each history the first wrong entry only."""

    accounts: int = 0
    entries: int = 0
    findings: list[Finding] = field(factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def add(self, account_id: UUID, number: int | None, problem: str) -> None:
        """Note something wrong, unless there is enough of it."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(account_id, number, problem))


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
            flaws = asyncio.ensure_future(snapshot.flaws())
            try:
                async for portion in snapshot.accounts():
                    await _prove(snapshot, portion, found, lambda: on_progress(found.entries, total))
                for flaw in await flaws:
                    found.add(flaw.account_id, flaw.number, _told(flaw))
            finally:
                flaws.cancel()  # when the entries cannot be read, nobody waits for it
                await asyncio.wait([flaws])
            on_progress(found.entries, total)
        return found


def _told(flaw: Flaw) -> str:
    return f"{flaw.subject} {flaw.kind.value}"


async def _prove(
    snapshot: LedgerSnapshot, portion: Sequence[StoredFunds], found: Audit, tell: Callable[[], None]
) -> None:
    proofs = {stored.funds.account_id.hex: Proof(stored.funds.account_id) for stored in portion}
    faults: dict[str, Fault] = {}
    async for lines in snapshot.entries(portion):
        _fold(lines, proofs, faults)
        found.entries += len(lines)
        tell()
    for stored in portion:
        _judge(stored, proofs[stored.funds.account_id.hex], faults.get(stored.funds.account_id.hex), found)
    found.accounts += len(portion)


def _fold(lines: Sequence[EntryLine], proofs: dict[str, Proof], faults: dict[str, Fault]) -> None:
    for account, own in groupby(lines, _account_of):
        if account not in faults:
            proofs[account], fault = proofs[account].over(own)
            if fault is not None:
                faults[account] = fault


def _judge(stored: StoredFunds, proof: Proof, fault: Fault | None, found: Audit) -> None:
    account_id = stored.funds.account_id
    if fault is not None:
        found.add(account_id, fault.number, fault.problem)
    else:
        for problem in funds_faults(stored.funds, proof):
            found.add(account_id, None, problem)
    if stored.open_holds != stored.funds.held:
        problem = f"{stored.funds.held} is held, and its open holds make {stored.open_holds}"
        found.add(account_id, None, problem)
