"""Notes in PostgreSQL: their queue, the transcripts made for them, and their money.

Claims are taken one after another, under a lock of their own that ends with the claim: so the bound on what is in
progress over all workers is exact, and no recording is transcribed twice at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres import note_rows, rows
from meetcore.adapters.postgres.advisory_locks import NOTE_CLAIMS
from meetcore.adapters.postgres.ledger import (
    APPEND_ENTRY,
    GUARD_LOCKED,
    LOCK_ACCOUNT,
    WRITE_FUNDS,
    entry_parameters,
    fetch_locked,
    funds_parameters,
    usage_parameters,
)
from meetcore.adapters.postgres.note_rows import NOTE_COLUMNS, RECORDING_COLUMNS
from meetcore.adapters.postgres.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.errors import NotFound
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.webhooks.events import Event
from meetcore.ports.cipher import Cipher, CipherRefused
from meetcore.ports.lease import Lease
from meetcore.ports.notes import NoteCreationView, NoteQuery, NoteSettlement, NoteTask

__all__ = ["PostgresNoteRepository"]

log = structlog.get_logger("meetcore.postgres")

# Everything that the decision on a new note needs, under the account's lock: its funds, the key's usage and cap,
# the recording, and the note that is in its place.
_LOAD_ADMISSION = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version, k.daily_cap,
       u.spent AS usage_spent, u.held AS usage_held
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id AND u.api_key_id = %(api_key_id)s AND u.day = %(day)s
"""

# The recording that notes are wanted of. The account is locked by now.
_LOAD_RECORDING = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r WHERE r.account_id = %(account_id)s AND r.id = %(recording_id)s
"""

# The note that is in the place of a new one. The account is locked by now.
_LOAD_EXISTING = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.language = %(language)s
    AND n.status IN ('queued', 'processing', 'completed')
"""

_INSERT = """
        INSERT INTO notes (account_id, id, api_key_id, recording_id, meeting_id, language, status, step, duration_s,
            created_at, tries, content, credits_charged, charge_id, error, completed_at, hold_id, due_at)
        SELECT account_id, %(note_id)s, %(note_api_key_id)s, %(recording_id)s, %(meeting_id)s, %(language)s, %(status)s,
            %(step)s, %(duration_s)s, %(created_at)s, %(tries)s, %(content)s, %(credits_charged)s, %(charge_id)s,
            %(error)s, %(completed_at)s, %(hold_id)s, CASE WHEN %(hold_id)s::uuid IS NOT NULL THEN clock_timestamp() END
        FROM guard"""

# Writes a note that waits for a worker, and what is held for it.
_SAVE_QUEUED = f"""
WITH {GUARD_LOCKED}, note AS ({_INSERT}
), hold AS (
    INSERT INTO ledger_holds (account_id, id, operation, kind, amount, reference_type, reference_id, api_key_id, cap_day)
    SELECT account_id, %(hold_id)s, %(hold_operation)s, %(hold_kind)s, %(hold_amount)s, %(hold_reference_type)s,
        %(hold_reference_id)s, %(usage_key_id)s, %(usage_day)s
    FROM guard
), usage AS (
    INSERT INTO cap_usage (account_id, api_key_id, day, spent, held)
    SELECT account_id, %(usage_key_id)s, %(usage_day)s, %(usage_spent)s, %(usage_held)s FROM guard
    ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held
), {WRITE_FUNDS}
SELECT 1
"""

# Writes a note that failed before it began, and its event.
_SAVE_REFUSED = f"""
WITH {GUARD_LOCKED}, note AS ({_INSERT}
), {WRITE_EVENTS}, account AS (
    UPDATE accounts SET version = version + 1 FROM guard WHERE accounts.id = guard.account_id
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# Claims follow one another; the lock ends with the transaction.
_LOCK_CLAIMS = f"SELECT pg_advisory_xact_lock({NOTE_CLAIMS})"

# Takes notes that are due, as many as the bound on those in progress allows: one for each recording that no
# other note is working on; each account's in turn, after what it has in progress already.
_CLAIM = f"""
WITH leased AS MATERIALIZED (
    SELECT account_id, recording_id FROM notes WHERE due_at > statement_timestamp() AND lease_token IS NOT NULL
), waiting AS (
    SELECT account_id, id, due_at,
           row_number() OVER (PARTITION BY account_id, recording_id ORDER BY due_at, id) AS of_recording
    FROM notes WHERE due_at <= statement_timestamp()
        AND NOT EXISTS (SELECT FROM leased l
                        WHERE l.account_id = notes.account_id AND l.recording_id = notes.recording_id)
), ranked AS (
    SELECT account_id, id, due_at, row_number() OVER (PARTITION BY account_id ORDER BY due_at, id)
        + (SELECT count(*) FROM leased l WHERE l.account_id = waiting.account_id) AS turn
    FROM waiting WHERE of_recording = 1
), due AS (
    SELECT account_id, id, turn, due_at AS was_due_at FROM ranked
    ORDER BY turn, due_at, id
    LIMIT LEAST(%(limit)s, GREATEST(0, %(in_flight)s - (SELECT count(*) FROM leased)))
), n AS (
    UPDATE notes SET status = 'processing', lease_token = %(token)s,
        lease_expirations = lease_expirations + CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE notes.account_id = due.account_id AND notes.id = due.id AND notes.due_at = due.was_due_at
    RETURNING notes.*, due.turn, due.was_due_at
)
SELECT {NOTE_COLUMNS}, {RECORDING_COLUMNS}, n.lease_expirations
FROM n JOIN recordings r ON r.account_id = n.account_id AND r.id = n.recording_id
ORDER BY n.turn, n.was_due_at, n.id
"""

# Postpones a note that cannot be read, long enough that it delays no other.
_POSTPONE_UNREADABLE = """
UPDATE notes SET lease_token = NULL, due_at = clock_timestamp() + interval '1 hour'
WHERE account_id = %(account_id)s AND id = %(note_id)s
"""

# Keeps a claim, for its holder only.
_RENEW = """
UPDATE notes SET due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s
"""

_STEP = """
    UPDATE notes SET step = %(step)s, duration_s = %(duration_s)s, tries = %(tries)s, content = %(content)s"""

# Writes how far a note has come, for the holder of its claim only.
_SAVE_STEP = f"""{_STEP}
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s
"""

# The same, and gives the note back until later.
_POSTPONE = f"""{_STEP}, lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s
"""

# The transcript chunks of a recording.
_LOAD_CHUNKS = """
SELECT account_id, recording_id, source, number, transcript FROM transcript_chunks
WHERE account_id = %(account_id)s AND recording_id = %(recording_id)s AND source = %(source)s
"""

# Saves the transcript of a chunk, for the holder of the note's claim only.
_SAVE_CHUNK = """
INSERT INTO transcript_chunks (account_id, recording_id, source, number, transcript)
SELECT %(account_id)s, %(recording_id)s, %(source)s, %(number)s, %(transcript)s
FROM notes WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s FOR NO KEY UPDATE
ON CONFLICT (account_id, recording_id, source, number) DO UPDATE SET transcript = EXCLUDED.transcript
"""

# A note in progress with its money, under the account's lock, and under a lock of its own: its holder writes steps
# without the account's.
_LOAD_SETTLEMENT = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version, {NOTE_COLUMNS},
       hold.id AS hold_id, hold.operation AS hold_operation, hold.kind AS hold_kind, hold.amount AS hold_amount,
       hold.reference_type AS hold_reference_type, hold.reference_id AS hold_reference_id,
       hold.api_key_id AS hold_api_key_id, hold.cap_day AS hold_cap_day, u.spent AS usage_spent, u.held AS usage_held
FROM locked
JOIN notes n ON n.account_id = locked.account_id AND n.id = %(note_id)s AND n.hold_id IS NOT NULL
    AND (%(token)s::uuid IS NULL OR n.lease_token = %(token)s)
JOIN ledger_holds hold ON hold.account_id = locked.account_id AND hold.id = n.hold_id
JOIN cap_usage u ON u.account_id = locked.account_id AND u.api_key_id = hold.api_key_id AND u.day = hold.cap_day
FOR NO KEY UPDATE OF n
"""

_END = """
    note AS (
        UPDATE notes SET status = %(status)s, step = %(step)s, duration_s = %(duration_s)s, tries = %(tries)s,
            content = %(content)s, credits_charged = %(credits_charged)s, charge_id = %(charge_id)s, error = %(error)s,
            completed_at = %(completed_at)s, hold_id = NULL, due_at = NULL, lease_token = NULL
        FROM guard WHERE notes.account_id = guard.account_id AND notes.id = %(note_id)s
    ), closed AS (
        DELETE FROM ledger_holds USING guard
        WHERE ledger_holds.account_id = guard.account_id AND ledger_holds.id = %(hold_id)s
    ), usage AS (
        UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s FROM guard
        WHERE cap_usage.account_id = guard.account_id AND api_key_id = %(usage_key_id)s AND day = %(usage_day)s
    )"""

# A note that is there and paid for: the hold becomes the charge, the event goes out.
_SAVE_COMPLETED = f"""
WITH {GUARD_LOCKED}, {APPEND_ENTRY}, {WRITE_FUNDS}, {WRITE_EVENTS}, {_END}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# A note that will not be: the hold is given back, the event goes out.
_SAVE_FAILED = f"""
WITH {GUARD_LOCKED}, {WRITE_FUNDS}, {WRITE_EVENTS}, {_END}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# Every note on a recording. The account is locked by now.
_LOAD_OF_RECORDING = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.status <> 'erased' ORDER BY n.id
"""

# Deletes the transcript chunks of a recording.
_DELETE_CHUNKS = (
    "DELETE FROM transcript_chunks WHERE account_id = %(account_id)s AND recording_id = %(recording_id)s"
)

# Locks the endpoints that were notified of a note: claiming, recording and resending take the same locks, so that
# nothing is written of what is erased by the next statement. The kinds are spelled as in the index.
_LOCK_NOTIFIED = """
SELECT id FROM webhook_endpoints WHERE account_id = %(account_id)s AND id IN (
    SELECT d.endpoint_id FROM events e JOIN deliveries d ON d.account_id = e.account_id AND d.event_id = e.id
    WHERE e.account_id = %(account_id)s AND e.subject_id = %(note_id)s
        AND d.event_kind IN ('note.completed', 'note.failed'))
ORDER BY id FOR NO KEY UPDATE
"""

# Keeps the ids of a note and its money; its events are deleted, sent or not.
_ERASE = """
WITH told AS (
    DELETE FROM events WHERE account_id = %(account_id)s AND subject_id = %(note_id)s RETURNING id
), dropped AS (
    DELETE FROM deliveries d USING told
    WHERE d.account_id = %(account_id)s AND d.event_id = told.id
        AND d.event_kind IN ('note.completed', 'note.failed')
    RETURNING d.id
), attempts AS (
    DELETE FROM delivery_attempts USING dropped
    WHERE delivery_attempts.account_id = %(account_id)s AND delivery_attempts.delivery_id = dropped.id
), note AS (
    UPDATE notes SET status = %(status)s, content = NULL, error = NULL
    WHERE account_id = %(account_id)s AND id = %(note_id)s
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""


class PostgresNoteRepository:
    """Notes, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def load_note_creation(self, query: NoteQuery) -> NoteCreationView:
        """Everything that the decision on a new note needs, under the account's lock."""
        parameters: dict[str, Any] = {
            "account_id": query.account_id,
            "api_key_id": query.api_key_id,
            "day": query.cap_day,
            "recording_id": query.recording_id,
            "language": query.language.value,
        }
        row = await fetch_locked(self._connection, _LOAD_ADMISSION, parameters)
        if row is None:
            raise NotFound("No account with this id.")
        recording = await self._one(_LOAD_RECORDING, parameters)
        existing_note = None if recording is None else await self._one(_LOAD_EXISTING, parameters)
        return NoteCreationView(
            rows.funds(row),
            rows.usage(row, query.api_key_id, query.cap_day),
            row["daily_cap"],
            None if recording is None else note_rows.recording(recording, self._cipher),
            None if existing_note is None else note_rows.note(existing_note, self._cipher),
        )

    async def save_queued(self, note: Note, hold: Hold, funds: Funds, usage: CapUsage) -> None:
        """Write a note that is due at once, and its hold."""
        parameters = (
            note_rows.note_parameters(note, self._cipher)
            | funds_parameters(funds)
            | usage_parameters(usage)
            | {
                "hold_id": hold.id,
                "hold_operation": hold.operation,
                "hold_kind": hold.kind.value,
                "hold_amount": hold.amount,
                "hold_reference_type": hold.reference.type,
                "hold_reference_id": hold.reference.id,
            }
        )
        await self._connection.execute(_SAVE_QUEUED, parameters)

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        """Write a note that failed before it began."""
        parameters = note_rows.note_parameters(note, self._cipher) | event_parameters(events, self._cipher)
        return await self._count(_SAVE_REFUSED, parameters | {"hold_id": None})

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        """Take notes that are due, each under the lease.

        One that does not open is logged and postponed for an hour: a key that went missing stops such notes and
        nothing else.
        """
        await self._connection.execute(_LOCK_CLAIMS)
        parameters = {"limit": limit, "in_flight": in_flight, "token": lease.token, "lease_s": lease.seconds}
        cursor = await self._connection.execute(_CLAIM, parameters)
        tasks = []
        for row in await cursor.fetchall():
            try:
                note, recording = note_rows.note(row, self._cipher), note_rows.recording(row, self._cipher)
            except (CipherRefused, msgspec.DecodeError):
                log.exception("note does not open", note_id=str(row["note_id"]))
                await self._connection.execute(_POSTPONE_UNREADABLE, row)
            else:
                tasks.append(NoteTask(lease.token, note, recording, row["lease_expirations"]))
        return tasks

    async def renew(self, task: NoteTask, seconds: float) -> bool:
        """Keep a claim for so many seconds from now; false when it is lost."""
        return await self._changed(_RENEW, _bearer(task) | {"seconds": seconds})

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        """Write how far a note has come; false when the claim is lost."""
        return await self._changed(_SAVE_STEP, note_rows.note_parameters(note, self._cipher) | _bearer(task))

    async def postpone(self, task: NoteTask, note: Note, seconds: float) -> bool:
        """Write a note and give it back, due in so many seconds; false when the claim is lost."""
        parameters = note_rows.note_parameters(note, self._cipher) | _bearer(task) | {"seconds": seconds}
        return await self._changed(_POSTPONE, parameters)

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        """The transcript chunks of the task's recording so far, by chunk number."""
        parameters = _bearer(task) | {"recording_id": task.note.recording_id, "source": source}
        cursor = await self._connection.execute(_LOAD_CHUNKS, parameters)
        return {
            row["number"]: note_rows.transcript_chunk(row, self._cipher) for row in await cursor.fetchall()
        }

    async def save_transcript_chunk(
        self, task: NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool:
        """Save the transcript of a chunk; false when the claim is lost."""
        account_id, recording_id = task.note.account_id, task.note.recording_id
        sealed = note_rows.sealed_transcript_chunk(
            account_id, recording_id, source, piece, transcript, self._cipher
        )
        parameters = _bearer(task) | {
            "recording_id": recording_id,
            "source": source,
            "number": piece,
            "transcript": sealed,
        }
        return await self._changed(_SAVE_CHUNK, parameters)

    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> NoteSettlement | None:
        """A note in progress and its money; `None` when it is over, or the lease is lost."""
        parameters = {"account_id": account_id, "note_id": note_id, "token": token}
        row = await fetch_locked(self._connection, _LOAD_SETTLEMENT, parameters)
        if row is None:
            return None
        hold = rows.hold(row)
        assert hold is not None  # joined above
        usage = rows.usage(row, hold.api_key_id, hold.cap_day)
        return NoteSettlement(note_rows.note(row, self._cipher), rows.funds(row), usage, hold)

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int:
        """Write a completed note, its charge in place of its hold, and its events."""
        parameters = self._ended(note, hold, funds, usage, events) | entry_parameters(entry)
        return await self._count(_SAVE_COMPLETED, parameters)

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        """Write a failed note, its hold given back, and its events."""
        return await self._count(_SAVE_FAILED, self._ended(note, hold, funds, usage, events))

    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        """Every note on a recording that is not erased."""
        parameters = {"account_id": account_id, "recording_id": recording_id}
        cursor = await self._connection.execute(_LOAD_OF_RECORDING, parameters)
        return [note_rows.note(row, self._cipher) for row in await cursor.fetchall()]

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None:
        """Delete the transcript chunks of a recording."""
        parameters = {"account_id": account_id, "recording_id": recording_id}
        await self._connection.execute(_DELETE_CHUNKS, parameters)

    async def save_erased(self, note: Note) -> None:
        """Write an erased note; its events, their deliveries and attempts are deleted."""
        parameters = {"account_id": note.account_id, "note_id": note.id, "status": note.status.value}
        await self._connection.execute(_LOCK_NOTIFIED, parameters)
        await self._connection.execute(_ERASE, parameters)

    def _ended(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> dict[str, Any]:
        return (
            note_rows.note_parameters(note, self._cipher)
            | funds_parameters(funds)
            | usage_parameters(usage)
            | event_parameters(events, self._cipher)
            | {"hold_id": hold.id}
        )

    async def _one(self, query: str, parameters: dict[str, Any]) -> rows.Row | None:
        return await (await self._connection.execute(query, parameters)).fetchone()

    async def _changed(self, query: str, parameters: dict[str, Any]) -> bool:
        return (await self._connection.execute(query, parameters)).rowcount == 1

    async def _count(self, query: str, parameters: dict[str, Any]) -> int:
        row = await (await self._connection.execute(query, parameters)).fetchone()
        return 0 if row is None else int(row["due"])


def _bearer(task: NoteTask) -> dict[str, Any]:
    return {"account_id": task.note.account_id, "note_id": task.note.id, "token": task.token}
