"""Notes in memory: claimed by pushing the due time past a lease."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.ledger import append_entry, usage_of, write_funds, write_usage
from meetcore.adapters.memory.outbox import write_events
from meetcore.adapters.memory.recordings import recording_by_id
from meetcore.adapters.memory.state import ConstraintBroken, StoredNote, Tables, account_of
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes.notes import (
    TRANSITIONS,
    Note,
    NoteEvent,
    NoteStatus,
    blocks_new_note,
    is_in_progress,
)
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.lease import Lease
from meetcore.ports.notes import NoteCreationView, NoteQuery, NoteSettlement, NoteTask


class MemoryNoteRepository:
    """Notes, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock, entropy: Entropy) -> None:
        self._tables = tables
        self._clock = clock
        self._entropy = entropy

    async def load_note_creation(self, query: NoteQuery) -> NoteCreationView:
        tables, account_id = self._tables, query.account_id
        account = account_of(tables, account_id)
        key = tables.keys.get(query.api_key_id)
        existing_notes = (
            note
            for note in self._of_recording(account_id, query.recording_id)
            if note.language is query.language and blocks_new_note(note)
        )
        return NoteCreationView(
            account.funds,
            usage_of(tables, account_id, query.api_key_id, query.cap_day),
            None if key is None else key.daily_cap,
            recording_by_id(tables, account_id, query.recording_id),
            next(existing_notes, None),
        )

    async def save_queued(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, cause: str | None = None
    ) -> None:
        self._check_new(note)
        self._tables.holds[note.account_id, hold.id] = hold
        write_funds(self._tables, funds)
        write_usage(self._tables, note.account_id, usage)
        self._put(StoredNote(note, hold.id, self._clock.now(), cause=cause))

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        self._check_new(note)
        self._put(StoredNote(note, None, None))
        return self._add_events(note, events)

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        now = self._clock.now()
        leased = [stored.note for stored in self._tables.notes.values() if stored.is_leased(now)]
        busy = {note.recording_id for note in leased}
        load = Counter(note.account_id for note in leased)
        until = now + timedelta(seconds=lease.seconds)
        tasks: list[NoteTask] = []
        for _ in range(min(limit, max(0, in_flight - len(leased)))):
            due = [
                (load[stored.note.account_id], stored.due_at, stored.note.id, stored)
                for stored in self._tables.notes.values()
                if stored.due_at is not None and stored.due_at <= now and stored.note.recording_id not in busy
            ]
            if not due:
                break
            stored = min(due, key=lambda one: one[:3])[3]
            busy.add(stored.note.recording_id)
            load[stored.note.account_id] += 1
            taken = evolve(stored.note, status=TRANSITIONS[stored.note.status, NoteEvent.TAKE])
            expirations = stored.lease_expirations + (stored.token is not None)
            claimed = evolve(stored, due_at=until, token=lease.token, lease_expirations=expirations)
            self._put(evolve(claimed, note=taken))
            recording = recording_by_id(self._tables, taken.account_id, taken.recording_id)
            assert recording is not None  # it stays readable when it expires
            tasks.append(
                NoteTask(lease.token, taken, recording, expirations, stored.token is not None, stored.cause)
            )
        return tasks

    async def is_any_overdue(self, seconds: float) -> bool:
        since = self._clock.now() - timedelta(seconds=seconds)
        due = [stored.due_at for stored in self._tables.notes.values()]
        due += [stored.due_at for stored in self._tables.recordings.values()]
        return any(each is not None and each <= since for each in due)

    async def renew(self, task: NoteTask, seconds: float) -> bool:
        stored = self._claimed(task)
        if stored is not None:
            self._put(evolve(stored, due_at=self._clock.now() + timedelta(seconds=seconds)))
        return stored is not None

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        stored = self._claimed(task)
        if stored is not None:
            self._put(evolve(stored, note=note))
        return stored is not None

    async def postpone(self, task: NoteTask, note: Note, seconds: float) -> bool:
        stored = self._claimed(task)
        if stored is not None:
            due_at = self._clock.now() + timedelta(seconds=seconds)
            self._put(evolve(stored, note=note, due_at=due_at, token=None))
        return stored is not None

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        name = task.note.account_id, task.note.recording_id, source
        chunks = self._tables.transcript_chunks.items()
        return {known[3]: transcript for known, transcript in chunks if known[:3] == name}

    async def save_transcript_chunk(
        self, task: NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool:
        is_claimed = self._claimed(task) is not None
        if is_claimed:
            name = task.note.account_id, task.note.recording_id, source, piece
            self._tables.transcript_chunks[name] = transcript
        return is_claimed

    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> NoteSettlement | None:
        stored = self._tables.notes.get((account_id, note_id))
        if stored is None or stored.hold_id is None or (token is not None and stored.token != token):
            return None
        hold = self._tables.holds[account_id, stored.hold_id]
        usage = usage_of(self._tables, account_id, hold.api_key_id, hold.cap_day)
        return NoteSettlement(stored.note, account_of(self._tables, account_id).funds, usage, hold)

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int:
        append_entry(self._tables, entry)
        return await self.save_failed(note, hold, funds, usage, events)

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        self._tables.holds.pop((note.account_id, hold.id))
        write_funds(self._tables, funds)
        write_usage(self._tables, note.account_id, usage)
        self._put(StoredNote(note, None, None))
        return self._add_events(note, events)

    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        notes = self._of_recording(account_id, recording_id)
        return sorted(
            (note for note in notes if note.status is not NoteStatus.ERASED), key=lambda note: note.id
        )

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None:
        chunks = self._tables.transcript_chunks
        for name in [name for name in chunks if name[:2] == (account_id, recording_id)]:
            del chunks[name]

    async def save_erased(self, note: Note) -> None:
        self._put(StoredNote(note, None, None))
        tables, account_id = self._tables, note.account_id
        events = {
            id_
            for (owner, id_), stored in tables.events.items()
            if owner == account_id and stored.subject_id == note.id
        }
        deliveries = {
            id_
            for (owner, id_), one in tables.deliveries.items()
            if owner == account_id and one.delivery.event_id in events
        }
        for id_ in events:
            del tables.events[account_id, id_]
        for id_ in deliveries:
            del tables.deliveries[account_id, id_]
        for name in [name for name in tables.attempts if name[0] == account_id and name[1] in deliveries]:
            del tables.attempts[name]

    def _check_new(self, note: Note) -> None:
        existing_notes = self._of_recording(note.account_id, note.recording_id)
        if blocks_new_note(note) and any(
            one.language is note.language and blocks_new_note(one) for one in existing_notes
        ):
            raise ConstraintBroken(f"recording {note.recording_id} has a note in {note.language} already")

    def _of_recording(self, account_id: UUID, recording_id: UUID) -> list[Note]:
        name = account_id, recording_id
        notes = (stored.note for stored in self._tables.notes.values())
        return [note for note in notes if (note.account_id, note.recording_id) == name]

    def _claimed(self, task: NoteTask) -> StoredNote | None:
        stored = self._tables.notes.get((task.note.account_id, task.note.id))
        is_claimed = stored is not None and stored.token == task.token and is_in_progress(stored.note)
        return stored if is_claimed else None

    def _put(self, stored: StoredNote) -> None:
        self._tables.notes[stored.note.account_id, stored.note.id] = stored

    def _add_events(self, note: Note, events: Sequence[Event]) -> int:
        return write_events(self._tables, note.account_id, events, self._clock.now(), self._entropy)
