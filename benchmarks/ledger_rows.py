"""Ledgers that verify, of any length: histories chained entry by entry and copied into accounts.

Top-ups, charges of meetings and of notes, and refunds. The rows are written as the texts that `COPY`
reads, and hashed without a record for each, which takes a third of the time; `credits verify` proves
that the rules agree.
"""

import multiprocessing
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from os import cpu_count
from uuid import UUID

import psycopg
from attrs import define, field, frozen

from benchmarks.late_indexes import without_indexes
from meetcore.domain.money import hash_chain
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.hash_chain import GENESIS, CanonicalEntry

__all__ = ["Owner", "write_histories"]

CREDITS = 10**12
_TOP_UP, _PRICE = 10_000, 10
_CHUNK = 20_000
_NULL = r"\N"
_SPAN_S = 365 * 86_400
_WIB = timedelta(hours=7)

_TRANSFERS = """COPY ledger_transfers (account_id, id, operation, kind, amount, source, destination,
    reference_type, reference_id, reverses, api_key_id, cap_day) FROM STDIN"""
_ENTRIES = (
    "COPY ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash, chain_key)"
    " FROM STDIN"
)
_USAGE = "COPY cap_usage (account_id, api_key_id, day, spent, held) FROM STDIN"
_TOTALS = "COPY ledger_day_totals (account_id, day, kind, credits, entries) FROM STDIN"
_FUNDS = """UPDATE accounts SET balance = %(balance)s, entries = %(entries)s, last_hash = %(last_hash)s,
    last_at = %(last_at)s WHERE id = %(account_id)s"""

# Without the triggers: references hold, and the totals of days are written here.
_OPTIONS = "-c session_replication_role=replica -c synchronous_commit=off -c maintenance_work_mem=1GB"


@frozen
class Owner:
    """An account, and the key that its charges are made with."""

    account_id: UUID
    key_id: UUID


@define
class _History:
    """A history that is being written: its last entry, and the sums that the ledger keeps of it."""

    account: str
    key: str
    balance: int = 0
    number: int = 0
    last_hash: bytes = GENESIS
    last_at: datetime | None = None
    last_charge: CanonicalEntry | None = None
    spent: dict[str, int] = field(factory=lambda: defaultdict(int))
    totals: dict[tuple[str, str], list[int]] = field(factory=lambda: defaultdict(lambda: [0, 0]))


def write_histories(url: str, owners: Sequence[tuple[Owner, int]], key: ChainKey) -> None:
    """Write a history of so many entries to each account, on every core.

    What an account has in its ledger already is taken away first.
    """
    workers = min(len(owners), cpu_count() or 1)
    with psycopg.connect(url, autocommit=True, options=_OPTIONS) as connection:
        _remove_histories(connection, [owner for owner, _ in owners])
        with without_indexes(connection, ("ledger_entries", "ledger_transfers")):
            if workers == 1 or sum(entries for _, entries in owners) < _CHUNK:
                _write_some(url, owners, key)
                return
            with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
                shares = [owners[number::workers] for number in range(workers)]
                list(pool.map(_write_some, [url] * workers, shares, [key] * workers))


def _remove_histories(connection: psycopg.Connection, owners: Sequence[Owner]) -> None:
    accounts = [owner.account_id for owner in owners]
    for table in ("ledger_entries", "ledger_transfers", "ledger_day_totals", "cap_usage"):
        connection.execute(f"DELETE FROM {table} WHERE account_id = ANY(%s)".encode(), (accounts,))


def _write_some(url: str, owners: Sequence[tuple[Owner, int]], key: ChainKey) -> None:
    with psycopg.connect(url, options=_OPTIONS) as connection:
        for owner, entries in owners:
            _write_history(connection, owner, entries, key)
            connection.commit()


def _write_history(connection: psycopg.Connection, owner: Owner, entries: int, key: ChainKey) -> None:
    """Write so many entries for an account that has none."""
    history = _History(owner.account_id.hex, owner.key_id.hex)
    keyed = hash_chain._keyed(key.secret)
    began = datetime.now(UTC).replace(microsecond=271_828) - timedelta(seconds=_SPAN_S + 1)
    for first in range(1, entries + 1, _CHUNK):
        made = []
        for number in range(first, min(first + _CHUNK, entries + 1)):
            history.last_at = began + timedelta(seconds=_SPAN_S * number // entries)
            entry = _next_entry(history, key.id)
            history.last_hash = hash_chain._hashed(history.last_hash, entry, keyed)
            made.append((entry, history.last_hash.hex()))
        _copy(connection, _TRANSFERS, (_transfer_row(entry) for entry, _ in made))
        _copy(connection, _ENTRIES, (_leg_rows(entry, hash_) for entry, hash_ in made))
    account, api_key = owner.account_id, owner.key_id
    _copy(
        connection,
        _USAGE,
        (f"{account}\t{api_key}\t{day}\t{sum_}\t0\n" for day, sum_ in history.spent.items()),
    )
    totals = (f"{account}\t{day}\t{kind}\t{sum_}\t{n}\n" for (day, kind), (sum_, n) in history.totals.items())
    _copy(connection, _TOTALS, totals)
    funds = {"balance": history.balance, "entries": entries, "last_hash": history.last_hash}
    connection.execute(_FUNDS, funds | {"last_at": history.last_at, "account_id": account})


def _next_entry(history: _History, chain_key: bytes) -> CanonicalEntry:
    """A top-up at every thousandth entry, notes at every tenth, before them a refund, else a meeting."""
    history.number = number = history.number + 1
    at = history.last_at
    assert at is not None
    day = (at + _WIB).isoformat()[:10]
    account, key_id = history.account, history.key
    transfer = f"{int(at.timestamp() * 1000):012x}7000{0x8000000000000000 + number:016x}"
    last, history.last_charge = history.last_charge, None
    operation, about, reverses, cap_day = f"meeting:{transfer}", "meeting", "", day
    name, moved, kind, book = transfer, _PRICE, "meeting_charge", "meetings"
    is_taken = True
    if number % 1000 == 1:
        moved = CREDITS if number == 1 else _TOP_UP
        operation, about, key_id, cap_day, is_taken = f"topup:{transfer}", "topup", "", "", False
        kind, book = "topup", "topups"
    elif number % 10 == 0:
        operation, about, kind, book = f"note:{transfer}", "note", "notulen_charge", "notulen"
    elif number % 10 == 9 and last is not None:
        operation, kind, reverses = f"refund:{last.transfer_id}", "meeting_refund", last.transfer_id
        name, cap_day, is_taken = last.reference_id, last.cap_day, False
    change = -moved if is_taken else moved
    history.balance += change
    if cap_day:
        history.spent[cap_day] -= change
    total = history.totals[day, kind]
    total[0], total[1] = total[0] + change, total[1] + 1
    source, destination = ("customer", book) if is_taken else (book, "customer")
    entry = CanonicalEntry(
        account, number, change, history.balance, at.isoformat(), b"", transfer, operation, kind, moved,
        source, destination, about, name, reverses, key_id, cap_day, chain_key,
    )  # fmt: skip
    if kind == "meeting_charge":
        history.last_charge = entry
    return entry


def _transfer_row(entry: CanonicalEntry) -> str:
    account, _, _, _, _, _, transfer, operation, kind, moved, source, destination = entry[:12]
    about, name, reverses, key, day = entry[12:17]
    return (
        f"{account}\t{transfer}\t{operation}\t{kind}\t{moved}\t{source}\t{destination}\t{about}\t{name}"
        f"\t{reverses or _NULL}\t{key or _NULL}\t{day or _NULL}\n"
    )


def _leg_rows(entry: CanonicalEntry, hash_: str) -> str:
    account, number, amount, balance, at, _, transfer, _, _, _, source, destination = entry[:12]
    book = source if destination == "customer" else destination
    return (
        f"{account}\t{number}\tcustomer\t{transfer}\t{amount}\t{balance}\t{at}"
        f"\t\\\\x{hash_}\t\\\\x{entry.key_id.hex()}\n"
        f"{account}\t{number}\t{book}\t{transfer}\t{-amount}\t\\N\t{at}\t\\N\t\\N\n"
    )


def _copy(connection: psycopg.Connection, statement: str, rows: Iterator[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.write("".join(rows))
