"""Transactions of notes, as their use cases write them, without transcriber and writer."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.domain.errors import DomainError
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import ActionItem, Decision, Language, Note, NoteDraft, NoteFault, NoteStep
from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingStatus
from meetcore.domain.notes.transcripts import Utterance
from meetcore.domain.notes.views import NoteCreationView, NoteQuery, NoteTask, RecordingTask
from meetcore.domain.webhooks.events import Event
from meetcore.ports.runtime import Lease
from meetcore.usecases.notes.note_charges import complete_note, fail_note, queue_note
from tests.support.postgres_rig import PostgresRig
from tests.support.records import new_file
from tests.support.transactions import AT, RUNTIME, Customer, new_id

TRANSCRIPT = (
    Utterance(0.25, 3.5, "SEALED-said: kita pakai Postgres ✓", "Dewi"),
    Utterance(61.125, 62.0, "SEALED-said: ok"),
)
DRAFT = NoteDraft(
    "SEALED-summary ✓",
    (Decision("SEALED-decision", "kita pakai Postgres", 0.25),),
    (
        ActionItem("SEALED-task", "ok", 61.125, "SEALED-owner", "SEALED-due", date(2026, 12, 3)),
        ActionItem("more", "ok", 61.125),
    ),
    ("SEALED-topic",),
)


async def recorded(rig: PostgresRig, customer: Customer, media_s: float = 90.0, **fields: Any) -> Recording:
    """Store a measured recording; `fields` are its attributes."""
    files = (new_file(), new_file("a2", kind=FileKind.AUDIO, size_bytes=900_000, media_s=media_s))
    recording = Recording(
        new_id(), customer.account_id, new_id(), "zoom", f"room-{new_id()}", RecordingStatus.AVAILABLE, files,
        AT, AT, AT + RETENTION,
    )  # fmt: skip
    recording = evolve(recording, **fields)
    async with rig.store.begin() as tx:
        await tx.lock_account(recording.account_id)
        await tx.recordings.save(recording)
    return recording


def _query(customer: Customer, recording_id: UUID, language: Language) -> NoteQuery:
    return NoteQuery(customer.account_id, customer.key_id, cap_day(AT), recording_id, language)


async def load_note_creation(
    rig: PostgresRig, customer: Customer, recording: Recording, language: Language = Language.INDONESIAN
) -> NoteCreationView:
    return await rig.alone.notes.load_note_creation(_query(customer, recording.id, language))


async def ask(
    rig: PostgresRig,
    customer: Customer,
    recording: Recording,
    language: Language = Language.INDONESIAN,
    price: int = 2,
    at: datetime = AT,
) -> Note | DomainError:
    """Request a note; return it queued, or the refusal."""
    async with rig.store.begin() as tx:
        view = await tx.notes.load_note_creation(_query(customer, recording.id, language))
        try:
            found = notes.admit_note(view.recording, view.existing_note, at)
            return await queue_note(tx, RUNTIME, view, found, language, price, at)
        except DomainError as refusal:
            return refusal


async def queued(
    rig: PostgresRig,
    customer: Customer,
    recording: Recording | None = None,
    language: Language = Language.INDONESIAN,
    price: int = 2,
    at: datetime = AT,
) -> Note:
    """Return a queued note, by default of a new recording."""
    note = await ask(rig, customer, recording or await recorded(rig, customer), language, price, at)
    assert isinstance(note, Note), note
    return note


async def claim_notes(
    rig: PostgresRig, limit: int = 100, in_flight: int = 100, seconds: float = 60.0
) -> list[NoteTask]:
    """Claim due work; a negative lease expires at once."""
    return list(await rig.alone.notes.claim(limit, in_flight, Lease(new_id(), seconds)))


def written(note: Note) -> Note:
    """Return the note with all content but its price."""
    return evolve(note, step=NoteStep.SETTLE, draft=DRAFT, transcript=TRANSCRIPT, tries=0)


async def settle(rig: PostgresRig, task: NoteTask, price: int = 2) -> Note | None:
    """Charge the hold; return the completed note, `None` if the lease is lost."""
    async with rig.store.begin() as tx:
        view = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
        if view is None:
            return None
        note, _ = await complete_note(tx, RUNTIME, evolve(view, note=written(view.note)), price, AT)
        return note


async def completed(rig: PostgresRig, customer: Customer, price: int = 2) -> Note:
    """Return a completed note; no other work may be due."""
    await queued(rig, customer, price=price)
    (task,) = await claim_notes(rig)
    note = await settle(rig, task, price)
    assert note is not None
    return note


async def give_up(rig: PostgresRig, task: NoteTask) -> Note | None:
    """Release the hold; return the failed note, `None` if the lease is lost."""
    return await _fail(rig, task.note, task.token)


async def fail_unclaimed(rig: PostgresRig, note: Note) -> Note | None:
    """Fail a note without a lease; return `None` if it is over."""
    return await _fail(rig, note, None)


async def _fail(rig: PostgresRig, note: Note, token: UUID | None) -> Note | None:
    async with rig.store.begin() as tx:
        view = await tx.notes.load_settlement(note.account_id, note.id, token)
        if view is None:
            return None
        failed, _ = await fail_note(tx, RUNTIME, view, NoteFault.RECORDING_GONE, AT)
        return failed


async def erase(rig: PostgresRig, note: Note) -> Note:
    async with rig.store.begin() as tx:
        await tx.lock_account(note.account_id)
        erased = notes.erase(note)
        await tx.notes.save_erased(erased)
    return erased


async def find_note(rig: PostgresRig, note: Note) -> Note:
    found = await rig.queries.find_note(note.account_id, note.id)
    assert found is not None
    return found


def new_recording(customer: Customer, **fields: Any) -> Recording:
    """Return an unmeasured recording with two files; `fields` are its attributes."""
    files = (new_file(), new_file("a2", kind=FileKind.AUDIO))
    recording = Recording(
        new_id(), customer.account_id, new_id(), "zoom", "85746065432", RecordingStatus.MEASURING, files,
        AT, AT, AT + RETENTION,
    )  # fmt: skip
    return evolve(recording, **fields)


async def keep_recording(rig: PostgresRig, recording: Recording, *events: Event) -> int:
    """Store a recording under its account's lock; return the number of due deliveries."""
    async with rig.store.begin() as tx:
        await tx.lock_account(recording.account_id)
        return await tx.recordings.save(recording, events)


async def find_recording(rig: PostgresRig, known: Recording) -> Recording | None:
    async with rig.store.begin() as tx:
        await tx.lock_account(known.account_id)
        return await tx.recordings.load(known.account_id, known.meeting_id)


def measured(recording: Recording) -> Recording:
    """Return the recording with all media measured."""
    files = tuple(evolve(file, media_s=90.0) for file in recording.files)
    return evolve(recording, status=RecordingStatus.AVAILABLE, files=files)


async def claim_recordings(rig: PostgresRig, limit: int = 100, seconds: float = 60.0) -> list[RecordingTask]:
    """Claim due work; a negative lease expires at once."""
    return list(await rig.alone.recordings.claim(limit, Lease(new_id(), seconds)))
