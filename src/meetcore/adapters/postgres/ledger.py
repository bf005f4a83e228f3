"""Money in PostgreSQL: the account's lock, the funds, transfers with both legs.

A transfer's legs are two rows under one number; the house's leg needs no running balance, because
the house's books are summed, not spent from.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.errors import NotFound
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.webhooks.events import Event
from meetcore.ports.cipher import Cipher
from meetcore.ports.store import LedgerView

__all__ = [
    "APPEND_ENTRY",
    "GUARD_LOCKED",
    "LOCK_ACCOUNT",
    "TRANSFER_COLUMNS",
    "WRITE_FUNDS",
    "PostgresLedgerRepository",
    "entry_parameters",
    "fetch_locked",
    "funds_parameters",
]

# Takes the account's lock and reads its funds. Rows of other tables in the same statement come
# from a snapshot taken before the lock was waited for: `seen_version` shows it.
LOCK_ACCOUNT = """
    locked AS MATERIALIZED (
        SELECT id AS account_id, version, balance, held, low_threshold, is_low, entries, last_hash, last_at
        FROM accounts WHERE id = %(account_id)s FOR NO KEY UPDATE
    )"""

TRANSFER_COLUMNS = """
    t.id AS transfer_id, t.operation, t.kind, t.amount, t.source, t.destination, t.reference_type,
    t.reference_id, t.reverses, t.api_key_id AS transfer_api_key_id, t.cap_day"""

# What stands under the account's lock already needs no further condition to be written.
GUARD_LOCKED = """
    guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id)"""

# Appends a transfer, and its customer's and its house's leg under one number.
APPEND_ENTRY = """
    transfer AS (
        INSERT INTO ledger_transfers (account_id, id, operation, kind, amount, source, destination,
            reference_type, reference_id, reverses, api_key_id, cap_day)
        SELECT account_id, %(transfer_id)s, %(operation)s, %(kind)s, %(amount)s, %(source)s, %(destination)s,
            %(reference_type)s, %(reference_id)s, %(reverses)s, %(transfer_api_key_id)s, %(cap_day)s
        FROM guard
    ), entry AS (
        INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash, chain_key)
        SELECT account_id, %(number)s, leg.book, %(transfer_id)s, leg.amount, leg.balance_after, %(at)s, leg.hash,
            leg.chain_key
        FROM guard CROSS JOIN (VALUES
            ('customer', %(signed)s::bigint, %(balance)s::bigint, %(hash)s::bytea, %(chain_key)s::bytea),
            (%(house)s, -%(signed)s::bigint, NULL, NULL, NULL)) AS leg (book, amount, balance_after, hash, chain_key)
    )"""

# Writes the funds that were decided on and the version, so that waiting readers read again.
WRITE_FUNDS = """
    account AS (
        UPDATE accounts SET balance = %(balance)s, held = %(held)s, is_low = %(is_low)s, entries = %(entries)s,
            last_hash = %(last_hash)s, last_at = %(last_at)s, version = version + 1
        FROM guard WHERE accounts.id = guard.account_id
    )"""

# Reads an account's funds under its lock, and the entry of one operation, if it is in the ledger.
_LOAD = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
       {TRANSFER_COLUMNS}, e.number, e.amount AS entry_amount, e.balance_after, e.at AS entry_at, e.hash, e.chain_key
FROM locked
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.operation = %(operation)s
LEFT JOIN ledger_entries e ON e.account_id = locked.account_id AND e.transfer_id = t.id AND e.book = 'customer'
"""

# Appends one entry with its events, outside any meeting.
_APPEND = f"""
WITH {GUARD_LOCKED}, {APPEND_ENTRY}, {WRITE_FUNDS}, {WRITE_EVENTS}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""


async def fetch_locked(connection: Connection, query: str, parameters: dict[str, Any]) -> rows.Row | None:
    """Read under the account's lock, again if the lock was waited for.

    The former holder of the lock may have changed rows that this snapshot shows; the lock is
    held now, so the second reading is true to the end of the transaction.
    """
    cursor = await connection.execute(query, parameters)
    row = await cursor.fetchone()
    if row is not None and row["seen_version"] != row["version"]:
        cursor = await connection.execute(query, parameters)
        row = await cursor.fetchone()
    return row


def funds_parameters(funds: Funds) -> dict[str, Any]:
    """The parameters of `WRITE_FUNDS`."""
    return {
        "account_id": funds.account_id,
        "balance": funds.balance,
        "held": funds.held,
        "is_low": funds.is_low,
        "entries": funds.entries,
        "last_hash": funds.last_hash,
        "last_at": funds.last_at,
    }


def entry_parameters(entry: Entry) -> dict[str, Any]:
    """The parameters of `APPEND_ENTRY`; `balance` is the funds' after it."""
    transfer = entry.transfer
    house = transfer.source if transfer.signed_amount > 0 else transfer.destination
    return {
        "transfer_id": transfer.id,
        "operation": transfer.operation,
        "kind": transfer.kind.value,
        "amount": transfer.amount,
        "source": transfer.source.value,
        "destination": transfer.destination.value,
        "reference_type": transfer.reference.type,
        "reference_id": transfer.reference.id,
        "reverses": transfer.reverses,
        "transfer_api_key_id": transfer.api_key_id,
        "cap_day": transfer.cap_day,
        "number": entry.number,
        "signed": entry.amount,
        "at": entry.at,
        "hash": entry.hash,
        "chain_key": entry.key_id or None,
        "house": house.value,
    }


def usage_parameters(usage: CapUsage) -> dict[str, Any]:
    """A key's usage of its cap on a day."""
    return {
        "usage_key_id": usage.api_key_id,
        "usage_day": usage.day,
        "usage_spent": usage.spent,
        "usage_held": usage.held,
    }


class PostgresLedgerRepository:
    """Top-ups and adjustments on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def load(self, account_id: UUID, operation: str) -> LedgerView:
        """Take the account's lock; read its funds and the entry of this operation, if any."""
        row = await fetch_locked(self._connection, _LOAD, {"account_id": account_id, "operation": operation})
        if row is None:
            raise NotFound("No account with this id.")
        return LedgerView(rows.funds(row), rows.entry(row))

    async def append(self, funds: Funds, entry: Entry, events: Sequence[Event]) -> int:
        """Append an entry with both legs, the funds after it, the events and their deliveries."""
        parameters = (
            funds_parameters(funds) | entry_parameters(entry) | event_parameters(events, self._cipher)
        )
        cursor = await self._connection.execute(_APPEND, parameters)
        row = await cursor.fetchone()
        return 0 if row is None else int(row["due"])
