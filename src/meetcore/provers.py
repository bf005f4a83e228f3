"""Processes that prove portions of one snapshot of the ledger beside each other.

The one that asks keeps the snapshot open and hands out the portions; each process reads on a connection of
its own. They speak over pipes, in pickles: the database's address, the snapshot's name and the chain's keys
go out first (never over a command line), then portions; numbers of proven entries and then what was found
come back, or why it could not be. A composition root of its own, and a small one: what a process does not
need it does not import.
"""

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import IO, Any

from attrs import frozen

from meetcore.adapters.postgres.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.chain_keys import ChainKey, secrets_of
from meetcore.ports.audit import LedgerSnapshot, StoredFunds
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.verify_ledger import Proven, ProvePortion, Prover, Provers

__all__ = ["ProverLost", "cores", "verifiers_of"]

ENTRIES_WORTH_A_PROCESS = 50_000
OBJECTS_BETWEEN_COLLECTIONS = 100_000
STOP_TIMEOUT_S = 5.0

# Imported by its name: what is run as a program is `__main__`, and pickles would name that.
_COMMAND = (sys.executable, "-P", "-c", "from meetcore.provers import main; main()")


class ProverLost(Exception):
    """A process ended before its work was done; the message says how."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def verifiers_of(
    url: str, processes: int, keys: Sequence[ChainKey] = (), *, worth: int = ENTRIES_WORTH_A_PROCESS
) -> Provers:
    """Bring so many processes at most, or none where the ledger is short: then this one proves it.

    Args:
        url: of the database whose snapshot is to be proven.
        processes: how many at most.
        keys: those that the chain may be under.
        worth: for how many entries a process is worth its start.
    """

    @asynccontextmanager
    async def bring(snapshot: LedgerSnapshot, entries: int) -> AsyncIterator[Sequence[Prover]]:
        number = min(processes, entries // worth)
        if number > 1:
            with ExitStack() as stack:
                yield [stack.enter_context(_started(url, snapshot.name, keys)) for _ in range(number)]
        else:
            _collect_seldom()
            yield [ProvePortion(snapshot, secrets_of(keys))]

    return bring


@contextmanager
def _started(url: str, name: str, keys: Sequence[ChainKey]) -> Iterator[Prover]:
    """Start a process; at the end it is killed, whatever it is at: it only reads."""
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        prover = _Elsewhere(process)
        try:
            prover.send((url, name, tuple(keys)))
            yield prover
        finally:
            process.kill()  # a thread that waits for its word sees the end of it
            with suppress(BrokenPipeError):  # what it did not read, if it died before
                prover.close()


@frozen
class _Elsewhere:
    """The near end of a process that proves. Fills `Prover`."""

    process: "subprocess.Popen[bytes]"

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
        try:
            await asyncio.to_thread(self.send, portion)
            while not isinstance(told := await asyncio.to_thread(self.receive), Proven):
                if isinstance(told, StoreUnavailable):
                    raise told
                on_entries(told)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            code = await asyncio.to_thread(self.process.wait, STOP_TIMEOUT_S)
            raise ProverLost(f"a process that proved entries ended with {code}: prove again") from None
        return told

    def send(self, message: object) -> None:
        """Give the process something to do."""
        assert self.process.stdin is not None
        _say(self.process.stdin, message)

    def close(self) -> None:
        """Hang up."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def receive(self) -> Any:
        """Wait for its next word."""
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)  # noqa: S301 - our own child wrote it


def main() -> None:
    """What a process does until the line is hung up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the one that asked
    _collect_seldom()
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # the line is for words of ours alone
    try:
        asyncio.run(_prove(sys.stdin.buffer, out))
    except StoreUnavailable as error:
        _say(out, StoreUnavailable(str(error)))
    except (EOFError, BrokenPipeError):
        pass  # hung up


async def _prove(of: IO[bytes], to: IO[bytes]) -> None:
    url, name, keys = pickle.load(of)  # noqa: S301 - our parent wrote it
    pool = make_pool(url, max_size=1)
    await pool.open(wait=False)
    try:
        async with PostgresLedgerAudit(pool).joined(name) as snapshot:
            prove = ProvePortion(snapshot, secrets_of(keys))
            while True:
                portion = pickle.load(of)  # noqa: S301 - as above
                _say(to, await prove(portion, lambda more: _say(to, more)))
    finally:
        await pool.close()


def _say(to: IO[bytes], message: object) -> None:
    pickle.dump(message, to)
    to.flush()


def _collect_seldom() -> None:
    """Millions of records come and go without a cycle; looking for one every few hundred takes long."""
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
