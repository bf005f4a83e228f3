"""Request notes (rule 1/notes): by an API call, or because a meeting was made with `auto_notulen`.

Both take a hold and write a note that is due at once. A request that cannot be paid for is refused; an
automatic note that cannot be is written as failed with an event, because there is no response to carry it.
"""

from collections.abc import Callable
from datetime import datetime

from attrs import frozen

from meetcore.domain.errors import CreditCapExceeded, DomainError, Gone, InsufficientCredits
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import Language, Note, NoteFault
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.records.notes import note_record
from meetcore.ports.notes import NoteCreationView, NoteQuery
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.missing import missing
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime


@frozen
class NoteRequest:
    """A requested note. `recording_id` is as it was sent."""

    recording_id: str
    language: Language = Language.INDONESIAN


async def queue_note(
    tx: Transaction, runtime: Runtime, view: NoteCreationView, recording: Recording, language: Language,
    credits: int, now: datetime,
) -> Note:  # fmt: skip
    """Queue a note and hold its price.

    Raises:
        InsufficientCredits, CreditCapExceeded: see `holds.take`.
    """
    usage = view.usage
    note = notes.queue(runtime.new_id(now), recording, usage.api_key_id, language, now)
    hold = notes.hold_for(note, runtime.new_id(now), credits, usage.day)
    reserved = holds.take(view.funds, usage, view.daily_cap, hold)
    await tx.notes.save_queued(note, hold, reserved.funds, reserved.usage, runtime.tracing.cause())
    return note


def _ignore(_: Note, __: NoteFault) -> None:
    return None


@frozen
class NoteQueue:
    """Queues notes for the workers, in a transaction that the caller opened.

    `on_failed` is called with an automatic note that cannot be made.
    """

    catalogue: TierCatalogue
    runtime: Runtime
    on_failed: Callable[[Note, NoteFault], object] = _ignore

    async def add(
        self,
        tx: Transaction,
        admission: NoteCreationView,
        recording: Recording,
        language: Language,
        now: datetime,
    ) -> Note:
        """Queue a note and hold its price for the length that is known now.

        Raises:
            InsufficientCredits, CreditCapExceeded: see `holds.take`.
            Unprocessable: it costs more than the largest possible balance.
        """
        credits = self.catalogue.quote_notulen(recording.duration_s).credits
        return await queue_note(tx, self.runtime, admission, recording, language, credits, now)

    async def add_for_meeting(
        self, tx: Transaction, meeting: Meeting, recording: Recording, now: datetime
    ) -> int:
        """Queue the note that a meeting was made with, in Indonesian, on the cap of the meeting's key.

        Where a note is there already nothing is done.

        Returns:
            How many deliveries are due: of the event that it failed.
        """
        language = Language.INDONESIAN
        query = NoteQuery(meeting.account_id, meeting.api_key_id, cap_day(now), recording.id, language)
        admission = await tx.notes.load_note_creation(query)
        if admission.existing_note is not None:
            return 0
        try:
            notes.admit_note(recording, None, now)
            await self.add(tx, admission, recording, language, now)
        except DomainError as refusal:
            note = notes.queue(self.runtime.new_id(now), recording, meeting.api_key_id, language, now)
            failed, fact = notes.fail(note, _fault_of(refusal))
            self.on_failed(failed, _fault_of(refusal))
            return await tx.notes.save_refused(failed, events_of(self.runtime, now, fact))
        return 0


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
        self, caller: Caller, wanted: NoteRequest, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Queue the note, or answer as the first request with this key was answered.

        Returns:
            The note, or a refusal: NotFound, Gone, Conflict, Unprocessable, InsufficientCredits,
            CreditCapExceeded.

        Raises:
            ServiceUnavailable: the recording has grown and is being measured.
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
