"""Reading the whole ledger in PostgreSQL, in one repeatable-read transaction, portion by portion."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.ledger import TRANSFER_COLUMNS
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.domain.ledger import Entry
from meetcore.ports.audit import StoredFunds

__all__ = ["PostgresLedgerAudit"]

ACCOUNTS_AT_ONCE = 500
ENTRIES_AT_ONCE = 5_000

_COUNT = "SELECT count(*) AS entries FROM ledger_entries WHERE book = 'customer'"

# The next accounts by id, each with the sum of its open holds.
_ACCOUNTS = """
SELECT a.id AS account_id, a.balance, a.held, a.low_threshold, a.is_low, a.entries, a.last_hash, a.last_at,
       COALESCE((SELECT sum(h.amount) FROM ledger_holds h WHERE h.account_id = a.id), 0)::bigint AS open_holds
FROM accounts a WHERE a.id > %(after)s ORDER BY a.id LIMIT %(limit)s
"""

# The customer entries of some accounts with their transfers.
_ENTRIES = f"""
SELECT e.account_id, e.number, e.amount AS entry_amount, e.balance_after, e.at AS entry_at, e.hash, {TRANSFER_COLUMNS}
FROM ledger_entries e JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
WHERE e.account_id = ANY (%(ids)s) AND e.book = 'customer' ORDER BY e.account_id, e.number
"""

# Transfers whose legs are not two that sum to zero, and transfers without legs.
_UNBALANCED = """
SELECT t.account_id, t.id FROM ledger_transfers t
LEFT JOIN ledger_entries e ON e.account_id = t.account_id AND e.transfer_id = t.id
GROUP BY t.account_id, t.id HAVING count(e.number) <> 2 OR sum(e.amount) <> 0 LIMIT 100
"""


class PostgresLedgerSnapshot:
    """One moment of the ledger, on one open transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count_entries(self) -> int:
        """How many entries customers have in all."""
        row = await (await self._connection.execute(_COUNT)).fetchone()
        return 0 if row is None else int(row["entries"])

    async def accounts(self) -> AsyncIterator[Sequence[StoredFunds]]:
        """Every account, in portions."""
        after = UUID(int=0)
        while True:
            parameters = {"after": after, "limit": ACCOUNTS_AT_ONCE}
            found = await (await self._connection.execute(_ACCOUNTS, parameters)).fetchall()
            if not found:
                return
            yield [StoredFunds(rows.funds(row), row["open_holds"]) for row in found]
            after = found[-1]["account_id"]

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncIterator[Entry]:
        """The customer entries of these accounts, by account, then by number."""
        ids = [stored.funds.account_id for stored in portion]
        async with self._connection.cursor(name="ledger_entries") as cursor:
            cursor.itersize = ENTRIES_AT_ONCE
            await cursor.execute(_ENTRIES, {"ids": ids})
            async for row in cursor:
                entry = rows.entry(row)
                assert entry is not None  # joined, so the transfer is there
                yield entry

    async def unbalanced(self) -> Sequence[str]:
        """Names of transfers whose legs do not sum to zero."""
        found = await (await self._connection.execute(_UNBALANCED)).fetchall()
        return [f"account {row['account_id']}: transfer {row['id']}" for row in found]


class PostgresLedgerAudit:
    """Opens snapshots."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[PostgresLedgerSnapshot]:
        """The ledger at this moment, while others write on."""
        with translated():
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                await connection.execute("SET LOCAL statement_timeout = 0")
                await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                await connection.execute("SELECT")  # the snapshot is that of the first query
                yield PostgresLedgerSnapshot(connection)
