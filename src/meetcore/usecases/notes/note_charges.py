"""Queue notes with a hold (rule 1/notes); charge, fail or correct them.

A note is queued by an API call, or because a meeting was made with `auto_notulen`; it is due at once. A
request that cannot be paid for is refused. An automatic note that cannot be paid for is written as failed
with an event, because no response carries the refusal.

The notes that a meeting was sold with are queued when it is over and its recording is measured, whichever is
later: so that a test call alone gets no notes. Where no recording ever came, the customer gets `note.failed`
and what the recording cost.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import define, frozen

from meetcore.domain.errors import CreditCapExceeded, DomainError, Gone, InsufficientCredits
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings import cancellation
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.meetings.views import NO_LEASE, LeaseView, MeetingView
from meetcore.domain.money import holds, pricing, transfers
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes import edits, notes, recordings
from meetcore.domain.notes.notes import Language, Note, NoteFault
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.notes.views import NoteCreationView, NoteQuery, NoteSettlement, NoteTask
from meetcore.domain.records.notes import note_record
from meetcore.ports import observability, queries
from meetcore.ports.queries import Caller
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members.audit import record_by_hand
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.requests.missing_records import missing
from meetcore.usecases.runtime import Runtime, ignore
from meetcore.usecases.webhooks.events import events_of


@frozen
class NoteRequest:
    """A requested note. `recording_id` is as it was sent."""

    recording_id: str
    language: Language = Language.INDONESIAN


async def queue_note(
    tx: Transaction, runtime: Runtime, view: NoteCreationView, recording: Recording, language: Language,
    credits: int, now: datetime,
) -> Note:  # fmt: skip
    """Queue a note and hold its price, or raise the refusal of `holds.take`."""
    usage = view.usage
    note = notes.queue(runtime.new_id(now), recording, usage.api_key_id, language, now)
    hold = notes.hold_for(note, runtime.new_id(now), credits, usage.day)
    reserved = holds.take(view.funds, usage, view.daily_cap, hold)
    cause = observability.cause_of(runtime.tracing)
    await tx.notes.save_queued(note, hold, reserved.funds, reserved.usage, cause)
    return note


@frozen
class NoteQueue:
    """Queues notes for the workers, in a transaction that the caller opened.

    `note_writer` is the name of the writer whose price is held. `on_failed` is called with an automatic note
    that cannot be made.
    """

    catalogue: pricing.TierCatalogue
    runtime: Runtime
    note_writer: str
    on_failed: Callable[[Note, NoteFault], object] = ignore

    async def add(
        self, tx: Transaction, admission: NoteCreationView, recording: Recording, language: Language,
        now: datetime,
    ) -> Note:  # fmt: skip
        """Queue a note and hold its price for the length that is known now, or refuse as `holds.take` does.

        Raises `Unprocessable`: it costs more than the largest possible balance.
        """
        is_by_rules = self.note_writer == notes.BY_RULES
        credits = self.catalogue.quote_notulen(recording.duration_s, is_by_rules=is_by_rules).credits
        return await queue_note(tx, self.runtime, admission, recording, language, credits, now)

    async def add_for_meeting(
        self, tx: Transaction, meeting: Meeting, recording: Recording, now: datetime, *, is_last: bool
    ) -> int:
        """Queue the note that a meeting was made with, in Indonesian, on the cap of the meeting's key.

        Nothing is done before the meeting is over and all of the recording is measured, nor where a note in
        this language is there already, even a failed one. A recording without sound, as of a test call, waits
        for the media of the other sessions, unless `is_last`: it is not looked for again. Returns how many
        deliveries of its failure are due.
        """
        if recordings.needs_work(recording) or not await _lacks_note(tx, meeting, recording):
            return 0
        if recording.duration_s < 1 and not is_last and not await _has_every_session(tx, recording):
            return 0
        query = NoteQuery(meeting.account_id, meeting.api_key_id, cap_day(now), recording.id, _AUTOMATIC)
        admission = await tx.notes.load_note_creation(query)
        try:
            notes.admit_note(recording, None, now)
            await self.add(tx, admission, recording, _AUTOMATIC, now)
        except DomainError as refusal:
            return await self._refuse(tx, meeting, recording, _fault_of(refusal), now)
        return 0

    async def fail_for_meeting(
        self, tx: Transaction, view: MeetingView, recording: Recording, now: datetime
    ) -> int:
        """Fail the note that a meeting was made with, where its recording ends before the note is queued.

        Once the recording is measured and not looked for any more, the note was queued; it may have been
        removed past its retention since. Returns how many deliveries are due.
        """
        can_be_queued = view.is_due or recordings.needs_work(recording)
        if not can_be_queued or not await _lacks_note(tx, view.meeting, recording):
            return 0
        return await self._refuse(tx, view.meeting, recording, NoteFault.RECORDING_GONE, now)

    async def _refuse(
        self, tx: Transaction, meeting: Meeting, recording: Recording, fault: NoteFault, now: datetime
    ) -> int:
        note = notes.queue(self.runtime.new_id(now), recording, meeting.api_key_id, _AUTOMATIC, now)
        failed, fact = notes.fail(note, fault)
        self.on_failed(failed, fault)
        return await tx.notes.save_refused(failed, events_of(self.runtime, now, fact))


_AUTOMATIC: Final = Language.INDONESIAN
"""The language of the notes that meetings are made with."""


async def _lacks_note(tx: Transaction, meeting: Meeting, recording: Recording) -> bool:
    """Return whether an ended meeting was made with a note that its shown recording does not have yet."""
    is_shown = recording.status is recordings.RecordingStatus.AVAILABLE
    if not (meeting.options.auto_notulen and meeting.status is MeetingStatus.ENDED and is_shown):
        return False
    known = await tx.notes.load_of_recording(meeting.account_id, recording.id)
    return all(note.language is not _AUTOMATIC for note in known)


async def _has_every_session(tx: Transaction, recording: Recording) -> bool:
    held = await tx.meetings.load_sessions(recording.account_id, recording.meeting_id)
    return recordings.recorded_sessions(recording.files).issuperset(session.id for session in held)


def _fault_of(refusal: DomainError) -> NoteFault:
    if isinstance(refusal, CreditCapExceeded):
        return NoteFault.CAP_REACHED
    if isinstance(refusal, InsufficientCredits):
        return NoteFault.SHORT_OF_CREDITS
    if isinstance(refusal, Gone):
        return NoteFault.RECORDING_GONE
    return NoteFault.MEDIA_UNREADABLE


@frozen
class CreateNote:
    """Queues a note once for each request. `notifier` wakes the note workers."""

    store: Store
    queue: NoteQueue
    notifier: WorkerNotifier

    async def __call__(
        self, caller: queries.Caller, wanted: NoteRequest, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Queue the note, or answer as the first request with this key was answered.

        A refusal is NotFound, Gone, Conflict, Unprocessable, InsufficientCredits or CreditCapExceeded. Raises
        `ServiceUnavailable`: the recording has grown and is being measured.
        """

        async def work(tx: Transaction) -> Outcome:
            recording_id = parse_id(wanted.recording_id, "recording")
            query = NoteQuery(caller.account.id, caller.key.id, cap_day(now), recording_id, wanted.language)
            admission = await tx.notes.load_note_creation(query)
            if admission.recording is None:
                raise await missing(tx, caller.account.id, recording_id, "recording")
            recording = notes.admit_note(admission.recording, admission.existing_note, now)
            note = await self.queue.add(tx, admission, recording, wanted.language, now)
            return Outcome(note_record(note))

        outcome = await run_once(self.store, caller.account.id, request, work)
        self.notifier.notify()
        return outcome


async def fail_note(
    tx: Transaction, runtime: Runtime, settlement: NoteSettlement, fault: NoteFault, at: datetime
) -> tuple[Note, int]:
    """Fail a note under its account's lock, releasing its hold; return how many deliveries are due, too."""
    reserved = holds.release(settlement.funds, settlement.usage, settlement.hold)
    failed, fact = notes.fail(settlement.note, fault)
    events = events_of(runtime, at, fact)
    due = await tx.notes.save_failed(failed, settlement.hold, reserved.funds, reserved.usage, events)
    return failed, due


async def complete_note(
    tx: Transaction, runtime: Runtime, settlement: NoteSettlement, credits: int, at: datetime
) -> tuple[Note, int]:
    """Charge a written note and show it, under its account's lock; return how many are due, mails too."""
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
    return note, due + await runtime.mail_low(tx, posting.facts)


@frozen
class FinalizeNote:
    """Ends notes for their workers, each as a whole or not at all. `notifier` wakes the delivery workers.

    `on_failed` is called with each note that was given up, once that is kept.
    """

    store: Store
    catalogue: pricing.TierCatalogue
    notifier: WorkerNotifier
    runtime: Runtime
    on_failed: Callable[[Note, NoteFault], object] = ignore

    async def complete(self, task: NoteTask) -> None:
        """Charge a note by the length of its media and its writer, and show it; nothing without the lease.

        The charge may be larger than the hold: then it may take the balance below zero and pass the cap.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            settlement = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
            if settlement is None:
                return
            note = settlement.note
            is_by_rules = note.written_by == notes.BY_RULES
            credits = self.catalogue.quote_notulen(note.duration_s, is_by_rules=is_by_rules).credits
            _, due = await complete_note(tx, self.runtime, settlement, credits, now)
        observability.count_credits(self.runtime.metrics, transfers.TransferKind.NOTULEN_CHARGE, credits)
        if due:
            self.notifier.notify()

    async def fail(self, task: NoteTask, fault: NoteFault) -> None:
        """Fail a note; nothing when the lease is lost."""
        async with self.store.begin() as tx:
            settlement = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
            if settlement is None:
                return
            _, due = await fail_note(tx, self.runtime, settlement, fault, self.runtime.now())
        self.on_failed(settlement.note, fault)
        if due:
            self.notifier.notify()


@frozen
class ConcludeRecording:
    """Queues the notes of a meeting that is over, or gives up its recording, in the caller's transaction."""

    queue: NoteQueue
    runtime: Runtime

    async def __call__(self, tx: Transaction, meeting: Meeting, *, is_last: bool) -> int:
        """Take the account's lock and do what is due; return how many deliveries are due.

        `is_last`: the recording is not looked for again.
        """
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, NO_LEASE)
        if view is None or view.meeting.status is not MeetingStatus.ENDED:
            return 0
        recording = await tx.recordings.load(meeting.account_id, meeting.id)
        if recording is None or not recordings.segments(recording):  # at most a chat or captions
            return await self._give_up(tx, view) if is_last else 0
        return await self.queue.add_for_meeting(
            tx, view.meeting, recording, self.runtime.now(), is_last=is_last
        )

    async def give_up(self, tx: Transaction, account_id: UUID, meeting_id: UUID) -> int:
        """Give up a recording that its customer never saw; return how many deliveries are due."""
        view = await tx.meetings.load_leased(account_id, meeting_id, NO_LEASE)
        if view is None or view.meeting.status is not MeetingStatus.ENDED:
            return 0
        return await self._give_up(tx, view)

    async def _give_up(self, tx: Transaction, view: LeaseView) -> int:
        meeting, charge, now = view.meeting, view.charge, self.runtime.now()
        if charge is not None:
            new_id = self.runtime.new_id(now)
            done = cancellation.give_back_recording(
                meeting, charge, view.funds, view.usage, new_id, now, self.runtime.chain_key
            )
            if done.refund is not None:
                await tx.meetings.save_cancelled(view, done.meeting, done.refund, (), None)
                given_back = meeting.recording_credits
                observability.count_credits(self.runtime.metrics, TransferKind.MEETING_REFUND, given_back)
        if not meeting.options.auto_notulen:
            return 0
        note, fact = notes.fail_without_recording(self.runtime.new_id(now), meeting, _AUTOMATIC, now)
        self.queue.on_failed(note, notes.NoteFault.NO_RECORDING)
        return await tx.notes.save_refused(note, events_of(self.runtime, now, fact))


@frozen
class EditNote:
    """Corrects notes. The audit log names the corrected parts, without their texts."""

    store: Store
    runtime: Runtime

    async def __call__(
        self, caller: Caller, note_id: UUID, wanted: edits.Corrections, seen: datetime | None,
        request: IdempotentRequest, now: datetime,
    ) -> Outcome:  # fmt: skip
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


@define
class KeptParts:
    """Keeps parts by `save`, under the lease of the task. Fills `ports.ai.KeptParts`."""

    task: NoteTask
    save: Callable[[NoteTask, notes.Note], Awaitable[NoteTask]]
    has_come_on: bool = False

    def get(self, name: str) -> str | None:
        """Return a part's text, where it was kept."""
        return dict(self.task.note.parts).get(name)

    async def keep(self, name: str, text: str) -> None:
        """Keep a part, where there is room for it. Raises as `save`."""
        note = notes.keep_part(self.task.note, name, text)
        if note is not self.task.note:
            self.task, self.has_come_on = await self.save(self.task, note), True
