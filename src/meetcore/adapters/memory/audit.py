"""Reading the whole ledger in memory. A snapshot is the committed tables at one moment."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from meetcore.adapters.memory.state import MemoryState, Tables
from meetcore.domain.ledger import Entry, legs
from meetcore.ports.audit import StoredFunds

__all__ = ["MemoryLedgerAudit"]


class MemoryLedgerSnapshot:
    """One moment of the ledger."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def count_entries(self) -> int:
        """How many entries customers have in all."""
        return len(self._tables.entries)

    async def accounts(self) -> AsyncIterator[Sequence[StoredFunds]]:
        """Every account, in one portion."""
        stored = [
            StoredFunds(
                account.funds,
                sum(hold.amount for name, hold in self._tables.holds.items() if name[0] == account_id),
            )
            for account_id, account in sorted(self._tables.accounts.items())
        ]
        if stored:
            yield stored

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncIterator[Entry]:
        """The customer entries of these accounts, by account, then by number."""
        wanted = {stored.funds.account_id for stored in portion}
        for name in sorted(self._tables.entries):
            if name[0] in wanted:
                yield self._tables.entries[name]

    async def unbalanced(self) -> Sequence[str]:
        """Names of transfers whose legs do not sum to zero: none, for legs are derived here."""
        return [
            f"account {entry.account_id}: transfer {entry.transfer.id}"
            for entry in self._tables.entries.values()
            if sum(leg.amount for leg in legs(entry.transfer))
        ]


class MemoryLedgerAudit:
    """Opens snapshots."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[MemoryLedgerSnapshot]:
        """The ledger at this moment, while others write on."""
        yield MemoryLedgerSnapshot(self._state.committed)
