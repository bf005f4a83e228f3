"""What is done with notes, without transcriber and writer: recorded, requested, claimed, made, ended.

Each function is one transaction, written as its use case writes it: load, decide, save. Owns no expectation:
that is the suites' business.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.domain.errors import DomainError
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import (
    ActionItem,
    Decision,
    Language,
    Note,
    NoteDraft,
    NoteFault,
    NoteStep,
)
from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingStatus
from meetcore.domain.notes.transcripts import Utterance
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.ports.lease import Lease
from meetcore.ports.notes import NoteCreationView, NoteQuery, NoteTask
from meetcore.testing.contracts.provider_event_inbox import new_file
from meetcore.testing.contracts.store_rig import QueriesRig, Rig
from meetcore.testing.contracts.transactions import AT, RUNTIME, Customer, new_id
from meetcore.usecases.create_note import queue_note
from meetcore.usecases.finalize_note import complete_note, fail_note

TRANSCRIPT = (
    Utterance(0.25, 3.5, "SEALED-said: kita pakai Postgres ✓", "Dewi"),
    Utterance(61.125, 62.0, "SEALED-said: ok"),
)
DRAFT = NoteDraft(
    "SEALED-summary ✓",
    (Decision("SEALED-decision", "kita pakai Postgres", 0.25),),
    (ActionItem("SEALED-task", "ok", 61.125, owner="SEALED-owner"), ActionItem("more", "ok", 61.125)),
    ("SEALED-topic",),
)


async def recorded(rig: Rig, customer: Customer, media_s: float = 90.0, **fields: Any) -> Recording:
    """A recording that is measured; `fields` are attributes of it."""
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
    rig: Rig, customer: Customer, recording: Recording, language: Language = Language.INDONESIAN
) -> NoteCreationView:
    """Load what the decision on a new note would read."""
    async with rig.store.begin() as tx:
        return await tx.notes.load_note_creation(_query(customer, recording.id, language))


async def ask(
    rig: Rig,
    customer: Customer,
    recording: Recording,
    language: Language = Language.INDONESIAN,
    price: int = 2,
    at: datetime = AT,
) -> Note | DomainError:
    """Ask for a note: the one that is queued, or why it is not."""
    async with rig.store.begin() as tx:
        view = await tx.notes.load_note_creation(_query(customer, recording.id, language))
        try:
            found = notes.admit_note(view.recording, view.existing_note, at)
            return await queue_note(tx, RUNTIME, view, found, language, price, at)
        except DomainError as refusal:
            return refusal


async def queued(
    rig: Rig,
    customer: Customer,
    recording: Recording | None = None,
    language: Language = Language.INDONESIAN,
    price: int = 2,
    at: datetime = AT,
) -> Note:
    """A note that waits for a worker, where nothing stands in the way; of a recording of its own if none."""
    note = await ask(rig, customer, recording or await recorded(rig, customer), language, price, at)
    assert isinstance(note, Note), note
    return note


async def claim_notes(
    rig: Rig, limit: int = 100, in_flight: int = 100, seconds: float = 60.0
) -> list[NoteTask]:
    """Claim what is due for so many seconds; a negative number is a worker that stops at once."""
    async with rig.store.begin() as tx:
        return list(await tx.notes.claim(limit, in_flight, Lease(new_id(), seconds)))


def written(note: Note) -> Note:
    """A note with everything but its price."""
    return evolve(note, step=NoteStep.SETTLE, draft=DRAFT, transcript=TRANSCRIPT, tries=0)


def note_event(note: Note, kind: EventKind = EventKind.NOTE_COMPLETED, **data: object) -> Event:
    """Return an event about a note, which is erased with it."""
    return Event(new_id(), note.account_id, kind, AT, data, note.id)


async def settle(rig: Rig, task: NoteTask, price: int = 2) -> Note | None:
    """Turn the hold into the charge; return the completed note, `None` when the lease is lost."""
    async with rig.store.begin() as tx:
        view = await tx.notes.load_settlement(task.note.account_id, task.note.id, task.token)
        if view is None:
            return None
        note, _ = await complete_note(tx, RUNTIME, evolve(view, note=written(view.note)), price, AT)
        return note


async def completed(rig: Rig, customer: Customer, price: int = 2) -> Note:
    """Return a note that was made and paid, where nothing else is due."""
    await queued(rig, customer, price=price)
    (task,) = await claim_notes(rig)
    note = await settle(rig, task, price)
    assert note is not None
    return note


async def give_up(rig: Rig, task: NoteTask) -> Note | None:
    """Release the hold; return the failed note, `None` when the lease is lost."""
    return await _fail(rig, task.note, task.token)


async def fail_unclaimed(rig: Rig, note: Note) -> Note | None:
    """Do the same without a lease; return `None` when the note is over."""
    return await _fail(rig, note, None)


async def _fail(rig: Rig, note: Note, token: UUID | None) -> Note | None:
    async with rig.store.begin() as tx:
        view = await tx.notes.load_settlement(note.account_id, note.id, token)
        if view is None:
            return None
        failed, _ = await fail_note(tx, RUNTIME, view, NoteFault.RECORDING_GONE, AT)
        return failed


async def erase(rig: Rig, note: Note) -> Note:
    """Erase a note that is over."""
    async with rig.store.begin() as tx:
        await tx.lock_account(note.account_id)
        erased = notes.erase(note)
        await tx.notes.save_erased(erased)
    return erased


async def find_note(rig: QueriesRig, note: Note) -> Note:
    """A note as it is stored."""
    found = await rig.queries.find_note(note.account_id, note.id)
    assert found is not None
    return found
