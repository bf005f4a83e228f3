"""The ledger on SQLite: accounts with their funds, and entries that nothing changes once they are there.

The account's lock is the transaction itself (see `connection`), so reading under it is reading. No rule
of money is written a second time here: the domain decides, this module keeps what was decided.
"""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from uuid import UUID

from cattrs import Converter

from meetcore.domain.errors import NotFound
from meetcore.domain.money.ledger import Entry, Funds, open_account
from meetcore.domain.money.rows import EntryRow, from_row, to_row
from meetcore.domain.money.views import AccountPostings, OperationsView
from meetcore.domain.requests.views import NewAccount

from .connection import Connection, Database

__all__ = ["SqliteAccountRegistry", "SqliteLedgerStore", "SqlitePostingRepository", "entries_of"]

_ADD_ACCOUNT = """
INSERT INTO accounts (id, user_id, email, full_name, created_at, balance, held, low_threshold, is_low,
    entries, last_hash, last_at)
VALUES (:id, :user_id, :email, :full_name, :created_at, :balance, :held, :low_threshold, :is_low,
    :entries, :last_hash, :last_at)
"""

# An account's funds.
_LOAD_FUNDS = """
SELECT id AS account_id, balance, held, low_threshold, is_low, entries, last_hash, last_at
FROM accounts WHERE id = :account_id
"""

# The funds that were decided. The threshold is the registry's to change, not the ledger's.
_WRITE_FUNDS = """
UPDATE accounts SET balance = :balance, held = :held, is_low = :is_low, entries = :entries,
    last_hash = :last_hash, last_at = :last_at
WHERE id = :account_id
"""

# The entry of an operation, by its permanent name.
_ENTRY_OF = "SELECT * FROM entries WHERE account_id = :account_id AND operation = :operation"

_ENTRIES_OF = "SELECT * FROM entries WHERE account_id = :account_id ORDER BY number"

# One transfer, both legs. The table's keys refuse a second number, transfer, operation or reversal.
_APPEND_ENTRY = """
INSERT INTO entries (account_id, number, transfer_id, operation, kind, amount, source, destination,
    reference_type, reference_id, reverses, api_key_id, cap_day, balance_after, at, hash, key_id)
VALUES (:account_id, :number, :transfer_id, :operation, :kind, :amount, :source, :destination,
    :reference_type, :reference_id, :reverses, :api_key_id, :cap_day, :balance_after, :at, :hash, :key_id)
"""

# A column has the name of the field that it keeps, so that one converter reads and writes every record.
_converter = Converter()
_converter.register_unstructure_hook(UUID, str)
_converter.register_structure_hook(UUID, lambda stored, _: UUID(stored))
_converter.register_unstructure_hook(datetime, datetime.isoformat)
_converter.register_structure_hook(datetime, lambda stored, _: datetime.fromisoformat(stored))
_converter.register_unstructure_hook(date, date.isoformat)
_converter.register_structure_hook(date, lambda stored, _: date.fromisoformat(stored))


def _entry(row: sqlite3.Row) -> Entry:
    return from_row(_converter.structure(dict(row), EntryRow))


async def entries_of(connection: Connection, account_id: UUID) -> list[Entry]:
    """Read an account's history in the order of its numbers."""
    return [_entry(row) for row in await connection.execute(_ENTRIES_OF, {"account_id": str(account_id)})]


class SqlitePostingRepository:
    """Top-ups and adjustments on one open transaction. Fills `meetcore.ports.money.PostingRepository`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def load_locked(self, account_id: UUID, operations: Sequence[str]) -> OperationsView:
        """Read an account's funds, and the entries of these operations."""
        funds = await self._funds(account_id)
        if funds is None:
            raise NotFound("No account with this id.")
        found = {each: await self._entry_of(account_id, each) for each in operations}
        return OperationsView(funds, {name: entry for name, entry in found.items() if entry is not None})

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        """Append where the funds are as they were. No delivery is due: there are no endpoints."""
        written = [each.before.account_id for each in postings if await self._append(each)]
        return dict.fromkeys(written, 0)

    async def _append(self, postings: AccountPostings) -> bool:
        account_id = postings.before.account_id
        if await self._funds(account_id) != postings.before:
            return False
        for entry in postings.entries:
            if await self._entry_of(account_id, entry.transfer.operation) is not None:
                return False
        for entry in postings.entries:
            await self._connection.execute(_APPEND_ENTRY, _converter.unstructure(to_row(entry)))
        await self._connection.execute(_WRITE_FUNDS, _converter.unstructure(postings.after))
        return True

    async def _funds(self, account_id: UUID) -> Funds | None:
        found = await self._connection.execute(_LOAD_FUNDS, {"account_id": str(account_id)})
        return _converter.structure(dict(found[0]), Funds) if found else None

    async def _entry_of(self, account_id: UUID, operation: str) -> Entry | None:
        about = {"account_id": str(account_id), "operation": operation}
        found = await self._connection.execute(_ENTRY_OF, about)
        return _entry(found[0]) if found else None


class SqliteAccountRegistry:
    """Opens accounts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add_account(self, account: NewAccount) -> None:
        """Open an account with empty funds.

        Raises:
            sqlite3.IntegrityError: its id or its e-mail address is in use.
        """
        funds = _converter.unstructure(open_account(account.id, account.low_threshold))
        await self._connection.execute(_ADD_ACCOUNT, funds | _converter.unstructure(account))


class SqliteLedgerTransaction:
    """An open transaction."""

    def __init__(self, connection: Connection) -> None:
        self.registry = SqliteAccountRegistry(connection)
        self.postings = SqlitePostingRepository(connection)


class SqliteLedgerStore:
    """Opens transactions on a file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[SqliteLedgerTransaction]:
        """A clean exit commits, an exception rolls back."""
        async with self._database.transaction() as connection:
            yield SqliteLedgerTransaction(connection)
