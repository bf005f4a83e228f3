"""Correct a completed note by hand."""

from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.notes import edits
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members.audit import record_by_hand
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome, missing, run_once
from meetcore.usecases.runtime import Runtime


@frozen
class EditNote:
    """Corrects notes. The audit log names the corrected parts, without their texts."""

    store: Store
    runtime: Runtime

    async def __call__(
        self,
        caller: Caller,
        note_id: UUID,
        wanted: edits.Corrections,
        seen: datetime | None,
        request: IdempotentRequest,
        now: datetime,
    ) -> Outcome:
        """Correct a note that was last edited at `seen`, or refuse as `edits.correct` does; idempotent."""

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            note = await tx.notes.load(caller.account.id, note_id)
            if note is None:
                raise await missing(tx, caller.account.id, note_id, "note")
            edited = edits.correct(note, wanted, seen, now)
            if edited is not note:
                await tx.notes.save_edited(edited)
                parts = ", ".join(edits.changed_parts(note, edited))
                await record_by_hand(tx, self.runtime, now, caller, "note.edited", note_id, parts=parts)
            return Outcome()

        return await run_once(self.store, caller.account.id, request, work)
