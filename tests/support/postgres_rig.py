"""The Postgres store under test: its ports, and reads behind them of what no port returns."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from attrs import asdict
from psycopg.types.json import Jsonb

from meetcore.adapters.postgres.deliveries.rows import DELIVERY
from meetcore.adapters.postgres.fence import PostgresFence
from meetcore.adapters.postgres.figures import PostgresFigures
from meetcore.adapters.postgres.housekeeping import PostgresHousekeeping
from meetcore.adapters.postgres.key_uses import PostgresKeyUses
from meetcore.adapters.postgres.ledger.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.ledger.parts import ENTRY, TRANSFER, entry
from meetcore.adapters.postgres.ledger.verification import PostgresVerificationLog
from meetcore.adapters.postgres.partitions.maintenance import PostgresPartitions
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.registry import PostgresRegistry
from meetcore.adapters.postgres.request_log import PostgresRequestLog
from meetcore.adapters.postgres.retention import PostgresRetention
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money.ledger import Entry
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.ports.cipher import Cipher
from meetcore.testing.contracts import Tampering

__all__ = ["PostgresRig"]


def _json(value: object) -> object:
    return value if value is None or isinstance(value, int) else str(value)


# One entry's legs, and its transfer, for every tampering.
_LEGS = "WHERE account_id = %(account_id)s AND number = %(number)s"
_TRANSFER = f"""WHERE account_id = %(account_id)s AND id = (
    SELECT transfer_id FROM ledger_entries {_LEGS} AND book = 'customer')"""
_TAMPERINGS = {
    Tampering.BALANCE_AFTER: f"""UPDATE ledger_entries SET balance_after = balance_after + 1
        {_LEGS} AND book = 'customer'""",
    Tampering.AMOUNT: f"""WITH legs AS (UPDATE ledger_entries SET amount = amount + sign(amount)::int {_LEGS})
        UPDATE ledger_transfers SET amount = amount + 1 {_TRANSFER}""",
    Tampering.REVERSES: f"""UPDATE ledger_transfers SET reverses = '00000000-0000-0000-0000-000000000001'
        {_TRANSFER}""",
    Tampering.GONE: f"""WITH transfer AS (DELETE FROM ledger_transfers {_TRANSFER})
        DELETE FROM ledger_entries {_LEGS}""",
    Tampering.BALANCE: "UPDATE accounts SET balance = balance + 1 WHERE id = %(account_id)s",
    Tampering.HELD: "UPDATE accounts SET held = held + 1 WHERE id = %(account_id)s",
    Tampering.USAGE: "UPDATE cap_usage SET spent = spent + 1 WHERE account_id = %(account_id)s",
}

_EMPTIED = (
    "hosts", "account_creations", "meetings", "orphan_checks", "host_reservations", "webhook_endpoints",
    "webhook_account_hosts", "webhook_hosts", "events", "deliveries", "delivery_attempts", "provider_events",
    "recordings", "notes", "transcript_chunks", "mails", "removed_records", "restores",
)  # fmt: skip
_UNVERIFIED = """verification AS (
    UPDATE ledger_verification SET started_at = NULL, after_account = NULL, accounts = 0, entries = 0,
    findings = '{}', due_at = now(), lease_token = NULL, verified_at = NULL, is_sound = true)"""
# One statement, at whose end references are checked. TRUNCATE takes a hundred times as long: it makes new
# files for each table and index, and waits for the disk.
_NO_ROUNDS = "rounds AS (UPDATE retention_progress SET after_id = NULL, started_at = NULL, due_at = now())"
_DELETIONS = ", ".join(f"{table}_ AS (DELETE FROM {table})" for table in _EMPTIED)
_EMPTY = f"WITH {_DELETIONS}, {_UNVERIFIED}, {_NO_ROUNDS} SELECT"


class PostgresRig:
    """The Postgres adapter on a pool whose database is not shared. Fills `contracts.FullRig`."""

    refusal: type[Exception] = psycopg.IntegrityError

    def __init__(self, pool: Pool, cipher: Cipher, *, owner: Pool | None = None) -> None:
        """`pool` is for the ports, `owner` for what no port returns: the same one by default."""
        self.pool = pool
        self.owner = pool if owner is None else owner
        self.store = PostgresStore(pool, cipher)
        self.operator_store = PostgresStore(self.owner, cipher)
        self.fence = PostgresFence(self.owner)
        self.queries = PostgresQueries(pool, cipher)
        self.registry = PostgresRegistry(pool, cipher)
        self.housekeeping = PostgresHousekeeping(pool)
        self.key_uses = PostgresKeyUses(pool)
        self.request_log = PostgresRequestLog(pool)
        self.retention = PostgresRetention(pool)
        self.audit = PostgresLedgerAudit(pool)
        self.figures = PostgresFigures(pool)
        self.verification_log = PostgresVerificationLog(pool)
        self.partitions = PostgresPartitions(str(self.owner.conninfo))
        self.cipher = cipher

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def rows(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        async with self.owner.connection() as connection:
            cursor = await connection.execute(query, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def age_keys(self, seconds: float) -> None:
        await self.rows(
            """UPDATE idempotency_keys SET created_at = created_at - %(s)s * interval '1 second',
                lease_until = lease_until - %(s)s * interval '1 second'""",
            s=seconds,
        )

    async def tamper(self, account_id: UUID, number: int, tampering: Tampering) -> None:
        await self.tamper_with(_TAMPERINGS[tampering], account_id=account_id, number=number)

    async def tamper_with(self, statement: str, **parameters: object) -> None:
        """Change anything, with the triggers off."""
        async with self.owner.connection() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(statement, parameters)

    async def begin_rounds(self) -> None:
        await self.rows("UPDATE retention_progress SET due_at = now()")

    async def reset(self) -> None:
        await self.rows(_EMPTY)

    async def put_hosts(self, *hosts: Host) -> None:
        await self.rows(
            """INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, uses, is_active, creations,
                creations_on, unavailable_until, created_at)
            SELECT *, now() FROM jsonb_to_recordset(%(hosts)s) AS h (id uuid, provider_user_id text,
                capacity int, max_concurrent int, uses bigint, is_active boolean, creations int,
                creations_on date, unavailable_until timestamptz)
            ON CONFLICT (id) DO UPDATE SET (provider_user_id, capacity, max_concurrent, uses, is_active,
                creations, creations_on, unavailable_until) =
                (excluded.provider_user_id, excluded.capacity, excluded.max_concurrent, excluded.uses,
                excluded.is_active, excluded.creations, excluded.creations_on, excluded.unavailable_until)""",
            hosts=Jsonb([{name: _json(value) for name, value in asdict(host).items()} for host in hosts]),
        )

    async def until_lock_contended(self) -> None:
        statement = """SELECT count(*) AS waiting FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'"""
        async with asyncio.timeout(20):
            while (await self.rows(statement))[0]["waiting"] == 0:
                pass

    async def entries(self, account_id: UUID) -> list[Entry]:
        found = await self.rows(
            f"""SELECT {ENTRY.select}, {TRANSFER.select}
            FROM ledger_entries e
            JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
            WHERE e.account_id = %(account_id)s AND e.book = 'customer' ORDER BY e.number""",
            account_id=account_id,
        )
        return [made for row in found if (made := entry(row))]

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
            f"SELECT {DELIVERY.select} FROM deliveries d WHERE account_id = %(account_id)s",
            account_id=account_id,
        )
        return {row["delivery_id"]: DELIVERY.read(row) for row in found}

    async def attempts(self, account_id: UUID) -> list[int]:
        found = await self.rows(
            "SELECT number FROM delivery_attempts WHERE account_id = %(account_id)s", account_id=account_id
        )
        return [row["number"] for row in found]
