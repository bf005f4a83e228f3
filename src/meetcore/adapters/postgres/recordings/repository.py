"""Recordings in PostgreSQL: written whole, claimed by pushing their due time past a lease."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.recordings.rows import (
    RECORDING,
    RECORDING_COLUMNS,
    recording,
    recording_parameters,
)
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.notes.recordings import Recording, needs_work
from meetcore.domain.webhooks.events import Event
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.lease import Lease
from meetcore.ports.recordings import RecordingTask

log = structlog.get_logger("meetcore.postgres")

# The recording of a meeting. The caller holds the account's lock, taken by a statement before this one: what is
# read here is true to the end of the transaction. The row is locked, too, against claims, which do not take that lock: an
# INSERT with ON CONFLICT may miss a row that is being changed, and fail by the other key.
_LOAD = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r
WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s FOR NO KEY UPDATE
"""

# The same by its own id.
_LOAD_BY_ID = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r
WHERE r.account_id = %(account_id)s AND r.id = %(id)s FOR NO KEY UPDATE
"""

# Whether the current or waiting work on a recording stays the same.
_GOES_ON = "%(needs_work)s AND (EXCLUDED.status <> 'expired' OR known.status = 'expired')"

# Writes a recording whole. A second one of the same meeting is refused by its key. One that needs work is due at
# once, or when it was; one that has just expired, or needs no work, is released.
_SAVE = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {WRITE_EVENTS}, recording AS (
    INSERT INTO recordings AS known ({RECORDING.names}, files, due_at)
    VALUES ({RECORDING.values}, %(recording_files)s, CASE WHEN %(needs_work)s THEN clock_timestamp() END)
    ON CONFLICT (account_id, id) DO UPDATE SET status = EXCLUDED.status, files = EXCLUDED.files,
        recorded_at = EXCLUDED.recorded_at, expires_at = EXCLUDED.expires_at,
        due_at = CASE WHEN {_GOES_ON} THEN COALESCE(known.due_at, EXCLUDED.due_at) ELSE EXCLUDED.due_at END,
        lease_token = CASE WHEN {_GOES_ON} THEN known.lease_token END,
        tries = CASE WHEN {_GOES_ON} THEN known.tries ELSE 0 END
), account AS (
    UPDATE accounts SET version = version + 1 FROM guard WHERE accounts.id = guard.account_id
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# Takes what is due, the longest due first, and passes over what another worker is taking.
_CLAIM = f"""
WITH due AS (
    SELECT account_id, id, due_at, lease_token IS NOT NULL AS had_lease FROM recordings WHERE due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), r AS (
    UPDATE recordings SET tries = tries + 1, lease_token = %(token)s,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE recordings.account_id = due.account_id AND recordings.id = due.id
    RETURNING recordings.*, due.due_at AS was_due_at, due.had_lease
)
SELECT {RECORDING_COLUMNS}, r.tries, r.had_lease FROM r ORDER BY r.was_due_at, r.id
"""

# Postpones a recording that cannot be read, long enough that it delays no other.
_POSTPONE_UNREADABLE = """
UPDATE recordings SET lease_token = NULL, due_at = clock_timestamp() + interval '1 hour'
WHERE account_id = %(account_id)s AND id = %(recording_id)s
"""

# When a recording is due next, for the holder of its claim only, who keeps it or gives it back.
_SET_DUE = """
UPDATE recordings SET due_at = clock_timestamp() + %(seconds)s * interval '1 second',
    lease_token = CASE WHEN %(keeps)s THEN lease_token END
WHERE account_id = %(account_id)s AND id = %(id)s AND lease_token = %(token)s AND due_at IS NOT NULL
"""

# What is past its retention, the oldest first.
_FIND_OUTLIVED = """
SELECT r.account_id, r.meeting_id FROM recordings r
WHERE r.status <> 'expired' AND r.expires_at <= statement_timestamp() ORDER BY r.expires_at LIMIT %(limit)s
"""


class PostgresRecordingRepository(Repository):
    """What was recorded of meetings."""

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        return await self._found(_LOAD, {"account_id": account_id, "meeting_id": meeting_id})

    async def load_by_id(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        return await self._found(_LOAD_BY_ID, {"account_id": account_id, "id": recording_id})

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        parameters = (
            recording_parameters(recording, self._cipher)
            | event_parameters(events, self._cipher)
            | {"needs_work": needs_work(recording)}
        )
        return await self._due(_SAVE, parameters)

    async def claim(self, limit: int, lease: Lease) -> Sequence[RecordingTask]:
        """Take recordings that are due, each under the lease; one that does not open is postponed for an hour."""
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        tasks = []
        for row in await self._all(_CLAIM, parameters):
            try:
                found = recording(row, self._cipher)
                task = RecordingTask(lease.token, found, row["tries"], row["had_lease"])
            except (CipherRefused, msgspec.DecodeError):
                log.exception("recording does not open", recording_id=str(row["recording_id"]))
                await self._connection.execute(_POSTPONE_UNREADABLE, row)
            else:
                tasks.append(task)
        return tasks

    async def renew(self, task: RecordingTask, seconds: float) -> bool:
        return await self._set_due(task, seconds, keeps=True)

    async def postpone(self, task: RecordingTask, seconds: float) -> None:
        await self._set_due(task, seconds, keeps=False)

    async def find_outlived(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        found = await self._all(_FIND_OUTLIVED, {"limit": limit})
        return [(row["account_id"], row["meeting_id"]) for row in found]

    async def _found(self, query: str, parameters: Row) -> Recording | None:
        row = await self._one(query, parameters)
        return None if row is None else recording(row, self._cipher)

    async def _set_due(self, task: RecordingTask, seconds: float, *, keeps: bool) -> bool:
        parameters = {
            "account_id": task.recording.account_id,
            "id": task.recording.id,
            "token": task.token,
            "seconds": seconds,
            "keeps": keeps,
        }
        return await self._changed(_SET_DUE, parameters)
