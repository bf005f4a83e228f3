"""Verifying a ledger and paging through it, compared with the bare reading of the same rows.

Half of the entries are one account's, so that neither many small histories nor one long one goes unmeasured.
"""

import asyncio
import resource
import time
from datetime import UTC, datetime
from uuid import UUID

import psycopg

from benchmarks.ledger_rows import Owner, write_histories
from benchmarks.report import Result, middle
from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.ledger.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.system import cores
from meetcore.composition.verification import verifiers_of
from meetcore.domain.ids import uuid7
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.ledger import TransferKind
from meetcore.ports.queries import TransactionFilter
from meetcore.usecases.verify_ledger import VerifyLedger

__all__ = ["fill_ledger", "measure_audit", "measure_pages", "prove"]

_SMALL = 500
_KEY = ChainKey.of(bytes(32))
_PAGE, _FAR = 20, 10_000

# The rows that the audit reads, discarded.
_BARE = """COPY (
    SELECT e.*, t.* FROM ledger_entries e
    JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
    WHERE e.book = 'customer'
) TO STDOUT (FORMAT binary)"""

_ADD_ACCOUNTS = """
INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
SELECT id, id, 'a@example.com', 'Bench', now(), 100, false FROM unnest(%s::uuid[]) AS id
"""


def fill_ledger(url: str, entries: int) -> UUID:
    """Fill an empty database with a ledger of so many entries.

    Returns:
        The account that has half of them.
    """
    lengths = [entries // 2, *([_SMALL] * (entries // 2 // _SMALL))]
    ids = [uuid7(datetime.now(UTC), number.to_bytes(10, "big")) for number in range(len(lengths))]
    with psycopg.connect(url) as connection:
        connection.execute(_ADD_ACCOUNTS, (ids,))
    owners = [(Owner(id_, id_), length) for id_, length in zip(ids, lengths, strict=True)]
    write_histories(url, owners, _KEY)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return ids[0]


def _copied(url: str) -> float:
    """Entries a second that leave the database when nothing is done with them."""
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        with cursor.copy(_BARE) as copy:
            count = sum(1 for _ in copy)
        return count / (time.perf_counter() - started)


async def prove(url: str, key: ChainKey) -> float:
    """Verify a whole ledger as `credits verify` does; entries a second.

    Raises:
        RuntimeError: it is not sound.
    """
    pool = make_pool(url, max_size=2)
    await pool.open()
    try:
        started = time.perf_counter()
        audit = await VerifyLedger(PostgresLedgerAudit(pool), [key])(
            verifiers=verifiers_of(url, cores(), [key])
        )
        if not audit.is_sound:
            raise RuntimeError(f"{audit.findings}")
        return audit.entries / (time.perf_counter() - started)
    finally:
        await pool.close()


def _memory_mb(who: int = resource.RUSAGE_SELF) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


def measure_audit(url: str, rounds: int) -> Result:
    """Return medians of alternating turns, with this process's growth and the largest child's memory."""
    service, floor = [asyncio.run(prove(url, _KEY))], [_copied(url)]
    before = _memory_mb()
    for _ in range(rounds):
        floor.append(_copied(url))
        service.append(asyncio.run(prove(url, _KEY)))
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
