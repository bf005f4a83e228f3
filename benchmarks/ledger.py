"""Verifying a ledger, beside the bare reading of the same rows."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

import psycopg

from benchmarks.report import Result, alternate, medians
from benchmarks.rows import write_ledger
from benchmarks.servers import Account, Place, place, seed
from meetcore.adapters.system import cores
from meetcore.composition.verification import verifiers_of
from meetcore.domain.money.hash_chain import ChainKey

__all__ = ["fill_ledger", "measure_ledger", "verify"]

_SMALL = 2_000
# The rows that are verified, discarded.
_BARE = """COPY (
    SELECT e.*, t.* FROM ledger_entries e
    JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id WHERE e.book = 'customer'
) TO STDOUT (FORMAT binary)"""


def measure_ledger(entries: int, rounds: int) -> list[Result]:
    """Measure entries a second of a ledger of so many, of which one account has half."""
    with place() as where:
        fill_ledger(where, seed(where, 1 + entries // 2 // _SMALL), entries)
        where.execute("VACUUM ANALYZE")
        taken = medians(alternate(rounds, {"ours": partial(verify, where), "floor": partial(_copy, where)}))
    return [Result("credits verify", taken["ours"], taken["floor"], "entries/s", "≥ 100000")]


def fill_ledger(where: Place, accounts: Sequence[Account], entries: int) -> None:
    """Give half of so many entries to the first account, and the others their share of the rest."""

    async def key_of_chain() -> ChainKey:
        async with where.application() as application:
            assert application.runtime.chain_key is not None
            return application.runtime.chain_key

    key = asyncio.run(key_of_chain())
    share = entries // 2 // max(1, len(accounts) - 1)
    for each in accounts:
        write_ledger(where, each.id, entries // 2 if each is accounts[0] else share, key)


def verify(where: Place) -> float:
    """Verify the whole ledger as `credits verify` does; return entries a second.

    Raises:
        RuntimeError: it is not sound.
    """

    async def run() -> float:
        async with where.application() as application:
            keys = application.policy.chain_keys
            verifiers = verifiers_of(where.database_url, cores(), keys)
            started = time.perf_counter()
            audit = await application.verify_ledger(verifiers=verifiers)
            if not audit.is_sound:
                raise RuntimeError(f"{audit.findings}")
            return audit.entries / (time.perf_counter() - started)

    return asyncio.run(run())


def _copy(where: Place) -> float:
    with psycopg.connect(where.database_url) as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        with cursor.copy(_BARE) as copy:
            count = sum(1 for _ in copy)
        return count / (time.perf_counter() - started)
