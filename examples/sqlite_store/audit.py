"""Reading the whole ledger in SQLite, as it was at one moment, portion by portion."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from uuid import UUID

from meetcore.domain.money.chain_keys import Seal
from meetcore.domain.money.hash_chain import CanonicalEntry, line_of
from meetcore.domain.money.ledger import Funds
from meetcore.ports.audit import MAX_FLAWS, Flaw, FlawKind, StoredFunds
from meetcore.ports.store import StoreUnavailable

from . import rows
from .connection import Connection, Database

__all__ = ["SqliteLedgerAudit"]

ACCOUNTS_AT_ONCE = 500
ENTRIES_AT_ONCE = 1_000

_COUNT = "SELECT count(*) AS entries FROM entries"

# The next accounts by id, each with the sum of its open holds.
_ACCOUNTS = """
SELECT a.id AS account_id, a.balance, a.held, a.low_threshold, a.is_low, a.entries, a.last_hash, a.last_at,
    (SELECT coalesce(sum(h.amount), 0) FROM holds h WHERE h.account_id = a.id) AS open_holds,
    s.entries AS sealed_entries, s.last_hash AS sealed_hash, s.key_id AS seal_key_id, s.mac AS seal_mac
FROM accounts a LEFT JOIN seals s ON s.account_id = a.id WHERE a.id > :after ORDER BY a.id LIMIT :limit
"""

# Seals an account that has no seal yet.
_SEAL = """
INSERT INTO seals (account_id, entries, last_hash, key_id, mac, sealed_at)
VALUES (:account_id, :entries, :last_hash, :key_id, :mac, :at) ON CONFLICT DO NOTHING
"""

_COUNT_SEALS = "SELECT count(*) AS seals FROM seals"

# The next entries of an account.
_ENTRIES = """
SELECT * FROM entries WHERE account_id = :account_id AND number > :after ORDER BY number LIMIT :limit
"""


# Refunds and what they give back, where that is no meeting's charge, or less. None is given back twice: a
# unique key is over what a refund reverses.
_REFUNDS = """
SELECT r.account_id, r.transfer_id AS id, r.number,
    CASE WHEN c.kind IS NOT 'meeting_charge' THEN 'NO_CHARGE' ELSE 'TOO_MUCH' END AS flaw
FROM entries r LEFT JOIN entries c ON c.account_id = r.account_id AND c.transfer_id = r.reverses
WHERE (r.reverses IS NOT NULL OR r.kind = 'meeting_refund')
    AND (c.kind IS NOT 'meeting_charge' OR r.amount > c.amount)
LIMIT :limit
"""

# What each key spent and holds on each day, less what is stored of it, where that leaves anything.
_USAGE = """
SELECT account_id, api_key_id, day FROM (
    SELECT account_id, api_key_id, cap_day AS day,
        CASE WHEN source = 'customer' THEN amount ELSE -amount END AS spent, 0 AS held
    FROM entries WHERE api_key_id IS NOT NULL
    UNION ALL SELECT account_id, api_key_id, cap_day, 0, amount FROM holds
    UNION ALL SELECT account_id, api_key_id, day, -spent, -held FROM cap_usage
) GROUP BY account_id, api_key_id, day HAVING sum(spent) <> 0 OR sum(held) <> 0 LIMIT :limit
"""


class SqliteLedgerSnapshot:
    """One moment of the ledger, on one open transaction that reads."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    @property
    def name(self) -> str:
        """By what another in this process joins this moment, as long as it is open here."""
        return self._name

    async def count_entries(self) -> int:
        """How many entries customers have in all."""
        return sum(row["entries"] for row in await self._connection.fetch(_COUNT, {}))

    async def accounts(self) -> AsyncIterator[Sequence[StoredFunds]]:
        """Every account, in portions."""
        after = ""
        while found := await self._connection.fetch(_ACCOUNTS, {"after": after, "limit": ACCOUNTS_AT_ONCE}):
            yield [_stored(row) for row in found]
            after = found[-1]["account_id"]

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        """The customer entries of these accounts, in chunks, by account, then by number."""
        for stored in portion:
            about = {"account_id": stored.funds.account_id, "limit": ENTRIES_AT_ONCE}
            after = 0
            while found := await self._connection.fetch(_ENTRIES, about | {"after": after}):
                yield [line_of(rows.entry(row)) for row in found]
                after = found[-1]["number"]

    async def flaws(self) -> Sequence[Flaw]:
        """What does not hang together. Legs always do: both of a transfer are one row here."""
        refunds, usage = await self._all(_REFUNDS), await self._all(_USAGE)
        return [
            *(
                Flaw(UUID(row["account_id"]), FlawKind[row["flaw"]], f"transfer {row['id']}", row["number"])
                for row in refunds
            ),
            *(
                Flaw(
                    UUID(row["account_id"]),
                    FlawKind.USAGE,
                    f"the usage of key {row['api_key_id']} on {row['day']}",
                )
                for row in usage
            ),
        ]

    async def _all(self, statement: str) -> list[rows.Row]:
        return await self._connection.fetch(statement, {"limit": MAX_FLAWS})


def _stored(row: rows.Row) -> StoredFunds:
    funds, sealed = rows.record(Funds, row), None
    if row["sealed_entries"] is not None:
        sealed = Seal(
            funds.account_id, row["sealed_entries"], row["sealed_hash"], row["seal_key_id"], row["seal_mac"]
        )
    return StoredFunds(funds, row["open_holds"], sealed)


class SqliteLedgerAudit:
    """Opens snapshots, and keeps seals."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[str, SqliteLedgerSnapshot] = {}
        self._names = count(1)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqliteLedgerSnapshot]:
        """The ledger at this moment, while others write on."""
        async with self._database.snapshot() as connection:
            name = str(next(self._names))
            self._open[name] = SqliteLedgerSnapshot(connection, name)
            try:
                yield self._open[name]
            finally:
                del self._open[name]

    @asynccontextmanager
    async def joined(self, name: str) -> AsyncIterator[SqliteLedgerSnapshot]:
        """The moment of another's snapshot, on the same connection: SQLite shares no moment between two."""
        if name not in self._open:
            raise StoreUnavailable("the moment that was to be joined is over")
        yield self._open[name]

    async def count_seals(self) -> int:
        """How many accounts are sealed."""
        return sum(row["seals"] for row in await self._database.reader.fetch(_COUNT_SEALS, {}))

    async def add_seals(self, seals: Sequence[Seal], at: datetime) -> None:
        """Keep seals; one that an account has already stays."""
        async with self._database.transaction() as connection:
            for each in seals:
                await connection.change(_SEAL, rows.fields_of(each) | {"at": at})
