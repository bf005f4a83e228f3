"""Recordings in SQLite: one row each, its files as one document, claimed by pushing the due time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from meetcore.domain.notes.recordings import Recording, RecordingStatus, needs_work
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.lease import Lease
from meetcore.ports.recordings import RecordingTask

from . import rows
from .connection import Connection
from .outbox import write_events

__all__ = ["FIND_RECORDING", "SqliteRecordingRepository"]

# The recording of a meeting, and the same by its own id.
_LOAD = "SELECT * FROM recordings WHERE account_id = :account_id AND meeting_id = :meeting_id"
FIND_RECORDING = "SELECT * FROM recordings WHERE account_id = :account_id AND id = :id"

# Writes a recording whole. A second one of the same meeting is refused by its key. Work on it goes on,
# unless it needs no work any more or has just expired.
_SAVE = """
INSERT INTO recordings (account_id, id, meeting_id, provider, provider_meeting_id, status, files, recorded_at,
    created_at, expires_at, due_at)
VALUES (:account_id, :id, :meeting_id, :provider, :provider_meeting_id, :status, :document, :recorded_at,
    :created_at, :expires_at, :due_at)
ON CONFLICT (account_id, id) DO UPDATE SET status = excluded.status, files = excluded.files,
    recorded_at = excluded.recorded_at, expires_at = excluded.expires_at,
    due_at = CASE WHEN :goes_on THEN coalesce(due_at, :due_at) ELSE :due_at END,
    lease_token = CASE WHEN :goes_on THEN lease_token END,
    tries = CASE WHEN :goes_on THEN tries ELSE 0 END
"""

# What is due, the longest due first; and the taking of one.
_DUE = "SELECT * FROM recordings WHERE due_at <= :now ORDER BY due_at, id LIMIT :limit"
_CLAIM = """
UPDATE recordings SET tries = tries + 1, lease_token = :token, due_at = :until
WHERE account_id = :account_id AND id = :id
"""

# When a recording is due next, for the holder of its claim only, who keeps it or gives it back.
_SET_DUE = """
UPDATE recordings SET due_at = :due_at, lease_token = CASE WHEN :keeps THEN lease_token END
WHERE account_id = :account_id AND id = :id AND lease_token = :token
"""

# What is past its retention, the oldest first.
_FIND_OUTLIVED = """
SELECT * FROM recordings WHERE status <> 'expired' AND expires_at <= :now ORDER BY expires_at LIMIT :limit
"""


class SqliteRecordingRepository:
    """Recordings, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock, entropy: Entropy) -> None:
        self._connection = connection
        self._clock = clock
        self._entropy = entropy

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        """The recording of a meeting."""
        row = await self._connection.fetch_one(_LOAD, {"account_id": account_id, "meeting_id": meeting_id})
        return None if row is None else rows.recording(row)

    async def load_by_id(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        """An account's recording, in any state."""
        row = await self._connection.fetch_one(FIND_RECORDING, {"account_id": account_id, "id": recording_id})
        return None if row is None else rows.recording(row)

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        """Write a recording with all its files; one that needs work is due."""
        now = self._clock.now()
        before = await self.load_by_id(recording.account_id, recording.id)
        is_due, is_over = needs_work(recording), recording.status is RecordingStatus.EXPIRED
        parameters = rows.fields_of(recording)
        del parameters["files"]
        parameters["document"] = msgspec.json.encode(recording.files)
        parameters["due_at"] = now if is_due else None
        parameters["goes_on"] = is_due and (
            not is_over or (before is not None and before.status is recording.status)
        )
        await self._connection.change(_SAVE, parameters)
        return await write_events(self._connection, self._entropy, events, now)

    async def claim(self, limit: int, lease: Lease) -> Sequence[RecordingTask]:
        """Take recordings that are due, each under the lease."""
        now = self._clock.now()
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        due = await self._connection.fetch(_DUE, {"now": now, "limit": limit})
        for row in due:
            await self._connection.change(_CLAIM, row | bearer)
        return [RecordingTask(lease.token, rows.recording(row), row["tries"] + 1) for row in due]

    async def renew(self, task: RecordingTask, seconds: float) -> bool:
        """Keep a claim for so many seconds from now; false when it is lost."""
        return await self._set_due(task, self._clock.now() + timedelta(seconds=seconds), keeps=True)

    async def postpone(self, task: RecordingTask, seconds: float) -> None:
        """Give a recording back, due in so many seconds; a lost claim changes nothing."""
        await self._set_due(task, self._clock.now() + timedelta(seconds=seconds), keeps=False)

    async def find_outlived(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        """Account and meeting of what is past its retention and has not expired yet, the oldest first."""
        found = await self._connection.fetch(_FIND_OUTLIVED, {"now": self._clock.now(), "limit": limit})
        return [(UUID(row["account_id"]), UUID(row["meeting_id"])) for row in found]

    async def _set_due(self, task: RecordingTask, due_at: datetime, *, keeps: bool) -> bool:
        bearer = {"account_id": task.recording.account_id, "id": task.recording.id, "token": task.token}
        return await self._connection.change(_SET_DUE, bearer | {"due_at": due_at, "keeps": keeps}) == 1
