"""The note worker: claims notes that are due and works on several at once, beside the recordings' tasks.

It has a notifier and a limit of its own, so that a queue of notes delays no webhook. Its work in progress at
a stop is due again at once, for another worker.
"""

import asyncio
from collections.abc import Sequence

import structlog

from meetcore.adapters.worker.scheduler import ClaimingWorker, log_faults
from meetcore.domain.notes.views import NoteTask
from meetcore.usecases.notes.write_notes import WriteNotes
from meetcore.usecases.runtime import PeriodicTask


class NoteWorker(ClaimingWorker):
    """Runs until it is stopped; see `ClaimingWorker`."""

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
