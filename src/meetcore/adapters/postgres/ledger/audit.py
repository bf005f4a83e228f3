"""Reading the whole ledger in PostgreSQL, in repeatable-read transactions of one moment, portion by portion.

Entries are read as texts in the form that their hash covers, in the binary form and without an object for each id, and they
stream: a cursor would keep each of them once more. That is what lets a hundred thousand of them be proven in a
second. While one chunk is proven the database reads on, as far as the connection's buffers reach.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime
from math import inf
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg import sql

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.adapters.postgres.ledger.parts import FUNDS
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.repository import NEWEST
from meetcore.domain.money.chain_keys import Seal
from meetcore.domain.money.hash_chain import CanonicalEntry
from meetcore.ports.audit import MAX_FLAWS, Flaw, FlawKind, StoredFunds
from meetcore.ports.store import StoreUnavailable

SEAL = Columns(Seal, "s", "seal_", without=("account_id",))

ACCOUNTS_AT_ONCE = 500
ENTRIES_OF_A_PORTION = 50_000
ENTRIES_AT_ONCE = 2_000

# Rows that libpq hands over together; before its version 17 it can give them one by one only.
_ENTRIES_READ_AT_ONCE = 500 if psycopg.capabilities.has_stream_chunked() else 1

# Instants and days as texts in one form, and as long as it takes. Compiling a statement anew for each portion takes
# longer than it gains, and the other cores have entries to prove.
_SETTINGS = (
    "SET LOCAL jit = off",
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL datestyle = 'ISO'",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)

# How many entries customers have in all.
_COUNT = "SELECT count(*) AS entries FROM ledger_entries WHERE book = 'customer'"

# The next accounts by id, each with the sum of its open holds.
_ACCOUNTS = f"""
SELECT {FUNDS.select}, {SEAL.select},
    COALESCE((SELECT sum(h.amount) FROM ledger_holds h WHERE h.account_id = a.id), 0)::bigint AS open_holds
FROM accounts a LEFT JOIN ledger_seals s ON s.account_id = a.id WHERE a.id > %(after)s ORDER BY a.id LIMIT %(limit)s
"""

# Entries in the order of their index, each with its transfer looked up: whatever else the planner would rather do sorts
# the whole ledger first. The texts of instants and days are those of the settings, and cheaper than to_char.
_SET_SEQUENTIAL = """
SELECT set_config('enable_hashjoin', %(way)s, true), set_config('enable_mergejoin', %(way)s, true),
    set_config('enable_sort', %(way)s, true)
"""

# Seals accounts that have no seal yet.
_SEAL = f"""
INSERT INTO ledger_seals (account_id, {SEAL.names}, sealed_at) VALUES (%(account_id)s, {SEAL.values}, %(at)s)
ON CONFLICT DO NOTHING
"""

# How many accounts are sealed.
_COUNT_SEALS = "SELECT count(*) AS seals FROM ledger_seals"

# What compares whole tables does it by hashing them: a lookup for each row takes twice as long. Its memory is bounded.
_COMPARE = """
SELECT set_config('enable_nestloop', %(loops)s, true), set_config('work_mem', '64MB', true)
"""

# The customer entries of a range of accounts with their transfers, column by column an CanonicalEntry.
_ENTRIES = """
SELECT encode(uuid_send(e.account_id), 'hex'), e.number, e.amount, e.balance_after,
    CASE WHEN length(e.at::text) IN (22, 29) THEN replace(e.at::text, ' ', 'T') || ':00'
        ELSE to_char(e.at, 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00' END, e.hash,
    encode(uuid_send(t.id), 'hex'), t.operation, t.kind, t.amount, t.source, t.destination,
    t.reference_type, t.reference_id, COALESCE(encode(uuid_send(t.reverses), 'hex'), ''),
    COALESCE(encode(uuid_send(t.api_key_id), 'hex'), ''), COALESCE(t.cap_day::text, ''), COALESCE(e.chain_key, '')
FROM ledger_entries e JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
WHERE e.account_id BETWEEN %(first)s AND %(last)s AND e.book = 'customer' ORDER BY e.account_id, e.number
"""

# The accounts that a comparison is of: all, or those of a span of ids.
_EVERY, _SPAN = "every", "span"


def _within(span: str, *tables: str) -> str:
    """Return the condition that rows of these tables are of the accounts of a comparison."""
    if span == _EVERY:
        return "TRUE"
    return " AND ".join(f"{table}.account_id BETWEEN %(first)s AND %(last)s" for table in tables)


# Whether every leg and every transfer belongs to a customer's and a system's leg that sum to zero, in the books that
# the transfer names.
_IS_BALANCED = {
    span: f"""
SELECT (SELECT count(*) FROM ledger_entries e WHERE {_within(span, "e")}) = 2 * count(*)
    AND (SELECT count(*) FROM ledger_transfers t WHERE {_within(span, "t")}) = count(*) AS is_balanced
FROM ledger_entries c
JOIN ledger_entries h ON h.account_id = c.account_id AND h.number = c.number AND h.transfer_id = c.transfer_id
    AND h.amount = -c.amount
JOIN ledger_transfers t ON t.account_id = c.account_id AND t.id = c.transfer_id
    AND h.book = CASE WHEN t.source = 'customer' THEN t.destination ELSE t.source END
WHERE c.book = 'customer' AND h.book <> 'customer' AND {_within(span, "c", "h", "t")}
"""
    for span in (_EVERY, _SPAN)
}

# Transfers that have not the two legs of their books, and legs without a transfer.
_UNBALANCED = {
    span: f"""
SELECT COALESCE(t.account_id, e.account_id) AS account_id, COALESCE(t.id, e.transfer_id) AS transfer_id, e.number
FROM (SELECT * FROM ledger_transfers t WHERE {_within(span, "t")}) AS t FULL JOIN (
    SELECT account_id, transfer_id, min(number) AS number, sum(amount) AS total, min(book) AS one, max(book) AS other
    FROM ledger_entries e WHERE {_within(span, "e")} GROUP BY account_id, transfer_id HAVING count(*) = 2
    UNION ALL
    SELECT account_id, transfer_id, min(number), NULL, NULL, NULL
    FROM ledger_entries e WHERE {_within(span, "e")} GROUP BY account_id, transfer_id HAVING count(*) <> 2
) e ON e.account_id = t.account_id AND e.transfer_id = t.id
WHERE (e.total = 0 AND e.one = least(t.source, t.destination) AND e.other = greatest(t.source, t.destination))
    IS NOT TRUE
LIMIT %(limit)s
"""
    for span in (_EVERY, _SPAN)
}

# Refunds and what they give back, where that is no meeting's charge, or less, or given back by another too.
_REFUNDS = {
    span: f"""
WITH bad AS MATERIALIZED (
    SELECT r.account_id, r.id, CASE WHEN c.kind IS DISTINCT FROM 'meeting_charge' THEN 'NO_CHARGE'
        WHEN r.amount > c.amount THEN 'TOO_MUCH' ELSE 'RETURNED_BEFORE' END AS kind
    FROM (
        SELECT t.account_id, t.id, t.amount, t.reverses, count(*) OVER (PARTITION BY account_id, reverses) AS doubles
        FROM ledger_transfers t WHERE t.reverses IS NOT NULL AND {_within(span, "t")}
        UNION ALL
        SELECT t.account_id, t.id, t.amount, NULL, 1 FROM ledger_transfers t
        WHERE t.reverses IS NULL AND t.kind = 'meeting_refund' AND {_within(span, "t")}
    ) r LEFT JOIN ledger_transfers c ON c.account_id = r.account_id AND c.id = r.reverses
    WHERE c.kind IS DISTINCT FROM 'meeting_charge' OR r.amount > c.amount OR r.doubles > 1
    LIMIT %(limit)s
)
SELECT bad.account_id, bad.id AS transfer_id, bad.kind, e.number
FROM bad LEFT JOIN ledger_entries e
    ON e.account_id = bad.account_id AND e.transfer_id = bad.id AND e.book = 'customer'
"""
    for span in (_EVERY, _SPAN)
}

# What was spent and is held under each cap on each day, less what is stored of it, where that leaves anything. The
# keys that were rolled from one share its cap: they are summed once more, and only where a key alone leaves something.
_USAGE = {
    span: f"""
SELECT remaining.account_id, COALESCE(k.first_key_id, api_key_id) AS api_key_id, day FROM (
    SELECT account_id, api_key_id, day, sum(spent) AS spent, sum(held) AS held FROM (
        SELECT account_id, api_key_id, cap_day AS day,
            CASE WHEN source = 'customer' THEN amount ELSE -amount END AS spent, 0::bigint AS held
        FROM ledger_transfers t WHERE api_key_id IS NOT NULL AND {_within(span, "t")}
        UNION ALL SELECT account_id, api_key_id, cap_day, 0, amount FROM ledger_holds h WHERE {_within(span, "h")}
        UNION ALL SELECT account_id, api_key_id, day, -spent, -held FROM cap_usage u WHERE {_within(span, "u")}
    ) AS recorded
    GROUP BY account_id, api_key_id, day HAVING sum(spent) <> 0 OR sum(held) <> 0
) AS remaining LEFT JOIN api_keys k ON k.id = api_key_id
GROUP BY 1, 2, 3 HAVING sum(spent) <> 0 OR sum(held) <> 0 LIMIT %(limit)s
"""
    for span in (_EVERY, _SPAN)
}


def _canonical_entry(_: Any) -> Callable[[Sequence[Any]], CanonicalEntry]:
    return CanonicalEntry._make


class PostgresLedgerSnapshot:
    """One moment of the ledger, on one open transaction that others can join by its name."""

    def __init__(self, pool: Pool, connection: Connection, name: str) -> None:
        self._pool = pool
        self._connection = connection
        self._name = name

    @property
    def name(self) -> str:
        """By what another transaction joins this moment, as long as it is open here."""
        return self._name

    async def count_entries(self) -> int:
        row = await (await self._connection.execute(_COUNT)).fetchone()
        return 0 if row is None else int(row["entries"])

    async def accounts(self, after: UUID | None = None) -> AsyncGenerator[Sequence[StoredFunds], None]:
        after = after or UUID(int=0)
        while True:
            parameters = {"after": after, "limit": ACCOUNTS_AT_ONCE}
            found = await (await self._connection.execute(_ACCOUNTS, parameters)).fetchall()
            if not found:
                return
            for portion in _portions([_stored(row) for row in found]):
                yield portion
            after = found[-1]["account_id"]

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        span = {"first": portion[0].funds.account_id, "last": portion[-1].funds.account_id}
        await self._connection.execute(_SET_SEQUENTIAL, {"way": "off"})
        async with self._connection.cursor(row_factory=_canonical_entry) as cursor:
            streaming = cursor.stream(_ENTRIES, span, binary=True, size=_ENTRIES_READ_AT_ONCE)
            # It is a generator: closed, it gives the connection back.
            async with aclosing(cast("AsyncGenerator[CanonicalEntry, None]", streaming)) as entries:
                chunk: list[CanonicalEntry] = []
                async for entry in entries:
                    chunk.append(entry)
                    if len(chunk) == ENTRIES_AT_ONCE:
                        yield chunk
                        chunk = []
                if chunk:
                    yield chunk
        await self._connection.execute(_SET_SEQUENTIAL, {"way": "on"})

    async def flaws_of_span(self, after: UUID | None, last: UUID | None) -> Sequence[Flaw]:
        first = UUID(int=0) if after is None else UUID(int=min(after.int + 1, NEWEST.int))
        return await _flaws(self._connection, {"first": first, "last": last or NEWEST})

    async def flaws(self) -> Sequence[Flaw]:
        if self._pool.max_size < 2:
            return await _flaws(self._connection)
        async with self._pool.connection(deadline_s=inf) as connection, connection.transaction():
            await _begin_reading(connection, self._name)
            return await _flaws(connection)


def _stored(row: Row) -> StoredFunds:
    sealed = SEAL.find(row, account_id=row["account_id"])
    return StoredFunds(FUNDS.read(row), row["open_holds"], sealed)


def _portions(stored: Sequence[StoredFunds]) -> Iterator[Sequence[StoredFunds]]:
    """Cut where the work gets too much; what an account stores of the number of its entries is near enough."""
    portion: list[StoredFunds] = []
    work = 0
    for each in stored:
        if portion and work + each.funds.entries > ENTRIES_OF_A_PORTION:
            yield portion
            portion, work = [], 0
        portion.append(each)
        work += each.funds.entries
    yield portion


async def _flaws(connection: Connection, accounts: Row | None = None) -> list[Flaw]:
    span, parameters = (_EVERY, {}) if accounts is None else (_SPAN, accounts)

    async def rows_of(statements: Mapping[str, str]) -> list[Row]:
        cursor = await connection.execute(statements[span], parameters | {"limit": MAX_FLAWS})
        return await cursor.fetchall()

    await connection.execute(_COMPARE, {"loops": "off"})
    is_balanced = (await rows_of(_IS_BALANCED))[0]["is_balanced"]
    await connection.execute(_COMPARE, {"loops": "on"})
    found = [
        Flaw(row["account_id"], FlawKind.UNBALANCED, f"transfer {row['transfer_id']}", row["number"])
        for row in ([] if is_balanced else await rows_of(_UNBALANCED))
    ]
    found += [
        Flaw(row["account_id"], FlawKind[row["kind"]], f"transfer {row['transfer_id']}", row["number"])
        for row in await rows_of(_REFUNDS)
    ]
    return found + [
        Flaw(row["account_id"], FlawKind.USAGE, f"the usage of key {row['api_key_id']} on {row['day']}")
        for row in await rows_of(_USAGE)
    ]


async def _begin_reading(connection: Connection, snapshot: str | None = None) -> str:
    """See one moment for as long as it takes: this one, or that of another's snapshot; its name for others."""
    await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    if snapshot is not None:
        await _join(connection, snapshot)
    for setting in _SETTINGS:
        await connection.execute(setting)
    row = await (await connection.execute("SELECT pg_export_snapshot() AS name")).fetchone()
    assert row is not None
    return str(row["name"])


async def _join(connection: Connection, snapshot: str) -> None:
    try:
        await connection.execute(
            sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)).as_string()
        )
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as error:
        raise StoreUnavailable("the moment that was to be joined is over") from error


class PostgresLedgerAudit:
    """Opens snapshots."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def snapshot(self) -> AbstractAsyncContextManager[PostgresLedgerSnapshot]:
        """The ledger at this moment, while others write on."""
        return self._reading(None)

    def joined(self, name: str) -> AbstractAsyncContextManager[PostgresLedgerSnapshot]:
        """The moment of another's snapshot, in this process or in another."""
        return self._reading(name)

    async def count_seals(self) -> int:
        with translated():
            async with self._pool.connection() as connection:
                row = await (await connection.execute(_COUNT_SEALS)).fetchone()
                return 0 if row is None else int(row["seals"])

    async def add_seals(self, seals: Sequence[Seal], at: datetime) -> None:
        parameters = [SEAL.parameters(each) | {"account_id": each.account_id, "at": at} for each in seals]
        with translated():
            async with (
                self._pool.connection() as connection,
                connection.transaction(),
                connection.cursor() as cursor,
            ):
                await cursor.executemany(_SEAL, parameters)

    @asynccontextmanager
    async def _reading(self, name: str | None) -> AsyncIterator[PostgresLedgerSnapshot]:
        with translated():
            async with self._pool.connection(deadline_s=inf) as connection, connection.transaction():
                yield PostgresLedgerSnapshot(self._pool, connection, await _begin_reading(connection, name))
