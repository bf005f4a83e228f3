"""Recordings in PostgreSQL: written whole, claimed by pushing their due time past a lease."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres import columns, repository
from meetcore.adapters.postgres.notes.rows import RECORDING, recording, recording_parameters
from meetcore.adapters.postgres.webhooks.rows import event_parameters
from meetcore.domain.notes.recordings import Recording, needs_work
from meetcore.domain.notes.views import RecordingTask
from meetcore.domain.webhooks.events import Event
from meetcore.ports.runtime import CipherRefused, Lease

SQL = repository.load_statements(__file__, RECORDING=RECORDING)


log = structlog.get_logger("meetcore.postgres")


class PostgresRecordingRepository(repository.Repository):
    """Recordings of meetings, and the work on them."""

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        return await self._found(SQL["load_recording"], {"account_id": account_id, "meeting_id": meeting_id})

    async def load_by_id(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        return await self._found(SQL["load_recording_by_id"], {"account_id": account_id, "id": recording_id})

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        return await self._due(
            SQL["save_recording"],
            recording_parameters(recording, self._cipher) | event_parameters(events, self._cipher),
            needs_work=needs_work(recording),
        )

    async def claim(self, limit: int, lease: Lease) -> Sequence[RecordingTask]:
        """Take recordings that are due, each under the lease; one that does not open is postponed for an hour."""
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        tasks = []
        for row in await self._all(SQL["claim_due_recordings"], parameters):
            try:
                found = recording(row, self._cipher)
                task = RecordingTask(lease.token, found, row["tries"], row["misses"], row["had_lease"])
            except (CipherRefused, msgspec.DecodeError):
                log.exception("recording does not open", recording_id=str(row["recording_id"]))
                await self._run(SQL["postpone_unreadable"], row)
            else:
                tasks.append(task)
        return tasks

    async def renew(self, task: RecordingTask, seconds: float) -> bool:
        return await self._set_due(task, seconds, keeps=True)

    async def postpone(self, task: RecordingTask, seconds: float, *, is_missed: bool = False) -> None:
        await self._set_due(task, seconds, keeps=False, is_missed=is_missed)

    async def find_outlived(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        found = await self._all(SQL["find_outlived"], limit=limit)
        return [(row["account_id"], row["meeting_id"]) for row in found]

    async def _found(self, query: str, parameters: columns.Row) -> Recording | None:
        row = await self._one(query, parameters)
        return None if row is None else recording(row, self._cipher)

    async def _set_due(
        self, task: RecordingTask, seconds: float, *, keeps: bool, is_missed: bool = False
    ) -> bool:
        parameters = {
            "account_id": task.recording.account_id,
            "id": task.recording.id,
            "token": task.token,
            "seconds": seconds,
            "keeps": keeps,
            "is_missed": is_missed,
        }
        return await self._changed(SQL["set_due"], parameters)
