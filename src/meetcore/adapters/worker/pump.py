"""The pump: claims due deliveries whenever the doorbell rings or a round comes, and keeps posts in flight.

The database is the truth: a doorbell that is lost costs at most one round. Owns concurrency and
rounds; refuses to decide anything about a delivery.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from meetcore.ports.deliveries import Claimed
from meetcore.ports.lease import Lease
from meetcore.ports.store import StoreAway
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.reconcile_meetings import ReconcileMeetings

__all__ = ["Pump"]

log = structlog.get_logger("meetcore.worker")


class Pump:
    """Runs until it is stopped.

    Args:
        deliver: the deliveries.
        reconcile: the meetings that dead processes left.
        purge: forgets what is too old; called every `purge_every_s`.
        max_in_flight: posts at the same time.
        round_s: how often due work is looked for without a ring.
        sweep_every_s: how often what was left behind is mended.
    """

    def __init__(
        self,
        deliver: DeliverWebhooks,
        reconcile: ReconcileMeetings,
        purge: Callable[[], Awaitable[None]],
        *,
        max_in_flight: int = 100,
        round_s: float = 0.5,
        sweep_every_s: float = 2.0,
        purge_every_s: float = 60.0,
    ) -> None:
        self._deliver = deliver
        self._reconcile = reconcile
        self._purge = purge
        self._max_in_flight = max_in_flight
        self._round_s = round_s
        self._sweep_every_s = sweep_every_s
        self._purge_every_s = purge_every_s
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._posts: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Look now. Call it on the pump's own loop."""
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more and return from `run` once the posts in flight are recorded."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Pump until `stop`."""
        rounds = (
            asyncio.create_task(self._repeat(self._sweep, self._sweep_every_s)),
            asyncio.create_task(self._repeat(self._purge, self._purge_every_s)),
        )
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                is_more = await self._guard(self._claim, "claim")
                if not is_more:
                    await self._rest()
            if self._posts:
                await asyncio.wait(self._posts)
        finally:
            for task in rounds:
                task.cancel()
            await asyncio.gather(*rounds, return_exceptions=True)

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._round_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _claim(self) -> bool:
        """Take what there is room for; true when there may be more."""
        room = self._max_in_flight - len(self._posts)
        if room <= 0:
            return False
        batch = await self._deliver.claim(room)
        for claimed in batch.deliveries:
            task = asyncio.create_task(self._post(claimed, batch.lease))
            self._posts.add(task)
            task.add_done_callback(self._posted)
        return len(batch.deliveries) == room

    def _posted(self, task: asyncio.Task[None]) -> None:
        was_full = len(self._posts) >= self._max_in_flight
        self._posts.discard(task)
        if was_full:
            self._wake.set()

    async def _post(self, claimed: Claimed, lease: Lease) -> None:
        async def deliver() -> bool:
            return await self._deliver.deliver(claimed, lease)

        await self._guard(deliver, "deliver")

    async def _sweep(self) -> None:
        if await self._deliver.sweep():
            self._wake.set()
        await self._reconcile.sweep()

    async def _repeat(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        async def once() -> bool:
            await work()
            return True

        # The event, too: a cancellation that falls together with what it cancels may be lost in the pool.
        while not self._stopping.is_set():
            await self._guard(once, "sweep")
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._stopping.wait()

    async def _guard(self, work: Callable[[], Awaitable[bool]], what: str) -> bool:
        """Do one thing; a fault is logged and costs a round, never the worker."""
        try:
            return await work()
        except StoreAway as error:
            log.warning("store away", during=what, cause=repr(error.__cause__))
        except Exception:
            log.exception("fault", during=what)
        return False
