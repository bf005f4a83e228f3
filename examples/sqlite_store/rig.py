"""The store as the contract suites want it: its ports, and direct access to what no port returns."""

import sqlite3
from datetime import UTC, datetime
from uuid import UUID

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money.ledger import Entry, legs
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.contracts import Tampering

from . import rows
from .audit import SqliteLedgerAudit
from .connection import Database
from .housekeeping import SqliteHousekeeping
from .queries import SqliteQueries
from .registry import SqliteRegistry
from .store import SqliteStore

__all__ = ["SqliteRig"]

START = datetime(2026, 12, 1, 2, tzinfo=UTC)

# What tests share and `reset` empties, the tables that refer to others first.
_SHARED = (
    "DELETE FROM provider_events",
    "DELETE FROM heard_pieces",
    "DELETE FROM notes",
    "DELETE FROM recordings",
    "DELETE FROM delivery_attempts",
    "DELETE FROM deliveries",
    "DELETE FROM events",
    "DELETE FROM endpoints",
    "DELETE FROM host_claims",
    "DELETE FROM host_failures",
    "DELETE FROM host_reservations",
    "DELETE FROM orphan_checks",
    "DELETE FROM meetings",
    "DELETE FROM account_creations",
    "DELETE FROM hosts",
)

_PUT_HOST = """
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, uses, is_active, creations, creations_on,
    rests_until, created_at)
VALUES (:id, :provider_user_id, :capacity, :max_concurrent, :uses, :is_active, :creations, :creations_on,
    :rests_until, 0)
ON CONFLICT (id) DO UPDATE SET provider_user_id = excluded.provider_user_id, capacity = excluded.capacity,
    max_concurrent = excluded.max_concurrent, uses = excluded.uses, is_active = excluded.is_active,
    creations = excluded.creations, creations_on = excluded.creations_on, rests_until = excluded.rests_until
"""

_GUARDS = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'entries'"

_THEFTS = {
    Tampering.BALANCE_AFTER: """UPDATE entries SET balance_after = balance_after + 1
        WHERE account_id = :account_id AND number = :number""",
    Tampering.AMOUNT: """UPDATE entries SET amount = amount + 1
        WHERE account_id = :account_id AND number = :number""",
    Tampering.REVERSES: """UPDATE entries SET reverses = '00000000-0000-0000-0000-000000000001'
        WHERE account_id = :account_id AND number = :number""",
    Tampering.GONE: "DELETE FROM entries WHERE account_id = :account_id AND number = :number",
    Tampering.BALANCE: "UPDATE accounts SET balance = balance + 1 WHERE id = :account_id",
    Tampering.HELD: "UPDATE accounts SET held = held + 1 WHERE id = :account_id",
    Tampering.USAGE: "UPDATE cap_usage SET spent = spent + 1 WHERE account_id = :account_id",
}


class SqliteRig:
    """Every port of one file, under a clock that a test moves. Fills `meetcore.testing.contracts.FullRig`."""

    refusal: type[Exception] = sqlite3.IntegrityError

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = ManualClock(START)
        self.store = SqliteStore(database, self.clock, SeededEntropy(1))
        self.queries = SqliteQueries(database, self.clock)
        self.registry = SqliteRegistry(database)
        self.housekeeping = SqliteHousekeeping(database, self.clock)
        self.audit = SqliteLedgerAudit(database)

    def now(self) -> datetime:
        """The store's time: the clock's."""
        return self.clock.now()

    async def age_keys(self, seconds: float) -> None:
        """Move the clock: keys are as old as it says."""
        self.clock.advance(seconds)

    async def until_lock_contended(self) -> None:
        """Return at once: here a transaction waits before it begins."""

    async def reset(self) -> None:
        """Empty the tables that are not money."""
        async with self.database.transaction() as connection:
            for statement in _SHARED:
                await connection.change(statement, {})

    async def put_hosts(self, *hosts: Host) -> None:
        """Put hosts in place as they are."""
        async with self.database.transaction() as connection:
            for host in hosts:
                await connection.change(_PUT_HOST, rows.fields_of(host))

    async def tamper(self, account_id: UUID, number: int, tampering: Tampering) -> None:
        """Tamper while the triggers that would refuse it are dropped."""
        async with self.database.transaction() as connection:
            guards = await connection.fetch(_GUARDS, {})
            for guard in guards:
                await connection.change(f"DROP TRIGGER {guard['name']}", {})
            await connection.change(_THEFTS[tampering], {"account_id": account_id, "number": number})
            for guard in guards:
                await connection.change(guard["sql"], {})

    async def entries(self, account_id: UUID) -> list[Entry]:
        """An account's history in the order of its numbers."""
        statement = "SELECT * FROM entries WHERE account_id = :account_id ORDER BY number"
        return [rows.entry(row) for row in await self._of(account_id, statement)]

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        """Both legs of each transfer: two columns of one row."""
        return [
            (leg.book.value, leg.amount)
            for entry in await self.entries(account_id)
            for leg in legs(entry.transfer)
        ]

    async def holds(self, account_id: UUID) -> list[int]:
        """The credits of each open hold."""
        statement = "SELECT amount FROM holds WHERE account_id = :account_id"
        return [row["amount"] for row in await self._of(account_id, statement)]

    async def deliveries(self, account_id: UUID) -> dict[UUID, Delivery]:
        """An account's deliveries by their ids."""
        statement = "SELECT * FROM deliveries WHERE account_id = :account_id"
        found = [rows.record(Delivery, row) for row in await self._of(account_id, statement)]
        return {delivery.id: delivery for delivery in found}

    async def attempts(self, account_id: UUID) -> list[int]:
        """The number of every attempt."""
        statement = "SELECT number FROM delivery_attempts WHERE account_id = :account_id"
        return [row["number"] for row in await self._of(account_id, statement)]

    async def _of(self, account_id: UUID, statement: str) -> list[rows.Row]:
        return await self.database.reader.fetch(statement, {"account_id": account_id})
