"""The runtime of use cases: clock and randomness of a process, leases, retries, concurrency, periods."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import wraps
from typing import Final, ParamSpec, TypeVar
from uuid import UUID

from attrs import frozen

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.ledger import CreditsFellLow
from meetcore.ports import observability, runtime, store

LowMails = Callable[[store.Transaction, CreditsFellLow], Awaitable[int]]
"""Queues the mails about credits that fell low, in a transaction; returns how many."""


@frozen
class Runtime:
    """Clock and entropy, and the ids made of both; entries of the ledger are chained under `chain_key`.

    `metrics` and `tracing` are for operators. `low_mails` is `None` where no mails are sent.
    """

    clock: runtime.Clock
    entropy: runtime.Entropy
    chain_key: ChainKey | None = None
    metrics: observability.Metrics = observability.NO_METRICS
    tracing: observability.Tracing = observability.NO_TRACING
    low_mails: LowMails | None = None

    def now(self) -> datetime:
        """Return the present instant, in UTC."""
        return self.clock.now()

    def new_id(self, at: datetime) -> UUID:
        """Return a UUIDv7 of that instant."""
        return uuid7(at, self.entropy.token_bytes(RANDOM_BYTES))

    def has_mails(self, facts: Sequence[CreditsFellLow]) -> bool:
        """Return whether mails follow from a posting's facts: then it is written in a transaction."""
        return bool(facts) and self.low_mails is not None

    async def mail_low(self, tx: store.Transaction, facts: Sequence[CreditsFellLow]) -> int:
        """Queue the mails that follow from the facts of a posting of `tx`; return how many. Few have any."""
        return await self.low_mails(tx, facts[-1]) if facts and self.low_mails is not None else 0

    def jitter(self) -> float:
        """Return a number from [0, 1)."""
        return int.from_bytes(self.entropy.token_bytes(6), "big") / (1 << 48)


T = TypeVar("T")


def ignore(*_: object) -> None:
    """Report nothing: the default of a use case that reports to operators."""


async def gather_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all of it, and return the results in order; a failure does not stop the others.

    Raises:
        StoreUnavailable: the database did not answer one of them.
        ExceptionGroup: the other failures, once all have ended.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException) and not isinstance(each, Exception):
            raise each  # not a fault of the work: cancel at once
    faults = [each for each in results if isinstance(each, Exception)]
    for fault in faults:
        if isinstance(fault, store.StoreUnavailable):
            raise fault
    if faults:
        raise ExceptionGroup("not all of it went well", faults)
    return [each for each in results if not isinstance(each, BaseException)]


async def carried_through(work: Awaitable[T]) -> T:
    """Do work that must not be cut off, not even by the end of the process: a cancellation waits for it."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.gather(working, return_exceptions=True)
        raise


class LeaseLost(Exception):
    """Another worker has the work now, or it is over. Results since then are discarded."""


async def with_heartbeat(work: Awaitable[T], renew: Callable[[], Awaitable[bool]], every_s: float) -> T:
    """Do work, and renew its lease every `every_s` seconds until it is done.

    An unavailable store does not end the work: the lease lasts a while, and whatever the work writes is
    fenced. Raises `LeaseLost`: a renewal was refused; the work was cancelled and has ended.
    """
    working = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait((working,), timeout=every_s)
            if done:
                return working.result()
            with suppress(store.StoreUnavailable):
                if not await renew():
                    raise LeaseLost
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


REPEATS: Final = 4
_REPEATED_FOR_S: Final = 3.0

P = ParamSpec("P")


def repeated_when_lost(transaction: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat a function of one transaction where nothing of it was kept.

    It is repeated once, and up to `REPEATS` times in all within three seconds: a server that
    restarts or fails over ends every connection at once, and may end the next ones too.
    """

    @wraps(transaction)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        give_up_at = asyncio.get_running_loop().time() + _REPEATED_FOR_S
        for repeat in range(REPEATS):
            try:
                return await transaction(*args, **kwargs)
            except store.ConnectionLost:
                if repeat and asyncio.get_running_loop().time() > give_up_at:
                    raise
        return await transaction(*args, **kwargs)

    return repeated


async def collect_fault(faults: list[Exception], work: Awaitable[object], name: str) -> None:
    """Add the failure of one of several pieces of work to `faults`, so that it stops no other.

    Raises `StoreUnavailable`, which would stop each.
    """
    try:
        await work
    except store.StoreUnavailable:
        raise
    except Exception as fault:  # noqa: BLE001  # one failure stops no other work
        fault.add_note(name)
        faults.append(fault)


@frozen
class PeriodicTask:
    """Work that is repeated `every_s` seconds after it ended.

    `work` returns whether it may have made something due: then the worker looks at once. One that
    `runs_on_notify` also runs on a notification.
    """

    name: str
    work: Callable[[], Awaitable[object]]
    every_s: float
    runs_on_notify: bool = False
