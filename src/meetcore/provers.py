"""Processes that verify portions of one snapshot of the ledger in parallel.

The parent keeps the snapshot open and distributes the portions; each process reads on a connection of its
own. They exchange pickles over pipes: the parent sends the database's address, the snapshot's name and the
chain's keys (never over a command line), then portions; a process returns numbers of verified entries, then
its findings or an error. A separate, small composition root: a process imports only what it needs.
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

from meetcore.adapters.postgres.ledger.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.money.chain_keys import ChainKey, secrets_of
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
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def verifiers_of(
    url: str, processes: int, keys: Sequence[ChainKey] = (), *, worth: int = ENTRIES_WORTH_A_PROCESS
) -> Provers:
    """Return a function that starts verifier processes; a short ledger is verified in this process.

    Args:
        url: of the database whose snapshot is verified.
        processes: the maximum number.
        keys: the keys of the hash chain.
        worth: the number of entries from which another process pays off.
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
    """Start a process and kill it at the end; it only reads."""
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        handle = _ProcessHandle(process)
        try:
            handle.send((url, name, tuple(keys)))
            yield handle
        finally:
            process.kill()  # a thread that waits for its message gets the end of the pipe
            with suppress(BrokenPipeError):  # data that it did not read before it died
                handle.close()


@frozen
class _ProcessHandle:
    """The parent's handle of a verifier process. Fills `Prover`."""

    process: "subprocess.Popen[bytes]"

    async def __call__(self, portion: Sequence[StoredFunds], on_entries: Callable[[int], None]) -> Proven:
        try:
            await asyncio.to_thread(self.send, portion)
            while not isinstance(message := await asyncio.to_thread(self.receive), Proven):
                if isinstance(message, StoreUnavailable):
                    raise message
                on_entries(message)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            code = await asyncio.to_thread(self.process.wait, STOP_TIMEOUT_S)
            raise ProverLost(f"a process that proved entries ended with {code}: prove again") from None
        return message

    def send(self, message: object) -> None:
        """Send a message to the process."""
        assert self.process.stdin is not None
        _send(self.process.stdin, message)

    def close(self) -> None:
        """Close the pipe."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def receive(self) -> Any:
        """Wait for its next message."""
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)  # noqa: S301 - our own child wrote it


def main() -> None:
    """Verify portions until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent
    _collect_seldom()
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # the pipe is for messages only
    try:
        asyncio.run(_prove(sys.stdin.buffer, out))
    except StoreUnavailable as error:
        _send(out, StoreUnavailable(str(error)))
    except (EOFError, BrokenPipeError):
        pass  # the pipe was closed


async def _prove(of: IO[bytes], to: IO[bytes]) -> None:
    url, name, keys = pickle.load(of)  # noqa: S301 - our parent wrote it
    pool = make_pool(url, max_size=1)
    await pool.open(wait=False)
    try:
        async with PostgresLedgerAudit(pool).joined(name) as snapshot:
            prove = ProvePortion(snapshot, secrets_of(keys))
            while True:
                portion = pickle.load(of)  # noqa: S301 - as above
                _send(to, await prove(portion, lambda more: _send(to, more)))
    finally:
        await pool.close()


def _send(to: IO[bytes], message: object) -> None:
    pickle.dump(message, to)
    to.flush()


def _collect_seldom() -> None:
    """Collect garbage seldom: millions of records without cycles make frequent collections slow."""
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
