"""Money in SQLite: the funds, and entries that nothing changes once they are there.

The account's lock is the transaction itself (see `connection`), so reading under it is reading.
"""

from collections.abc import Sequence
from uuid import UUID

from meetcore.domain.errors import NotFound
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.store import LedgerView

from . import rows
from .connection import Connection
from .outbox import write_events

__all__ = ["SqliteLedgerRepository", "append_entry", "entry_of", "load_funds", "write_funds", "write_usage"]

# An account's funds.
_LOAD_FUNDS = """
SELECT id AS account_id, balance, held, low_threshold, is_low, entries, last_hash, last_at
FROM accounts WHERE id = :account_id
"""

# The entry of an operation, by its permanent name.
_ENTRY_OF = "SELECT * FROM entries WHERE account_id = :account_id AND operation = :operation"

# One transfer, both legs. The table's keys refuse a second number, transfer, operation or reversal.
_APPEND_ENTRY = """
INSERT INTO entries (account_id, number, transfer_id, operation, kind, amount, source, destination,
    reference_type, reference_id, reverses, api_key_id, cap_day, balance_after, at, hash,
    key_id)
VALUES (:account_id, :number, :transfer_id, :operation, :kind, :amount, :source, :destination,
    :reference_type, :reference_id, :reverses, :api_key_id, :cap_day, :balance_after, :at, :hash,
    :key_id)
"""

# The funds that were decided. The threshold is the registry's to change, not the ledger's.
_WRITE_FUNDS = """
UPDATE accounts SET balance = :balance, held = :held, is_low = :is_low, entries = :entries,
    last_hash = :last_hash, last_at = :last_at
WHERE id = :account_id
"""

# What a key spent and holds on a day.
_WRITE_USAGE = """
INSERT INTO cap_usage (account_id, api_key_id, day, spent, held)
VALUES (:account_id, :api_key_id, :day, :spent, :held)
ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = excluded.spent, held = excluded.held
"""


async def load_funds(connection: Connection, account_id: UUID) -> Funds:
    """An account's funds.

    Raises:
        NotFound: no such account.
    """
    row = await connection.fetch_one(_LOAD_FUNDS, {"account_id": account_id})
    if row is None:
        raise NotFound("No account with this id.")
    return rows.record(Funds, row)


async def entry_of(connection: Connection, account_id: UUID, operation: str) -> Entry | None:
    """The entry of an operation, if it is in the ledger."""
    row = await connection.fetch_one(_ENTRY_OF, {"account_id": account_id, "operation": operation})
    return None if row is None else rows.entry(row)


async def append_entry(connection: Connection, entry: Entry) -> None:
    """Append an entry.

    Raises:
        sqlite3.IntegrityError: its number, its transfer or its operation is in the ledger already, or
            it reverses what was reversed before. A defect of the caller, who did not look first.
    """
    moved = rows.fields_of(entry.transfer) | {"transfer_id": entry.transfer.id}
    about = rows.reference_of(entry.transfer)
    await connection.change(_APPEND_ENTRY, rows.fields_of(entry) | moved | about)


async def write_funds(connection: Connection, funds: Funds) -> None:
    """Write the funds that were decided."""
    await connection.change(_WRITE_FUNDS, rows.fields_of(funds))


async def write_usage(connection: Connection, account_id: UUID, usage: CapUsage) -> None:
    """Write what a key spent and holds on a day."""
    await connection.change(_WRITE_USAGE, rows.fields_of(usage) | {"account_id": account_id})


class SqliteLedgerRepository:
    """Top-ups and adjustments on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock, entropy: Entropy) -> None:
        self._connection = connection
        self._clock = clock
        self._entropy = entropy

    async def load(self, account_id: UUID, operation: str) -> LedgerView:
        """An account's funds, and the entry of this operation, if any."""
        funds = await load_funds(self._connection, account_id)
        return LedgerView(funds, await entry_of(self._connection, account_id, operation))

    async def append(self, funds: Funds, entry: Entry, events: Sequence[Event]) -> int:
        """Append an entry, write the funds after it, the events and their deliveries."""
        await append_entry(self._connection, entry)
        await write_funds(self._connection, funds)
        return await write_events(self._connection, self._entropy, events, self._clock.now())
