"""The note worker: claims notes that are due and works on several at once, beside the recordings' tasks.

It has a notifier and a limit of its own, so that a queue of notes delays no webhook. Owns concurrency;
decides nothing about a note. What it has in progress when it is stopped is due again at once, for
another worker.
"""

import asyncio
from collections.abc import Sequence

import structlog

from meetcore.adapters.worker.scheduler import Scheduler, log_faults, wait_at_most
from meetcore.ports.notes import NoteTask
from meetcore.usecases.periodic_task import PeriodicTask
from meetcore.usecases.write_notes import WriteNotes

log = structlog.get_logger("meetcore.worker")


class NoteWorker:
    """Runs until it is stopped.

    Args:
        periodic_tasks: run beside it; none waits for another.
        round_s: how often due notes are looked for without a notification.
    """

    def __init__(
        self, write: WriteNotes, periodic_tasks: Sequence[PeriodicTask], *, round_s: float = 1.0
    ) -> None:
        self._write = write
        self._scheduler = Scheduler(periodic_tasks, self.wake)
        self._round_s = round_s
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._notes: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Check for work now. To be called on the worker's own event loop."""
        self._wake.set()
        self._scheduler.notify()

    def stop(self) -> None:
        """Claim nothing more, give back what is in progress, and return from `run`."""
        self._stopping.set()
        self._scheduler.stop()
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`."""
        scheduler = asyncio.create_task(self._scheduler.run())
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                await log_faults(self._claim, "claim notes")
                await wait_at_most(self._wake, self._round_s)
        finally:
            for task in (scheduler, *self._notes):
                task.cancel()
            await asyncio.gather(scheduler, *self._notes, return_exceptions=True)

    async def _claim(self) -> bool:
        """Take what there is room for: false, for what is left can be taken only once a note has ended."""
        room = self._write.in_flight - len(self._notes)
        claimed = await self._write.claim(room) if room > 0 else []
        for task in claimed:
            work = asyncio.create_task(self._work(task))
            self._notes.add(work)
            work.add_done_callback(self._done)
        return False

    def _done(self, work: asyncio.Task[None]) -> None:
        self._notes.discard(work)
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
