"""Expire recordings: by their age, or at their owner's request.

One transaction ends a recording: it reads `expired`, its link is gone, notes in progress fail
and cost nothing, transcripts are deleted. Its files are removed at the provider afterwards, by the one that
works on recordings, and until that is done it is due.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import Note, NoteFault
from meetcore.domain.notes.recordings import Recording, RecordingStatus, expire
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, StoreUnavailable, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.finalize_note import fail_note
from meetcore.usecases.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.missing import missing
from meetcore.usecases.runtime import Runtime


async def end_recording(
    tx: Transaction, runtime: Runtime, recording: Recording, at: datetime, *, with_notes: bool
) -> tuple[int, list[Note]]:
    """End a recording whose account is locked; return how many deliveries are due, and the failed notes."""
    due, failed = 0, []
    for note in await tx.notes.load_of_recording(recording.account_id, recording.id):
        settlement = await tx.notes.load_settlement(note.account_id, note.id, None)
        if settlement is not None:
            note, more = await fail_note(tx, runtime, settlement, NoteFault.RECORDING_GONE, at)
            due += more
            failed.append(settlement.note)
        if with_notes:
            await tx.notes.save_erased(notes.erase(note))
    await tx.notes.delete_transcript_chunks(recording.account_id, recording.id)
    await tx.recordings.save(expire(recording))
    return due, failed


def _ignore(_: Note, __: NoteFault) -> None:
    return None


@frozen
class ExpireRecordings:
    """Ends what is past its retention; notes that were made of it stay.

    `on_failed` is called with each note that failed for it, once that is kept.
    """

    store: Store
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    runtime: Runtime
    on_failed: Callable[[Note, NoteFault], object] = _ignore

    async def __call__(self, limit: int = 100) -> bool:
        """End up to `limit` recordings, each by itself; whether there may be more.

        Raises:
            ExceptionGroup: of those that could not be ended; the others were.
        """
        async with self.store.at_once() as tx:
            outlived = await tx.recordings.find_outlived(limit)
        faults: list[Exception] = []
        for account_id, meeting_id in outlived:
            try:
                await self._expire(account_id, meeting_id)
            except StoreUnavailable:
                raise
            except Exception as fault:  # noqa: BLE001  # one that cannot be read keeps no other
                fault.add_note(f"the recording of meeting {meeting_id}")
                faults.append(fault)
        if faults:
            raise ExceptionGroup("not every recording that is past its retention could be ended", faults)
        return len(outlived) == limit

    async def _expire(self, account_id: UUID, meeting_id: UUID) -> None:
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            recording = await tx.recordings.load(account_id, meeting_id)
            if recording is None:
                return
            due, failed = await end_recording(
                tx, self.runtime, recording, self.runtime.now(), with_notes=False
            )
        for note in failed:
            self.on_failed(note, NoteFault.RECORDING_GONE)
        self.notes_notifier.notify()
        if due:
            self.notifier.notify()


@frozen
class DeleteRecording:
    """Ends a recording at once, and on request everything that was made of it but the ledger.

    `on_failed` is called with each note that failed for it, once that is kept.
    """

    store: Store
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    runtime: Runtime
    on_failed: Callable[[Note, NoteFault], object] = _ignore

    async def __call__(
        self,
        caller: Caller,
        recording_id: UUID,
        request: IdempotentRequest,
        now: datetime,
        *,
        with_notes: bool,
    ) -> Outcome:
        """Delete a recording; idempotent.

        Args:
            with_notes: whether notes are erased too, with their events.

        Returns:
            Nothing, or a refusal: NotFound, or Gone past its retention.
        """
        failed: list[Note] = []

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            recording = await tx.recordings.load_by_id(caller.account.id, recording_id)
            if recording is None or recording.status is RecordingStatus.MEASURING:
                raise await missing(tx, caller.account.id, recording_id, "recording")
            due, failed[:] = await end_recording(tx, self.runtime, recording, now, with_notes=with_notes)
            return Outcome(due=due)

        outcome = await run_once(self.store, caller.account.id, request, work)
        for note in failed:
            self.on_failed(note, NoteFault.RECORDING_GONE)
        self.notes_notifier.notify()
        if outcome.due:
            self.notifier.notify()
        return outcome
