"""The Postgres store under test: its ports, and reads behind them of what no port returns."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Any, cast
from uuid import UUID

import psycopg
from attrs import asdict
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from meetcore.adapters.postgres.console import PostgresFigures
from meetcore.adapters.postgres.mails import MAIL, mail
from meetcore.adapters.postgres.members.audit import AUDIT_ENTRY
from meetcore.adapters.postgres.money.rows import ENTRY, TRANSFER, entry
from meetcore.adapters.postgres.money.verification import PostgresLedgerAudit, PostgresVerificationLog
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.requests.registry import PostgresRegistry
from meetcore.adapters.postgres.requests.request_log import PostgresKeyUses, PostgresRequestLog
from meetcore.adapters.postgres.requests.retention import PostgresHousekeeping, PostgresRetention
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.postgres.webhooks.rows import DELIVERY
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.domain.mails.mails import Mail
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.money.ledger import Entry
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.ports.runtime import Cipher
from meetcore.ports.store import Transaction
from meetcore.testing.clock import ManualClock
from tests.support import servers

__all__ = [
    "ENTRIES", "PostgresRig", "StoreClock", "Tampering", "current_rig", "open_rig", "rig_on_its_loop",
    "stored_mails",
]  # fmt: skip


class Tampering(Enum):
    """What an attacker may do to a ledger. `number` is the entry's, where there is one."""

    BALANCE_AFTER = "the entry's balance is one credit too high"
    AMOUNT = "the transfer of the entry, and its legs, move one credit more"
    REVERSES = "the transfer of the entry reverses one that is not there"
    GONE = "the entry is not there, nor is its transfer"
    BALANCE = "the account has one credit more"
    HELD = "one credit more is held of the account"
    USAGE = "every key spent one credit more on every day on which it spent any"


def _json(value: object) -> object:
    return value if value is None or isinstance(value, int) else str(value)


# One entry's legs, and its transfer, for every tampering.
_LEGS = "WHERE account_id = %(account_id)s AND number = %(number)s"
_TRANSFER = f"""WHERE account_id = %(account_id)s AND id = (
    SELECT transfer_id FROM ledger_entries {_LEGS} AND book = 'customer')"""
ENTRIES = f"""SELECT {ENTRY.select}, {TRANSFER.select}
FROM ledger_entries e JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
WHERE e.account_id = %(account_id)s AND e.book = 'customer' ORDER BY e.number"""
"""An account's history, in the order of its numbers."""
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

# The tables, each with whether the schema `seeds` keeps the rows that a migrated database begins with.
_TABLES = """SELECT c.oid::regclass::text AS name, EXISTS (
    SELECT FROM pg_class WHERE relname = c.relname AND relnamespace = to_regnamespace('seeds')) AS has_seeds
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND c.relname <> 'schema_migrations'"""
_VIRTUAL_TIME = """
CREATE SCHEMA virtual_time;
CREATE TABLE virtual_time.present (at timestamptz);
INSERT INTO virtual_time.present VALUES (NULL);
CREATE FUNCTION virtual_time.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT COALESCE((SELECT at FROM virtual_time.present), pg_catalog.clock_timestamp())';
CREATE FUNCTION virtual_time.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT COALESCE((SELECT at FROM virtual_time.present), pg_catalog.statement_timestamp())'"""

CIPHER = AesGcmCipher((bytes(KEY_BYTES),))

_resets: dict[str, str] = {}


def install_virtual_time(url: str) -> None:
    """Give a migrated database functions of time that `StoreClock` sets; until then, the server's."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_VIRTUAL_TIME)
        path = "ALTER DATABASE {} SET search_path = public, virtual_time, pg_catalog"
        connection.execute(sql.SQL(path).format(sql.Identifier(connection.info.dbname)))


class StoreClock(ManualClock):
    """A clock that a process and its database share, from when a store is bound to it."""

    _connection: psycopg.Connection[Any] | None = None

    @property
    def is_bound(self) -> bool:
        return self._connection is not None

    def bind(self, connection: psycopg.Connection[Any]) -> None:
        """Set the database's clock now, and whenever this one is set."""
        self._connection = connection
        self.set(self.now())

    def set(self, at: datetime) -> None:
        """Jump to an instant, aware, in UTC."""
        super().set(at)
        if self._connection is not None:
            self._connection.execute("UPDATE virtual_time.present SET at = %s", [at])


class _EachAlone:
    """The repositories of a transaction, each call in a transaction of its own."""

    def __init__(self, store: PostgresStore, repository: str = "") -> None:
        self._store = store
        self._repository = repository

    def __getattr__(self, name: str) -> Any:
        if not self._repository:
            return _EachAlone(self._store, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            async with self._store.begin() as tx:
                return await getattr(getattr(tx, self._repository), name)(*arguments, **named)

        return call


class PostgresRig:
    """The PostgreSQL adapter on a pool whose database is not shared, with a look behind its ports."""

    refusal: type[Exception] = psycopg.IntegrityError

    def __init__(self, pool: Pool, cipher: Cipher, *, owner: Pool | None = None) -> None:
        """`pool` is for the ports, `owner` for what no port returns: the same one by default."""
        self.pool = pool
        self.owner = pool if owner is None else owner
        self.store = PostgresStore(pool, cipher)
        self.queries = PostgresQueries(pool, cipher)
        self.registry = PostgresRegistry(pool, cipher)
        self.housekeeping = PostgresHousekeeping(pool)
        self.key_uses = PostgresKeyUses(pool)
        self.request_log = PostgresRequestLog(pool)
        self.retention = PostgresRetention(pool)
        self.audit = PostgresLedgerAudit(pool)
        self.figures = PostgresFigures(pool)
        self.verification_log = PostgresVerificationLog(pool)
        self.cipher = cipher
        self.clock = StoreClock(datetime.now(UTC))

    def now(self) -> datetime:
        return self.clock.now() if self.clock.is_bound else datetime.now(UTC)

    def stop_time(self, clock: StoreClock) -> None:
        """Let the store have a test's clock."""
        self.clock = clock
        clock.bind(self.view)

    @property
    def alone(self) -> Transaction:
        """Repositories of which each call is a transaction of its own."""
        return cast("Transaction", _EachAlone(self.store))

    async def rows(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        async with self.owner.connection() as connection:
            cursor = await connection.execute(query, parameters)
            return await cursor.fetchall() if cursor.description is not None else []

    @cached_property
    def view(self) -> psycopg.Connection[dict[str, Any]]:
        """A blocking connection, with which a test looks at the store in between."""
        return psycopg.connect(str(self.owner.conninfo), autocommit=True, row_factory=dict_row)

    def close(self) -> None:
        """Close the blocking connection, if there is one; the pools are closed by their owner."""
        if "view" in self.__dict__:
            self.view.close()

    def read(self, statement: str, **parameters: object) -> list[dict[str, Any]]:
        """Run a statement in between, and return its rows."""
        cursor = self.view.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description is not None else []

    def write(self, statement: str, **parameters: object) -> None:
        """Change the store in between, without triggers and references."""
        with self.view.transaction():
            self.view.execute("SET LOCAL session_replication_role = replica")
            self.view.execute(statement.encode(), parameters)

    def dump(self) -> str:
        """Return everything that is stored, as text."""
        return "".join(str(self.read(f"TABLE {each['name']}")) for each in self.read(_TABLES))

    def audit_log(self) -> list[AuditEntry]:
        """Read every entry of the audit log."""
        rows = self.read(f"SELECT {AUDIT_ENTRY.select}, g.details FROM audit_log g ORDER BY g.id")
        return [AUDIT_ENTRY.read(row, details=row["details"]) for row in rows]

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
        """Make the next round of every removal due."""
        await self.rows("UPDATE retention_progress SET due_at = clock_timestamp()")

    async def reset(self) -> None:
        """Empty every table but for what a migrated database begins with."""
        place = str(self.owner.conninfo)
        if place not in _resets:
            _resets[place] = await self._make_reset()
        async with self.owner.connection() as connection:
            await connection.cursor().execute(_resets[place], prepare=False)

    async def _make_reset(self) -> str:
        """Keep the rows of a database that was just migrated; return the statements that bring it back there.

        They are one transaction without triggers and references. TRUNCATE takes a hundred times as long: it
        makes new files for each table and index, and waits for the disk.
        """
        await self.rows("CREATE SCHEMA IF NOT EXISTS seeds")
        for each in await self.rows(_TABLES):
            if not each["has_seeds"] and await self.rows(f"SELECT 1 FROM {each['name']} LIMIT 1"):
                await self.rows(f"CREATE TABLE seeds.{each['name']} AS TABLE {each['name']}")
        tables = await self.rows(_TABLES)
        statements = ["SET LOCAL session_replication_role = replica"]
        statements += [f"DELETE FROM {each['name']}" for each in tables]
        statements += [f"INSERT INTO {t['name']} TABLE seeds.{t['name']}" for t in tables if t["has_seeds"]]
        return "; ".join(statements)

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

    async def until_lock_contended(self, waiting: int = 1) -> None:
        statement = """SELECT count(*) AS waiting FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'"""
        async with asyncio.timeout(20):
            while (await self.rows(statement))[0]["waiting"] < waiting:
                pass

    async def entries(self, account_id: UUID) -> list[Entry]:
        found = await self.rows(ENTRIES, account_id=account_id)
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
            "SELECT number FROM delivery_attempts WHERE account_id = %(account_id)s UNION ALL"
            " SELECT attempts_made FROM deliveries"
            " WHERE account_id = %(account_id)s AND success_at IS NOT NULL",
            account_id=account_id,
        )
        return [row["number"] for row in found]


_current: PostgresRig | None = None


def current_rig() -> PostgresRig:
    """Return the store of this process on which use cases are tested."""
    assert _current is not None, "the fixture `use_case_store` opens it"
    return _current


@asynccontextmanager
async def open_rig(server_url: str) -> AsyncIterator[PostgresRig]:
    """Open the store that `current_rig` returns, on a database of its own with a clock that tests set."""
    global _current  # harnesses are also made where no fixture reaches, as in parameters of tests
    with servers.migrated_database(server_url) as url:
        install_virtual_time(url)
        pool = make_pool(url, min_size=1, max_size=12, timeout_s=20.0, idle_s=2.0)
        await pool.open()
        _current = PostgresRig(pool, CIPHER)
        try:
            yield _current
        finally:
            _current.close()
            _current = None
            await pool.close()


@contextmanager
def rig_on_its_loop(rig: PostgresRig) -> Iterator[asyncio.Runner]:
    """Open the store again on an event loop of its own, for tests that Hypothesis runs outside of any."""
    global _current
    kept = _current
    pool = make_pool(str(rig.owner.conninfo), min_size=1, max_size=8, timeout_s=20.0, idle_s=2.0)
    with asyncio.Runner() as runner:
        runner.run(pool.open())
        _current = PostgresRig(pool, CIPHER)
        try:
            yield runner
        finally:
            _current.close()
            _current = kept
            runner.run(pool.close())


def stored_mails(rig: PostgresRig) -> list[Mail]:
    """Read the mails, in the order in which they were added."""
    columns = f"{MAIL.select}, m.due_at AS mail_due_at, m.content AS mail_content"
    rows = rig.read(f"SELECT {columns} FROM mails m ORDER BY m.created_at, m.id")
    return [_mail(row, rig.cipher) for row in rows]


def _mail(row: dict[str, Any], cipher: Cipher) -> Mail:
    if row["mail_content"] is None:
        return MAIL.read(row, due_at=row["mail_due_at"], content=None)
    found = mail(row, cipher)
    assert found is not None
    return found
