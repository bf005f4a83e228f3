"""Verification of one snapshot of the ledger in several processes.

The parent keeps the snapshot open and shares out its portions; each process joins the snapshot on its own
connection. A short ledger is verified in the parent.
"""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized

from attrs import frozen

from meetcore.adapters.postgres.money.verification import PostgresLedgerAudit
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.system import at_end_of_parent
from meetcore.domain.money.hash_chain import ChainKey, secrets_of
from meetcore.domain.money.views import StoredFunds
from meetcore.ports.money import LedgerSnapshot
from meetcore.usecases.money.verify_ledger import (
    Audit,
    PortionVerifier,
    VerifierLost,
    Verifiers,
    VerifyPortion,
)

ENTRIES_WORTH_A_PROCESS = 50_000
OBJECTS_BETWEEN_COLLECTIONS = 100_000
REPORT_EVERY_S = 0.2

_counter: "Synchronized[int]"  # of a verifier process
# A context that nothing refers to is closed by the event loop, and with it the transaction and its snapshot.
_open: list[AbstractAsyncContextManager[LedgerSnapshot]] = []


def verifiers_of(
    url: str, processes: int, keys: Sequence[ChainKey] = (), *, worth: int = ENTRIES_WORTH_A_PROCESS
) -> Verifiers:
    """Return a function that starts up to `processes`, where another one is worth so many entries."""

    @asynccontextmanager
    async def bring(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[PortionVerifier]]:
        number = min(processes, entries // worth)
        if number <= 1:
            _collect_seldom()
            yield [VerifyPortion(snapshot, secrets_of(keys))]
            return
        context = get_context("spawn")  # not forked: this process has connections and threads
        counter = context.Value("q")
        pool = ProcessPoolExecutor(number, context, _start_process, (counter,))
        try:
            yield [_PooledVerifier(pool, (url, snapshot.name, tuple(keys)), counter)] * number
        finally:
            # A process only reads; `shutdown` would wait for its portion. Python 3.14 has `kill_workers`.
            for process in [*(pool._processes or {}).values()]:
                process.kill()
            await asyncio.to_thread(pool.shutdown)

    return bring


@frozen
class _PooledVerifier:
    """Fills `PortionVerifier` by the next free process; `counter` has the entries not reported yet."""

    pool: ProcessPoolExecutor
    place: tuple[str, str, tuple[ChainKey, ...]]
    counter: "Synchronized[int]"

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Audit:
        proving = asyncio.get_running_loop().run_in_executor(self.pool, _prove, self.place, portion)
        try:
            while not proving.done():
                await asyncio.wait([proving], timeout=REPORT_EVERY_S)
                with self.counter.get_lock():
                    proven, self.counter.value = self.counter.value, 0
                on_entries(proven)
            return await proving
        except BrokenProcessPool:
            raise VerifierLost("a process that proved entries ended: prove again") from None
        finally:
            proving.cancel()  # when this is cancelled, its result is not used


def _start_process(counter: "Synchronized[int]") -> None:
    global _counter
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent
    at_end_of_parent(partial(os._exit, 1))  # it only reads, and would wait for portions for ever
    _collect_seldom()


def _prove(place: tuple[str, str, tuple[ChainKey, ...]], portion: Sequence[StoredFunds]) -> Audit:
    runner, prove = _joined(*place)
    return runner.run(prove(portion, _count))


def _count(entries: int) -> None:
    with _counter.get_lock():
        _counter.value += entries


@cache
def _joined(url: str, name: str, keys: tuple[ChainKey, ...]) -> tuple[asyncio.Runner, VerifyPortion]:
    """Join the snapshot, once, while this process runs."""
    runner = asyncio.Runner()

    async def join() -> LedgerSnapshot:
        pool = make_pool(url, max_size=1)
        await pool.open(wait=False)
        joined = PostgresLedgerAudit(pool).joined(name)
        _open.append(joined)
        return await joined.__aenter__()

    return runner, VerifyPortion(runner.run(join()), secrets_of(keys))


def _collect_seldom() -> None:
    """Collect garbage seldom: millions of records without cycles make frequent collections slow."""
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
