"""Recordings in memory."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.outbox import write_events
from meetcore.adapters.memory.state import ConstraintBroken, StoredRecording, Tables
from meetcore.domain.notes.recordings import Recording, RecordingStatus, needs_work
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.lease import Lease
from meetcore.ports.recordings import RecordingTask


def recording_by_id(tables: Tables, account_id: UUID, recording_id: UUID) -> Recording | None:
    """An account's recording, in any state."""
    return next(
        (
            stored.recording
            for stored in tables.recordings.values()
            if (stored.recording.account_id, stored.recording.id) == (account_id, recording_id)
        ),
        None,
    )


class MemoryRecordingRepository:
    """Recordings, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock, entropy: Entropy) -> None:
        self._tables = tables
        self._clock = clock
        self._entropy = entropy

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        stored = self._tables.recordings.get((account_id, meeting_id))
        return None if stored is None else stored.recording

    async def load_by_id(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        return recording_by_id(self._tables, account_id, recording_id)

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        name = recording.account_id, recording.meeting_id
        known = self._tables.recordings.get(name)
        if known is not None and known.recording.id != recording.id:
            raise ConstraintBroken(f"meeting {recording.meeting_id} has a recording already")
        if not needs_work(recording):
            self._tables.recordings[name] = StoredRecording(recording, None)
        elif known is None or known.due_at is None or _has_just_expired(known.recording, recording):
            self._tables.recordings[name] = StoredRecording(recording, self._clock.now())
        else:
            self._tables.recordings[name] = evolve(known, recording=recording)
        return write_events(self._tables, recording.account_id, events, self._clock.now(), self._entropy)

    async def claim(self, limit: int, lease: Lease) -> Sequence[RecordingTask]:
        now = self._clock.now()
        due = sorted(
            (stored.due_at, name)
            for name, stored in self._tables.recordings.items()
            if stored.due_at is not None and stored.due_at <= now
        )
        until = now + timedelta(seconds=lease.seconds)
        tasks = []
        for _, name in due[:limit]:
            stored = self._tables.recordings[name]
            had_expired_lease = stored.token is not None
            stored = evolve(stored, due_at=until, token=lease.token, tries=stored.tries + 1)
            self._tables.recordings[name] = stored
            tasks.append(RecordingTask(lease.token, stored.recording, stored.tries, had_expired_lease))
        return tasks

    async def renew(self, task: RecordingTask, seconds: float) -> bool:
        stored = self._claimed(task)
        if stored is not None:
            self._put(evolve(stored, due_at=self._clock.now() + timedelta(seconds=seconds)))
        return stored is not None

    async def postpone(self, task: RecordingTask, seconds: float) -> None:
        stored = self._claimed(task)
        if stored is not None:
            self._put(evolve(stored, due_at=self._clock.now() + timedelta(seconds=seconds), token=None))

    async def find_outlived(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        now = self._clock.now()
        outlived = [
            stored.recording
            for stored in self._tables.recordings.values()
            if stored.recording.status is not RecordingStatus.EXPIRED and stored.recording.expires_at <= now
        ]
        outlived.sort(key=lambda recording: recording.expires_at)
        return [(recording.account_id, recording.meeting_id) for recording in outlived[:limit]]

    def _claimed(self, task: RecordingTask) -> StoredRecording | None:
        stored = self._tables.recordings.get((task.recording.account_id, task.recording.meeting_id))
        return None if stored is None or stored.token != task.token else stored

    def _put(self, stored: StoredRecording) -> None:
        self._tables.recordings[stored.recording.account_id, stored.recording.meeting_id] = stored


def _has_just_expired(before: Recording, after: Recording) -> bool:
    return before.status is not after.status is RecordingStatus.EXPIRED
