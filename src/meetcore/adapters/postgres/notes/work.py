"""Working on notes: claims, steps, and the transcripts of their recordings.

Claims are taken one after another, under a lock of their own that ends with the claim: so the bound on what is in
progress over all workers is exact, and no recording is transcribed twice at a time.
"""

from collections.abc import Mapping, Sequence

import msgspec
import structlog

from meetcore.adapters.postgres.advisory_locks import NOTE_CLAIMS
from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.notes.rows import (
    NOTE_COLUMNS,
    note,
    note_parameters,
    sealed_transcript_chunk,
    transcript_chunk,
)
from meetcore.adapters.postgres.recordings.rows import RECORDING_COLUMNS, recording
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.notes.notes import TRANSITIONS, Note, NoteEvent, NoteStatus
from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.lease import Lease
from meetcore.ports.notes import NoteTask

log = structlog.get_logger("meetcore.postgres")

# Claims follow one another; the lock ends with the transaction.
_LOCK_CLAIMS = f"SELECT pg_advisory_xact_lock({NOTE_CLAIMS})"

_TAKEN = TRANSITIONS[NoteStatus.QUEUED, NoteEvent.TAKE].value

# Takes notes that are due, as many as the bound on those in progress allows: one for each recording that no
# other note is working on; each account's in turn, after what it has in progress already.
_CLAIM = f"""
WITH leased AS MATERIALIZED (
    SELECT account_id, recording_id FROM notes WHERE due_at > statement_timestamp() AND lease_token IS NOT NULL
), waiting AS (
    SELECT account_id, id, due_at, lease_token IS NOT NULL AS was_leased,
           row_number() OVER (PARTITION BY account_id, recording_id ORDER BY due_at, id) AS of_recording
    FROM notes WHERE due_at <= statement_timestamp()
        AND NOT EXISTS (SELECT FROM leased l
                        WHERE l.account_id = notes.account_id AND l.recording_id = notes.recording_id)
), ranked AS (
    SELECT account_id, id, due_at, was_leased, row_number() OVER (PARTITION BY account_id ORDER BY due_at, id)
        + (SELECT count(*) FROM leased l WHERE l.account_id = waiting.account_id) AS turn
    FROM waiting WHERE of_recording = 1
), due AS (
    SELECT account_id, id, turn, due_at AS was_due_at, was_leased FROM ranked
    ORDER BY turn, due_at, id
    LIMIT LEAST(%(limit)s, GREATEST(0, %(in_flight)s - (SELECT count(*) FROM leased)))
), n AS (
    UPDATE notes SET status = '{_TAKEN}', lease_token = %(token)s,
        lease_expirations = lease_expirations + CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE notes.account_id = due.account_id AND notes.id = due.id AND notes.due_at = due.was_due_at
    RETURNING notes.*, due.turn, due.was_due_at, due.was_leased
)
SELECT {NOTE_COLUMNS}, {RECORDING_COLUMNS}, n.lease_expirations, n.was_leased, n.cause
FROM n JOIN recordings r ON r.account_id = n.account_id AND r.id = n.recording_id
ORDER BY n.turn, n.was_due_at, n.id
"""

# Postpones a note that cannot be read, long enough that it delays no other.
_POSTPONE_UNREADABLE = """
UPDATE notes SET lease_token = NULL, due_at = clock_timestamp() + interval '1 hour'
WHERE account_id = %(account_id)s AND id = %(note_id)s
"""

# Whether the work on a note or a recording waits for so long: nobody has taken it.
_IS_ANY_OVERDUE = """
SELECT COALESCE(LEAST(
    (SELECT due_at FROM notes WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM recordings WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)
) <= statement_timestamp() - %(seconds)s * interval '1 second', false) AS is_overdue
"""

# Keeps a claim, for its holder only.
_RENEW = """
UPDATE notes SET due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s
"""

_STEP = """
    UPDATE notes SET step = %(note_step)s, duration_s = %(note_duration_s)s, tries = %(note_tries)s,
        content = %(note_content)s"""

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


class NoteWork(Repository):
    """From a claim to the last step before the note is paid for."""

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        """Take notes that are due, each under the lease.

        One that does not open is logged and postponed for an hour: a key that went missing stops such notes and
        nothing else.
        """
        await self._connection.execute(_LOCK_CLAIMS)
        parameters = {"limit": limit, "in_flight": in_flight, "token": lease.token, "lease_s": lease.seconds}
        tasks = []
        for row in await self._all(_CLAIM, parameters):
            try:
                task = NoteTask(
                    lease.token,
                    note(row, self._cipher),
                    recording(row, self._cipher),
                    row["lease_expirations"],
                    row["was_leased"],
                    row["cause"],
                )
            except (CipherRefused, msgspec.DecodeError):
                log.exception("note does not open", note_id=str(row["note_id"]))
                await self._connection.execute(_POSTPONE_UNREADABLE, row)
            else:
                tasks.append(task)
        return tasks

    async def is_any_overdue(self, seconds: float) -> bool:
        row = await self._one(_IS_ANY_OVERDUE, {"seconds": seconds})
        return row is not None and bool(row["is_overdue"])

    async def renew(self, task: NoteTask, seconds: float) -> bool:
        return await self._changed(_RENEW, _bearer(task) | {"seconds": seconds})

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        return await self._changed(_SAVE_STEP, note_parameters(note, self._cipher) | _bearer(task))

    async def postpone(self, task: NoteTask, note: Note, seconds: float) -> bool:
        parameters = note_parameters(note, self._cipher) | _bearer(task) | {"seconds": seconds}
        return await self._changed(_POSTPONE, parameters)

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        parameters = _bearer(task) | {"recording_id": task.note.recording_id, "source": source}
        found = await self._all(_LOAD_CHUNKS, parameters)
        return {row["number"]: transcript_chunk(row, self._cipher) for row in found}

    async def save_transcript_chunk(
        self, task: NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool:
        account_id, recording_id = task.note.account_id, task.note.recording_id
        sealed = sealed_transcript_chunk(account_id, recording_id, source, piece, transcript, self._cipher)
        of = {"recording_id": recording_id, "source": source, "number": piece, "transcript": sealed}
        return await self._changed(_SAVE_CHUNK, _bearer(task) | of)


def _bearer(task: NoteTask) -> Row:
    return {"account_id": task.note.account_id, "note_id": task.note.id, "token": task.token}
