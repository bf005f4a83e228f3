"""Reading the whole ledger in memory. A snapshot is the committed tables at one moment."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from itertools import count
from uuid import UUID

from meetcore.adapters.memory.ledger import cap_key_of
from meetcore.adapters.memory.state import MemoryState, Tables
from meetcore.domain.money.chain_keys import Seal
from meetcore.domain.money.hash_chain import CanonicalEntry, canonical_entry
from meetcore.domain.money.ledger import Entry, TransferKind, legs
from meetcore.ports.audit import Flaw, FlawKind, StoredFunds
from meetcore.ports.store import StoreUnavailable


class MemoryLedgerSnapshot:
    """One moment of the ledger."""

    def __init__(self, tables: Tables, name: str = "") -> None:
        self._tables = tables
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def count_entries(self) -> int:
        return len(self._tables.entries)

    async def accounts(self, after: UUID | None = None) -> AsyncGenerator[Sequence[StoredFunds], None]:
        for account_id, account in sorted(self._tables.accounts.items()):
            if after is not None and account_id <= after:
                continue
            held = sum(hold.amount for name, hold in self._tables.holds.items() if name[0] == account_id)
            yield [StoredFunds(account.funds, held, self._tables.seals.get(account_id))]

    async def entries(self, portion: Sequence[StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        wanted = {stored.funds.account_id for stored in portion}
        yield [
            canonical_entry(self._tables.entries[name])
            for name in sorted(self._tables.entries)
            if name[0] in wanted
        ]

    async def flaws_of_span(self, after: UUID | None, last: UUID | None) -> Sequence[Flaw]:
        return [
            each
            for each in await self.flaws()
            if (after is None or each.account_id > after) and (last is None or each.account_id <= last)
        ]

    async def flaws(self) -> Sequence[Flaw]:
        return [*self._unbalanced(), *self._refunds(), *self._usage()]

    def _unbalanced(self) -> Iterator[Flaw]:
        """Return no flaws: legs are derived here."""
        for entry in self._tables.entries.values():
            if sum(leg.amount for leg in legs(entry.transfer)):
                yield _flaw(entry, FlawKind.UNBALANCED)

    def _refunds(self) -> Iterator[Flaw]:
        entries = self._tables.entries.values()
        moved = {(entry.account_id, entry.transfer.id): entry.transfer for entry in entries}
        doubles = Counter((entry.account_id, entry.transfer.reverses) for entry in entries)
        for entry in entries:
            reverses = entry.transfer.reverses
            if reverses is None and entry.transfer.kind is not TransferKind.MEETING_REFUND:
                continue
            charge = None if reverses is None else moved.get((entry.account_id, reverses))
            if charge is None or charge.kind is not TransferKind.MEETING_CHARGE:
                yield _flaw(entry, FlawKind.NO_CHARGE)
            elif entry.transfer.amount > charge.amount:
                yield _flaw(entry, FlawKind.TOO_MUCH)
            elif doubles[entry.account_id, reverses] > 1:
                yield _flaw(entry, FlawKind.RETURNED_BEFORE)

    def _usage(self) -> Iterator[Flaw]:
        tables = self._tables
        spent: Counter[tuple[UUID, UUID | None, date | None]] = Counter()
        held: Counter[tuple[UUID, UUID | None, date | None]] = Counter()
        for entry in tables.entries.values():
            if entry.transfer.api_key_id is not None:
                cap_key_id = cap_key_of(tables, entry.transfer.api_key_id)
                spent[entry.account_id, cap_key_id, entry.transfer.cap_day] -= entry.amount
        for (account_id, _), hold in tables.holds.items():
            held[account_id, cap_key_of(tables, hold.api_key_id), hold.cap_day] += hold.amount
        for (account_id, key_id, day), usage in tables.usage.items():
            spent[account_id, key_id, day] -= usage.spent
            held[account_id, key_id, day] -= usage.held
        for name in spent.keys() | held.keys():
            if spent[name] or held[name]:
                yield Flaw(name[0], FlawKind.USAGE, f"the usage of key {name[1]} on {name[2]}")


def _flaw(entry: Entry, kind: FlawKind) -> Flaw:
    return Flaw(entry.account_id, kind, f"transfer {entry.transfer.id}", entry.number)


class MemoryLedgerAudit:
    """Opens snapshots, and keeps seals."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._open: dict[str, MemoryLedgerSnapshot] = {}
        self._names = count(1)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[MemoryLedgerSnapshot]:
        name = str(next(self._names))
        self._open[name] = MemoryLedgerSnapshot(self._state.committed, name)
        try:
            yield self._open[name]
        finally:
            del self._open[name]

    @asynccontextmanager
    async def joined(self, name: str) -> AsyncIterator[MemoryLedgerSnapshot]:
        if name not in self._open:
            raise StoreUnavailable("the moment that was to be joined is over")
        yield self._open[name]

    async def count_seals(self) -> int:
        return len(self._state.committed.seals)

    async def add_seals(self, seals: Sequence[Seal], at: datetime) -> None:
        async with self._state.change() as tables:
            for each in seals:
                tables.seals.setdefault(each.account_id, each)
