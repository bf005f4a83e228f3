"""The delivery worker and the note worker, each with a notifier and a limit of its own.

The delivery worker claims due deliveries at each notification or round, and keeps posts in flight. Posts that
end while a batch is being recorded make the next batch, so that batches grow with the load. Beside the
deliveries it does periodic tasks, each in rounds of its own, so that a provider that is slow to answer delays
nothing else.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from meetcore.adapters.worker.scheduler import ClaimingWorker, log_faults, wait_at_most
from meetcore.domain.notes.views import NoteTask
from meetcore.domain.webhooks.views import Claimed
from meetcore.ports import observability, store, webhook_sender
from meetcore.usecases.notes.write_notes import WriteNotes
from meetcore.usecases.runtime import PeriodicTask
from meetcore.usecases.webhooks.deliver import DeliverWebhooks, PostResult

log = structlog.get_logger("meetcore.worker")


class DeliveryWorker(ClaimingWorker):
    """Runs until stopped, then waits for the posts in flight and records them; see `ClaimingWorker`.

    `batch` bounds the deliveries taken or recorded in one transaction. While a fault of the sender puts
    deliveries off, a claim takes `probes` of them, to find out whether it still does, and `backoff_s` passes
    before the next; other workers take the rest. Afterwards it is twice as many with each record, until a
    claim finds fewer than it may take.
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
        probes: int = 10,
    ) -> None:
        super().__init__(periodic_tasks, round_s)
        self._deliver = deliver
        self._max_in_flight = max_in_flight
        self._batch = batch
        self._backoff_s = backoff_s
        self._allowance, self._probes = max_in_flight, min(probes, max_in_flight)
        self._made: list[PostResult] = []
        self._has_made = asyncio.Event()
        self._is_drained = False

    async def run(self) -> None:
        """Work until `stop`."""
        self._recorder = asyncio.create_task(self._record_until_drained())
        try:
            await super().run()
        finally:
            self._recorder.cancel()
            await asyncio.gather(self._recorder, return_exceptions=True)

    async def _drain(self) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        self._is_drained = True
        self._has_made.set()
        await self._recorder

    async def _claim(self) -> bool:
        if self._allowance < self._max_in_flight:
            await wait_at_most(self._stopping, self._backoff_s)
        room = min(self._batch, self._allowance - len(self._in_flight) - len(self._made))
        if room <= 0:
            return False
        claimed = await self._deliver.claim(room)
        for one in claimed:
            self._start(self._post(one))
        if len(claimed) < room and not self._deliver.sender_state.is_failing:
            self._allowance = self._max_in_flight
        return len(claimed) == room

    async def _post(self, claimed: Claimed) -> None:
        try:
            made = await self._deliver.post(claimed)
        except webhook_sender.PostDeferred as error:
            # The account's own look-ups, or those of the domain, are in the way: others are posted to.
            log.info("post deferred", cause=str(error), **_ids(claimed))
            made = PostResult(claimed, self._deliver.runtime.now())
        except Exception:
            log.exception("fault", during="post", **_ids(claimed))
            return
        self._made.append(made)  # whichever list it is by now: a recorder may have taken the one before
        self._has_made.set()

    async def _record_until_drained(self) -> None:
        while self._made or not self._is_drained:
            await self._has_made.wait()
            await self._record_made()

    async def _record_made(self) -> None:
        """Record the ended posts, a batch at a time."""
        self._has_made.clear()
        while self._made:
            is_full = len(self._in_flight) + len(self._made) >= self._max_in_flight
            batch, self._made = self._made[: self._batch], self._made[self._batch :]
            if await self._record(batch) or is_full:
                self._wake.set()

    async def _record(self, batch: list[PostResult]) -> bool:
        """Record a batch; true when there is more to claim by it. A failed one affects no other."""

        async def record(made: list[PostResult]) -> bool:
            due = await self._deliver.record(made)
            is_failing = self._deliver.sender_state.is_failing
            self._allowance = self._probes if is_failing else min(2 * self._allowance, self._max_in_flight)
            return due > 0

        try:
            return await record(batch)
        except store.StoreUnavailable as error:
            log.warning("store unavailable", during="record", cause=repr(error.__cause__))
            await self._keep(batch)
            return False
        except Exception:
            log.exception("fault", during="record", deliveries=len(batch))
        if len(batch) == 1:
            return False
        return any([await log_faults(partial(record, [one]), "record") for one in batch])

    async def _keep(self, batch: list[PostResult]) -> None:
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
    } | ({"request_id": request_id} if (request_id := observability.request_of(claimed.cause)) else {})


class NoteWorker(ClaimingWorker):
    """Works on several notes at once, beside the recordings' tasks; see `ClaimingWorker`.

    Its work in progress at a stop is due again at once, for another worker.
    """

    during = "claim notes"

    def __init__(
        self, write: WriteNotes, periodic_tasks: Sequence[PeriodicTask], *, round_s: float = 1.0
    ) -> None:
        super().__init__(periodic_tasks, round_s)
        self._write = write

    async def _claim(self) -> bool:
        """Claim notes up to the limit; false, as more can be claimed only once a note has ended."""
        room = self._write.in_flight - len(self._in_flight)
        for task in await self._write.claim(room) if room > 0 else []:
            self._start(self._work(task))
        return False

    async def _drain(self) -> None:
        """Let begin what was claimed last: cancelled before, it would give nothing back."""
        await asyncio.sleep(0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        super()._ended(task)
        self._wake.set()

    async def _work(self, task: NoteTask) -> None:
        async def work() -> bool:
            await self._write.work(task)
            return True

        note = task.note
        with structlog.contextvars.bound_contextvars(
            account_id=str(note.account_id), note_id=str(note.id), step=note.step.value
        ):
            await log_faults(work, "note")
