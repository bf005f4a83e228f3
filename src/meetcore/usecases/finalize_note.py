"""The end of a note: completed and charged, or failed and free. No other place touches a note's money.

Each is one transaction: hold released, charge posted if any, event written. A worker that lost the
lease changes nothing. The charge has the note's operation name, so that no second one can follow.
"""

from collections.abc import Callable
from datetime import datetime

from attrs import frozen

from meetcore.domain.money import holds
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import Note, NoteFault
from meetcore.ports.notes import NoteSettlement, NoteTask
from meetcore.ports.store import Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime


async def fail_note(
    tx: Transaction, runtime: Runtime, settlement: NoteSettlement, fault: NoteFault, at: datetime
) -> tuple[Note, int]:
    """Fail a note, in a transaction that holds its account's lock; its hold is released.

    Returns:
        The note, and how many deliveries are due now.
    """
    reserved = holds.release(settlement.funds, settlement.usage, settlement.hold)
    failed, fact = notes.fail(settlement.note, fault)
    events = events_of(runtime, at, fact)
    due = await tx.notes.save_failed(failed, settlement.hold, reserved.funds, reserved.usage, events)
    return failed, due


async def complete_note(
    tx: Transaction, runtime: Runtime, settlement: NoteSettlement, credits: int, at: datetime
) -> tuple[Note, int]:
    """Charge a written note and show it, in a transaction that holds its account's lock.

    Returns:
        The note, and how many deliveries are due now.
    """
    settled = holds.settle(
        settlement.funds, settlement.usage, settlement.hold, credits, runtime.new_id(at), at,
        runtime.chain_key,
    )  # fmt: skip
    posting = settled.posting
    assert posting.entry is not None  # a settlement always posts
    note, fact = notes.complete(settlement.note, credits, posting.entry.transfer.id, at)
    events = events_of(runtime, at, fact, posting)
    due = await tx.notes.save_completed(
        note, settlement.hold, posting.funds, settled.usage, posting.entry, events
    )
    return note, due


def _ignore(_: Note, __: NoteFault) -> None:
    return None


@frozen
class FinalizeNote:
    """Ends notes for their workers. `notifier` wakes the delivery workers.

    `on_failed` is called with each note that was given up, once that is kept.
    """

    store: Store
    catalogue: TierCatalogue
    notifier: WorkerNotifier
    runtime: Runtime
    on_failed: Callable[[Note, NoteFault], object] = _ignore

    async def complete(self, task: NoteTask) -> bool:
        """Charge a written note by the length of its media and show it; false when the lease is lost.

        The charge may be larger than the hold: then it may take the balance below zero and pass the cap.

        Raises:
            StoreUnavailable: the database does not answer; nothing or all of it was done.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            settlement = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
            if settlement is None:
                return False
            credits = self.catalogue.quote_notulen(settlement.note.duration_s).credits
            _, due = await complete_note(tx, self.runtime, settlement, credits, now)
        self.runtime.metrics.credits_moved(TransferKind.NOTULEN_CHARGE, credits)
        if due:
            self.notifier.notify()
        return True

    async def fail(self, task: NoteTask, fault: NoteFault) -> bool:
        """Fail a note; false when the lease is lost.

        Raises:
            StoreUnavailable: the database does not answer; nothing or all of it was done.
        """
        async with self.store.begin() as tx:
            settlement = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
            if settlement is None:
                return False
            _, due = await fail_note(tx, self.runtime, settlement, fault, self.runtime.now())
        self.on_failed(settlement.note, fault)
        if due:
            self.notifier.notify()
        return True
