"""What the contract suite of a ledger asks of this store: all that it takes to run it."""

import sqlite3
from uuid import UUID

from meetcore.domain.money.ledger import Entry, legs

from .connection import Database
from .ledger import SqliteLedgerStore, entries_of

__all__ = ["SqliteLedgerRig"]


class SqliteLedgerRig:
    """An open file, with a look behind the port. Fills `meetcore.testing.ledger.LedgerRig`."""

    refusal: type[Exception] = sqlite3.IntegrityError

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = SqliteLedgerStore(database)

    async def until_lock_contended(self) -> None:
        """Return at once: here a transaction waits before it begins."""

    async def entries(self, account_id: UUID) -> list[Entry]:
        """Read an account's history in the order of its numbers."""
        async with self.database.transaction() as connection:
            return await entries_of(connection, account_id)

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        """Return both legs of each transfer: two columns of one row."""
        entries = await self.entries(account_id)
        return [(leg.book.value, leg.amount) for entry in entries for leg in legs(entry.transfer)]

    async def holds(self, account_id: UUID) -> list[int]:
        """Return nothing: credits are held for meetings and notes, which this store does not keep."""
        return []
