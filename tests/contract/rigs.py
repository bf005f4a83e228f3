"""A store under test: its ports, and a look behind them at what no port tells.

`MemoryRig` and `PostgresRig` answer alike, so that one suite runs against both.
"""

from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

import psycopg
from attrs import evolve
from psycopg.types.json import Jsonb

from meetcore.adapters.memory.audit import MemoryLedgerAudit
from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.memory.housekeeping import MemoryHousekeeping
from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.registry import MemoryRegistry
from meetcore.adapters.memory.state import ConstraintBroken, MemoryState
from meetcore.adapters.memory.store import MemoryStore
from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.housekeeping import PostgresHousekeeping
from meetcore.adapters.postgres.ledger import TRANSFER_COLUMNS
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.registry import PostgresRegistry
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.domain.deliveries import Delivery
from meetcore.domain.hosts import Host
from meetcore.domain.ledger import Entry, legs
from meetcore.ports.audit import LedgerAudit
from meetcore.ports.cipher import Cipher
from meetcore.ports.housekeeping import Housekeeping
from meetcore.ports.queries import Queries
from meetcore.ports.registry import Registry
from meetcore.ports.store import Store

__all__ = ["MemoryRig", "PostgresRig", "Rig", "until_somebody_waits"]

START = datetime(2026, 12, 1, 2, tzinfo=UTC)


class Rig(Protocol):
    """The three ports of one store. `refusal` is what it raises where a constraint is broken."""

    store: Store
    queries: Queries
    registry: Registry
    housekeeping: Housekeeping
    audit: LedgerAudit
    refusal: type[Exception]

    async def age_keys(self, seconds: float) -> None:
        """Let every idempotency key be so much older."""

    async def tamper(self, account_id: UUID, number: int) -> None:
        """Write a greater balance into an entry, as a thief with the database's password would."""

    def now(self) -> datetime:
        """The store's time, at most a moment old."""

    async def reset(self) -> None:
        """Forget hosts, meetings, endpoints and deliveries, which tests share; never the ledger."""

    async def plant(self, *hosts: Host) -> None:
        """Put hosts in place as they are, with their uses."""

    async def entries(self, account_id: UUID) -> list[Entry]:
        """An account's history in the order of its numbers."""

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        """Both sides of each of an account's transfers."""

    async def holds(self, account_id: UUID) -> list[int]:
        """The amounts of an account's open holds."""

    async def deliveries(self, account_id: UUID) -> dict[UUID, Delivery]:
        """An account's deliveries by id."""

    async def attempts(self, account_id: UUID) -> list[int]:
        """The numbers of all attempts on an account's deliveries."""


class MemoryRig:
    """The memory adapter, its clock standing still."""

    refusal: type[Exception] = ConstraintBroken

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.state = MemoryState()
        self.store: Store = MemoryStore(self.clock, SeededEntropy(1), self.state)
        self.queries: Queries = MemoryQueries(self.state)
        self.registry: Registry = MemoryRegistry(self.state)
        self.housekeeping: Housekeeping = MemoryHousekeeping(self.state, self.clock)
        self.audit: LedgerAudit = MemoryLedgerAudit(self.state)

    async def age_keys(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def tamper(self, account_id: UUID, number: int) -> None:
        async with self.state.change() as tables:
            entry = tables.entries[account_id, number]
            tables.entries[account_id, number] = evolve(entry, balance_after=entry.balance_after + 1)

    def now(self) -> datetime:
        return self.clock.now()

    async def reset(self) -> None:
        async with self.state.change() as tables:
            tables.hosts.clear()
            tables.meetings.clear()
            tables.reservations.clear()
            tables.endpoints.clear()
            tables.events.clear()
            tables.deliveries.clear()
            tables.attempts.clear()

    async def plant(self, *hosts: Host) -> None:
        async with self.state.change() as tables:
            tables.hosts.update({host.id: host for host in hosts})

    async def entries(self, account_id: UUID) -> list[Entry]:
        found = self.state.committed.entries
        return [found[name] for name in sorted(found) if name[0] == account_id]

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        entries = await self.entries(account_id)
        return [(leg.book.value, leg.amount) for entry in entries for leg in legs(entry.transfer)]

    async def holds(self, account_id: UUID) -> list[int]:
        return [hold.amount for name, hold in self.state.committed.holds.items() if name[0] == account_id]

    async def deliveries(self, account_id: UUID) -> dict[UUID, Delivery]:
        stored = self.state.committed.deliveries.items()
        return {name[1]: one.delivery for name, one in stored if name[0] == account_id}

    async def attempts(self, account_id: UUID) -> list[int]:
        return [name[2] for name in self.state.committed.attempts if name[0] == account_id]


class PostgresRig:
    """The Postgres adapter on a pool whose database nobody else uses."""

    refusal: type[Exception] = psycopg.IntegrityError

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self.pool = pool
        self.store: Store = PostgresStore(pool, cipher)
        self.queries: Queries = PostgresQueries(pool, cipher)
        self.registry: Registry = PostgresRegistry(pool)
        self.housekeeping: Housekeeping = PostgresHousekeeping(pool)
        self.audit: LedgerAudit = PostgresLedgerAudit(pool)
        self._cipher = cipher

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def rows(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        """What a statement returns."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(query, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def age_keys(self, seconds: float) -> None:
        await self.rows(
            """UPDATE idempotency_keys SET created_at = created_at - %(s)s * interval '1 second',
                lease_until = lease_until - %(s)s * interval '1 second'""",
            s=seconds,
        )

    async def tamper(self, account_id: UUID, number: int) -> None:
        async with self.pool.connection() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(
                """UPDATE ledger_entries SET balance_after = balance_after + 1
                WHERE account_id = %s AND number = %s AND book = 'customer'""",
                (account_id, number),
            )

    async def reset(self) -> None:
        await self.rows(
            """TRUNCATE hosts, meetings, host_reservations, webhook_endpoints, events, deliveries,
                delivery_attempts"""
        )

    async def plant(self, *hosts: Host) -> None:
        await self.rows(
            """INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, uses, is_active, created_at)
            SELECT *, now() FROM jsonb_to_recordset(%(hosts)s) AS h (id uuid, provider_user_id text,
                capacity int, max_concurrent int, uses bigint, is_active boolean)""",
            hosts=Jsonb(
                [
                    {
                        "id": str(host.id),
                        "provider_user_id": host.provider_user_id,
                        "capacity": host.capacity,
                        "max_concurrent": host.max_concurrent,
                        "uses": host.uses,
                        "is_active": host.is_active,
                    }
                    for host in hosts
                ]
            ),
        )

    async def entries(self, account_id: UUID) -> list[Entry]:
        found = await self.rows(
            f"""SELECT e.account_id, {TRANSFER_COLUMNS}, e.number, e.amount AS entry_amount, e.balance_after,
                e.at AS entry_at, e.hash
            FROM ledger_entries e
            JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
            WHERE e.account_id = %(account_id)s AND e.book = 'customer' ORDER BY e.number""",
            account_id=account_id,
        )
        return [entry for row in found if (entry := rows.entry(row))]

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        found = await self.rows(
            "SELECT book, amount FROM ledger_entries WHERE account_id = %(account_id)s", account_id=account_id
        )
        return [(row["book"], row["amount"]) for row in found]

    async def holds(self, account_id: UUID) -> list[int]:
        found = await self.rows(
            "SELECT amount FROM ledger_holds WHERE account_id = %(account_id)s", account_id=account_id
        )
        return [row["amount"] for row in found]

    async def deliveries(self, account_id: UUID) -> dict[UUID, Delivery]:
        found = await self.rows(
            """SELECT id AS delivery_id, account_id, endpoint_id, event_id, event_kind,
                status AS delivery_status, attempts_made, due_at, held_at, created_at AS delivery_created_at
            FROM deliveries WHERE account_id = %(account_id)s""",
            account_id=account_id,
        )
        return {row["delivery_id"]: rows.delivery(row) for row in found}

    async def attempts(self, account_id: UUID) -> list[int]:
        found = await self.rows(
            "SELECT number FROM delivery_attempts WHERE account_id = %(account_id)s", account_id=account_id
        )
        return [row["number"] for row in found]


async def until_somebody_waits(rig: Rig) -> None:
    """Until a transaction waits for a lock of ours; in memory they wait before they begin."""
    if not isinstance(rig, PostgresRig):
        return
    asked = """SELECT count(*) AS waiting FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    while (await rig.rows(asked))[0]["waiting"] == 0:
        pass
