"""Claim due deliveries at each notification or round, and keep posts in flight.

The database is the truth: a lost notification costs at most one round. What comes back while a batch
is being recorded is the next batch, so that the batches grow with the load. Beside the deliveries it does
periodic tasks, each in rounds of its own, so that a provider that is slow to answer delays nothing else. Owns
concurrency; decides nothing about a delivery or a task.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from meetcore.adapters.worker.scheduler import Scheduler, log_faults, wait_at_most
from meetcore.ports.deliveries import Claimed
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.webhook_sender import PostDeferred, SenderExhausted
from meetcore.usecases.deliver_webhooks import DeliverWebhooks, Made
from meetcore.usecases.periodic_task import PeriodicTask

log = structlog.get_logger("meetcore.worker")


class DeliveryWorker:
    """Runs until it is stopped.

    Args:
        periodic_tasks: run beside it; none waits for another.
        max_in_flight: posts at the same time.
        batch: deliveries taken or recorded in one transaction, at most.
        round_s: how often due work is looked for without a notification.
        backoff_s: how long nothing is claimed after this machine had too little of something to post.
    """

    def __init__(
        self,
        deliver: DeliverWebhooks,
        periodic_tasks: Sequence[PeriodicTask],
        *,
        max_in_flight: int = 500,
        batch: int = 200,
        round_s: float = 0.25,
        backoff_s: float = 1.0,
    ) -> None:
        self._deliver = deliver
        self._scheduler = Scheduler(periodic_tasks, self.wake)
        self._max_in_flight = max_in_flight
        self._batch = batch
        self._round_s = round_s
        self._backoff_s = backoff_s
        self._is_exhausted = False
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._posts: set[asyncio.Task[None]] = set()
        self._made: list[Made] = []
        self._has_made = asyncio.Event()
        self._is_drained = False

    def wake(self) -> None:
        """Check for work now. To be called on the worker's own event loop."""
        self._wake.set()
        self._scheduler.notify()

    def stop(self) -> None:
        """Claim nothing more and return from `run` once the posts in flight are recorded."""
        self._stopping.set()
        self._scheduler.stop()
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`."""
        scheduler = asyncio.create_task(self._scheduler.run())
        recorder = asyncio.create_task(self._record_until_drained())
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                if self._is_exhausted:
                    await self._back_off()
                if not await log_faults(self._claim, "claim"):
                    await wait_at_most(self._wake, self._round_s)
            if self._posts:
                await asyncio.wait(self._posts)
            self._is_drained = True
            self._has_made.set()
            await recorder
        finally:
            for task in (scheduler, recorder):
                task.cancel()
            await asyncio.gather(scheduler, recorder, return_exceptions=True)

    async def _back_off(self) -> None:
        self._is_exhausted = False
        await wait_at_most(self._stopping, self._backoff_s)

    async def _claim(self) -> bool:
        """Take what there is room for; true when there may be more."""
        room = min(self._batch, self._max_in_flight - len(self._posts) - len(self._made))
        if room <= 0:
            return False
        claimed = await self._deliver.claim(room)
        for one in claimed:
            task = asyncio.create_task(self._post(one))
            self._posts.add(task)
            task.add_done_callback(self._posts.discard)
        return len(claimed) == room

    async def _post(self, claimed: Claimed) -> None:
        try:
            made = await self._deliver.post(claimed)
        except SenderExhausted as error:
            # Not the receiver's fault: the delivery is due again when its lease runs out.
            self._is_exhausted = True
            log.warning("cannot post", cause=str(error), **_ids(claimed))
        except PostDeferred as error:
            # The account's own look-ups, or those of the domain, are in the way: others are posted to.
            log.info("post deferred", cause=str(error), **_ids(claimed))
        except Exception:
            log.exception("fault", during="post", **_ids(claimed))
        else:
            self._made.append(made)  # whichever list it is by now: a recorder may have taken the one before
            self._has_made.set()

    async def _record_until_drained(self) -> None:
        while self._made or not self._is_drained:
            await self._has_made.wait()
            await self._record_made()

    async def _record_made(self) -> None:
        """Record whatever has come back by now, a batch at a time."""
        self._has_made.clear()
        while self._made:
            is_full = len(self._posts) + len(self._made) >= self._max_in_flight
            batch, self._made = self._made[: self._batch], self._made[self._batch :]
            if await self._record(batch) or is_full:
                self._wake.set()

    async def _record(self, batch: list[Made]) -> bool:
        """Record a batch; true when there is more to claim by it. A failed one affects no other."""

        async def record(made: list[Made]) -> bool:
            return await self._deliver.record(made) > 0

        try:
            return await record(batch)
        except StoreUnavailable as error:
            log.warning("store unavailable", during="record", cause=repr(error.__cause__))
            await self._keep(batch)
            return False
        except Exception:
            log.exception("fault", during="record", deliveries=len(batch))
        if len(batch) == 1:
            return False
        return any([await log_faults(partial(record, [one]), "record") for one in batch])

    async def _keep(self, batch: list[Made]) -> None:
        """Retry a batch that the store was unavailable for, while its claims last: it exists only here."""
        if not self._stopping.is_set():
            self._made[:0] = [made for made in batch if self._deliver.is_worth_recording(made)]
            await wait_at_most(self._stopping, self._round_s)


def _ids(claimed: Claimed) -> dict[str, str]:
    """Name a delivery in a line that is logged of its post."""
    return {
        "account_id": str(claimed.account_id),
        "delivery_id": str(claimed.delivery_id),
        "event_id": str(claimed.event_id),
    }
