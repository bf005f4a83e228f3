"""Verifying a ledger and paging through it, compared with the bare reading of the same rows.

The ledger is written by the rules themselves and copied in: half of the entries are one account's, so that
neither many small histories nor one long one goes unmeasured.
"""

import asyncio
import resource
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import psycopg
from attrs import field, frozen

from benchmarks.report import Result, middle
from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.ledger.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.ledger.parts import entry_parameters
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.system import cores
from meetcore.composition.verification import verifiers_of
from meetcore.domain.ids import uuid7
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds, ledger
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds, Reference, TransferKind
from meetcore.ports.queries import TransactionFilter
from meetcore.usecases.verify_ledger import VerifyLedger

__all__ = ["fill_ledger", "measure_audit", "measure_pages"]

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TOP_UP, _PRICE = 10_000, 10
_SMALL = 500
_KEY = ChainKey.of(bytes(32))
_PAGE, _FAR = 20, 10_000

# The rows that the audit reads, discarded.
_BARE = """COPY (
    SELECT e.*, t.* FROM ledger_entries e
    JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
    WHERE e.book = 'customer'
) TO STDOUT (FORMAT binary)"""

_TRANSFERS = """COPY ledger_transfers (account_id, id, operation, kind, amount, source, destination,
    reference_type, reference_id, reverses, api_key_id, cap_day) FROM STDIN"""
_ENTRIES = (
    "COPY ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash, chain_key)"
    " FROM STDIN"
)
_ACCOUNTS = """COPY accounts (id, user_id, email, full_name, created_at, balance, low_threshold, is_low,
    entries, last_hash, last_at) FROM STDIN"""
_USAGE = "COPY cap_usage (account_id, api_key_id, day, spent, held) FROM STDIN"


@frozen
class _History:
    """An account's entries, its funds after them, and what its key spent on each day."""

    funds: Funds
    entries: list[Entry]
    usage: dict[date, int] = field(factory=dict)


def _id(number: int, at: datetime = _START) -> UUID:
    return uuid7(at, number.to_bytes(10, "big"))


def _history(account: int, length: int) -> _History:
    """Top-ups, charges, and every tenth charge given back."""
    funds, key_id = ledger.open_account(_id(account)), _id(account)
    history = _History(funds, [], {})
    while len(history.entries) < length:
        number = len(history.entries)
        at = _START + timedelta(seconds=20 * number)
        transfer_id = _id(account << 32 | number, at)
        last = history.entries[-1].transfer if history.entries else None
        if funds.balance < _PRICE:
            posting = ledger.top_up(funds, transfer_id, f"INV-{number}", _TOP_UP, at, key=_KEY)
        elif number % 10 == 9 and last is not None and last.kind is TransferKind.MEETING_CHARGE:
            posting = ledger.refund(funds, last, transfer_id, at, key=_KEY)
        else:
            day = CapUsage(key_id, cap_day(at))
            about = Reference("meeting", str(transfer_id))
            posting = holds.charge(
                funds, day, None, transfer_id, f"meeting:{transfer_id}", _PRICE, about, at, key=_KEY
            ).posting
        assert posting.entry is not None
        funds = posting.funds
        history.entries.append(posting.entry)
        if (day_of := posting.entry.transfer.cap_day) is not None:
            history.usage[day_of] = history.usage.get(day_of, 0) - posting.entry.amount
    return _History(funds, history.entries, history.usage)


def fill_ledger(url: str, entries: int) -> UUID:
    """Copy a ledger of so many entries into an empty database.

    Returns:
        The account that has half of them.
    """
    lengths = [entries // 2, *([_SMALL] * (entries // 2 // _SMALL))]
    with psycopg.connect(url) as connection:
        for account, length in enumerate(lengths, 1):
            _copy(connection, account, _history(account, length))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return _id(1)


def _copy(connection: psycopg.Connection, account: int, history: _History) -> None:
    funds, id_ = history.funds, _id(account)
    rows: dict[str, Iterator[tuple[object, ...]]] = {
        _ACCOUNTS: iter(
            [(id_, id_, "a@example.com", "Bench", _START, funds.balance, 100, funds.is_low, funds.entries,
              funds.last_hash, funds.last_at)]
        ),
        _TRANSFERS: (_transfer_row(entry) for entry in history.entries),
        _ENTRIES: (row for entry in history.entries for row in _leg_rows(entry)),
        _USAGE: ((id_, id_, day, spent, 0) for day, spent in history.usage.items()),
    }  # fmt: skip
    with connection.cursor() as cursor:
        for statement, values in rows.items():
            with cursor.copy(statement) as copy:
                for row in values:
                    copy.write_row(row)


def _transfer_row(entry: Entry) -> tuple[object, ...]:
    values = entry_parameters(entry)
    names = (
        "transfer_id",
        "transfer_operation",
        "transfer_kind",
        "transfer_amount",
        "transfer_source",
        "transfer_destination",
        "transfer_reference_type",
        "transfer_reference_id",
    )
    return (
        entry.account_id,
        *(values[name] for name in (*names, "transfer_reverses", "transfer_api_key_id", "transfer_cap_day")),
    )


def _leg_rows(entry: Entry) -> Iterator[tuple[object, ...]]:
    platform_book, moved = entry_parameters(entry)["system_book"], entry.transfer.id
    yield (
        entry.account_id,
        entry.number,
        "customer",
        moved,
        entry.amount,
        entry.balance_after,
        entry.at,
        entry.hash,
        entry.key_id,
    )
    yield entry.account_id, entry.number, platform_book, moved, -entry.amount, None, entry.at, None, None


def _copied(url: str) -> float:
    """Entries a second that leave the database when nothing is done with them."""
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        with cursor.copy(_BARE) as copy:
            count = sum(1 for _ in copy)
        return count / (time.perf_counter() - started)


async def _proven(url: str) -> float:
    pool = make_pool(url, max_size=2)
    await pool.open()
    try:
        started = time.perf_counter()
        audit = await VerifyLedger(PostgresLedgerAudit(pool), [_KEY])(
            verifiers=verifiers_of(url, cores(), [_KEY])
        )
        assert audit.is_sound, audit.findings
        return audit.entries / (time.perf_counter() - started)
    finally:
        await pool.close()


def _memory_mb(who: int = resource.RUSAGE_SELF) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


def measure_audit(url: str, rounds: int) -> Result:
    """Return medians of alternating turns, with this process's growth and the largest child's memory."""
    service, floor = [asyncio.run(_proven(url))], [_copied(url)]
    before = _memory_mb()
    for _ in range(rounds):
        floor.append(_copied(url))
        service.append(asyncio.run(_proven(url)))
    extra = {
        "best": max(service),
        "memory_growth_mb": _memory_mb() - before,
        "largest_process_mb": _memory_mb(resource.RUSAGE_CHILDREN),
    }
    return Result("credits verify", middle(service), middle(floor), "entries/s", "≥ 100 000", extra)


async def _page_ms(url: str, account_id: UUID, rounds: int) -> dict[str, float]:
    """Median milliseconds of the first page and of a far one, of the whole ledger and of one kind."""
    pool = make_pool(url, max_size=1)
    await pool.open()
    try:
        queries = PostgresQueries(pool, PlainCipher())
        [newest] = await queries.list_transactions(account_id, TransactionFilter(), 1, None)
        # A ledger that is too short for that page is measured at its middle.
        places = {"first": None, "far": max(newest.number + 1 - _PAGE * (_FAR - 1), newest.number // 2)}
        taken: dict[str, list[float]] = {}
        for _ in range(rounds):
            for kind in (None, TransferKind.MEETING_CHARGE, TransferKind.MEETING_REFUND):
                for place, before in places.items():
                    started = time.perf_counter()
                    page = await queries.list_transactions(
                        account_id, TransactionFilter(kind), _PAGE + 1, before
                    )
                    name = f"{place} {kind.value if kind else 'all'}"
                    taken.setdefault(name, []).append((time.perf_counter() - started) * 1000)
                    assert len(page) == _PAGE + 1
        return {name: middle(times) for name, times in taken.items()}
    finally:
        await pool.close()


def measure_pages(url: str, account_id: UUID, rounds: int) -> Result:
    """Compare page 10 000 with page 1 of one account's ledger."""
    figures = asyncio.run(_page_ms(url, account_id, rounds * 30))
    extra = {f"{name}_ms": value for name, value in figures.items()}
    return Result(
        "ledger, page 10 000 : page 1", figures["far all"], figures["first all"], "ms", "ratio ≤ 1.2", extra
    )
