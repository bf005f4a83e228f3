"""Notes in SQLite: their queue, the transcripts made for them, and their money.

One writer at a time is SQLite's own rule: a claim runs alone, and so does ending a note.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.lease import Lease
from meetcore.ports.notes import NoteCreationView, NoteQuery, NoteSettlement, NoteTask

from . import note_statements as sql
from . import rows
from .connection import Connection
from .creations import load_usage, write_hold
from .ledger import append_entry, load_funds, write_funds, write_usage
from .outbox import write_events
from .recordings import FIND_RECORDING

__all__ = ["SqliteNoteRepository"]


class SqliteNoteRepository:
    """Notes, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock, entropy: Entropy) -> None:
        self._connection = connection
        self._clock = clock
        self._entropy = entropy

    async def load_note_creation(self, query: NoteQuery) -> NoteCreationView:
        """Everything that the decision on a new note needs."""
        parameters = rows.fields_of(query)
        key = await self._connection.fetch_one(sql.DAILY_CAP, parameters)
        recording = await self._connection.fetch_one(FIND_RECORDING, parameters | {"id": query.recording_id})
        existing_note = await self._connection.fetch_one(sql.EXISTING_NOTE, parameters)
        unused = CapUsage(query.api_key_id, query.cap_day)
        return NoteCreationView(
            funds=await load_funds(self._connection, query.account_id),
            usage=await load_usage(self._connection, query.account_id, unused),
            daily_cap=None if key is None else key["daily_cap"],
            recording=None if recording is None else rows.recording(recording),
            existing_note=None if existing_note is None else rows.note(existing_note),
        )

    async def save_queued(self, note: Note, hold: Hold, funds: Funds, usage: CapUsage) -> None:
        """Write a note that is due at once, and its hold."""
        await self._write(note, hold.id, self._clock.now())
        await write_hold(self._connection, note.account_id, hold)
        await write_usage(self._connection, note.account_id, usage)
        await write_funds(self._connection, funds)

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        """Write a note that failed before it began."""
        await self._write(note, None, None)
        return await self._add_events(events)

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        """Take notes that are due, one of a recording, of the account with the least in progress first."""
        now = self._clock.now()
        leased = await self._connection.fetch(sql.LEASED, {"now": now})
        busy = {row["recording_id"] for row in leased}
        load = Counter(row["account_id"] for row in leased)
        waiting = await self._connection.fetch(sql.DUE, {"now": now})
        tasks: list[NoteTask] = []
        for _ in range(min(limit, in_flight - len(leased))):
            free = [row for row in waiting if row["recording_id"] not in busy]
            if not free:
                break
            row = min(free, key=lambda one: (load[one["account_id"]], one["due_at"], one["id"]))
            busy.add(row["recording_id"])
            load[row["account_id"]] += 1
            tasks.append(await self._take(row, lease, now))
        return tasks

    async def _take(self, row: rows.Row, lease: Lease, now: datetime) -> NoteTask:
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        expirations = row["deaths"] + (row["lease_token"] is not None)
        await self._connection.change(sql.CLAIM, row | bearer | {"deaths": expirations})
        note = rows.note(row | {"status": "processing"})
        found = {"account_id": note.account_id, "id": note.recording_id}
        recording = await self._connection.fetch_one(FIND_RECORDING, found)
        assert recording is not None  # it stays readable when it expires
        return NoteTask(lease.token, note, rows.recording(recording), expirations)

    async def renew(self, task: NoteTask, seconds: float) -> bool:
        """Keep a claim for so many seconds from now; false when it is lost."""
        until = self._clock.now() + timedelta(seconds=seconds)
        return await self._connection.change(sql.RENEW, _bearer(task) | {"until": until}) == 1

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        """Write how far a note has come; false when the claim is lost."""
        return await self._connection.change(sql.SAVE_STEP, _columns(note) | _bearer(task)) == 1

    async def postpone(self, task: NoteTask, note: Note, seconds: float) -> bool:
        """Write a note and give it back, due in so many seconds; false when the claim is lost."""
        due = {"due_at": self._clock.now() + timedelta(seconds=seconds)}
        return await self._connection.change(sql.POSTPONE, _columns(note) | _bearer(task) | due) == 1

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        """The transcript chunks of the task's recording so far, by chunk number."""
        found = await self._connection.fetch(sql.LOAD_CHUNKS, _bearer(task) | {"source": source})
        return {row["piece"]: rows.transcript(row["heard"]) for row in found}

    async def save_transcript_chunk(
        self, task: NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool:
        """Save the transcript of a chunk; false when the claim is lost."""
        parameters = {"source": source, "piece": piece, "heard": msgspec.json.encode(transcript)}
        return await self._connection.change(sql.SAVE_CHUNK, _bearer(task) | parameters) == 1

    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> NoteSettlement | None:
        """A note in progress and its money; `None` when it is over, or the lease is lost."""
        wanted = {"account_id": account_id, "id": note_id, "token": token}
        row = await self._connection.fetch_one(sql.IN_PROGRESS, wanted)
        held = None if row is None else await self._connection.fetch_one(sql.HOLD, row)
        if row is None or held is None:
            return None
        hold = rows.hold(held)
        unused = CapUsage(hold.api_key_id, hold.cap_day)
        usage = await load_usage(self._connection, account_id, unused)
        return NoteSettlement(rows.note(row), await load_funds(self._connection, account_id), usage, hold)

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int:
        """Write a completed note, its charge in place of its hold, and its events."""
        await append_entry(self._connection, entry)
        return await self.save_failed(note, hold, funds, usage, events)

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        """Write a note that is over, its hold gone, and its events."""
        await self._connection.change(sql.END_HOLD, {"account_id": note.account_id, "hold_id": hold.id})
        await write_funds(self._connection, funds)
        await write_usage(self._connection, note.account_id, usage)
        await self._connection.change(sql.END, _columns(note))
        return await self._add_events(events)

    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        """Every note on a recording that is not erased."""
        wanted = {"account_id": account_id, "recording_id": recording_id}
        return [rows.note(row) for row in await self._connection.fetch(sql.OF_RECORDING, wanted)]

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None:
        """Delete the transcript chunks of a recording."""
        wanted = {"account_id": account_id, "recording_id": recording_id}
        await self._connection.change(sql.DELETE_CHUNKS, wanted)

    async def save_erased(self, note: Note) -> None:
        """Write an erased note; its events, their deliveries and attempts are deleted."""
        await self._connection.change(sql.END, _columns(note))
        for statement in sql.ERASE:
            await self._connection.change(statement, _columns(note))

    async def _write(self, note: Note, hold_id: UUID | None, due_at: datetime | None) -> None:
        await self._connection.change(sql.WRITE, _columns(note) | {"hold_id": hold_id, "due_at": due_at})

    async def _add_events(self, events: Sequence[Event]) -> int:
        return await write_events(self._connection, self._entropy, events, self._clock.now())


def _columns(note: Note) -> rows.Row:
    columns = rows.fields_of(note)
    del columns["draft"], columns["transcript"]
    is_empty = note.draft is None and not note.transcript
    return columns | {"content": None if is_empty else rows.content_of(note)}


def _bearer(task: NoteTask) -> rows.Row:
    note = task.note
    return {
        "account_id": note.account_id,
        "id": note.id,
        "recording_id": note.recording_id,
        "token": task.token,
    }
