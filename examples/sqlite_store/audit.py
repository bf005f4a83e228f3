"""Reading the whole ledger in SQLite, as it was at one moment, portion by portion."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from meetcore.domain.ledger import Entry, Funds
from meetcore.ports.audit import StoredFunds

from . import rows
from .connection import Connection, Database

__all__ = ["SqliteLedgerAudit"]

ACCOUNTS_AT_ONCE = 500
ENTRIES_AT_ONCE = 1_000

_COUNT = "SELECT count(*) AS entries FROM entries"

# The next accounts by id, each with the sum of its open holds.
_ACCOUNTS = """
SELECT a.id AS account_id, a.balance, a.held, a.low_threshold, a.is_low, a.entries, a.last_hash, a.last_at,
    (SELECT coalesce(sum(h.amount), 0) FROM holds h WHERE h.account_id = a.id) AS open_holds
FROM accounts a WHERE a.id > :after ORDER BY a.id LIMIT :limit
"""

# The next entries of an account.
_ENTRIES = """
SELECT * FROM entries WHERE account_id = :account_id AND number > :after ORDER BY number LIMIT :limit
"""


class SqliteLedgerSnapshot:
    """One moment of the ledger, on one open transaction that reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count_entries(self) -> int:
        """How many entries customers have in all."""
        return sum(row["entries"] for row in await self._connection.fetch(_COUNT, {}))

    async def accounts(self) -> AsyncIterator[Sequence[StoredFunds]]:
        """Every account, in portions."""
        after = ""
        while found := await self._connection.fetch(_ACCOUNTS, {"after": after, "limit": ACCOUNTS_AT_ONCE}):
            yield [StoredFunds(rows.record(Funds, row), row["open_holds"]) for row in found]
            after = found[-1]["account_id"]

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncIterator[Entry]:
        """The customer entries of these accounts, by account in the given order, then by number."""
        for stored in portion:
            async for entry in self._entries_of(stored.funds.account_id):
                yield entry

    async def _entries_of(self, account_id: UUID) -> AsyncIterator[Entry]:
        about = {"account_id": account_id, "limit": ENTRIES_AT_ONCE}
        after = 0
        while found := await self._connection.fetch(_ENTRIES, about | {"after": after}):
            for row in found:
                yield rows.entry(row)
            after = found[-1]["number"]

    async def unbalanced(self) -> Sequence[str]:
        """Names of transfers whose legs do not sum to zero: none, for both legs are one row here."""
        return []


class SqliteLedgerAudit:
    """Opens snapshots."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqliteLedgerSnapshot]:
        """The ledger at this moment, while others write on."""
        async with self._database.snapshot() as connection:
            yield SqliteLedgerSnapshot(connection)
