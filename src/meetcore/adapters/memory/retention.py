"""Removal of what is past its retention in memory."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import MemoryState, StoredMeeting, StoredRound, Tables
from meetcore.domain.ids import first_id
from meetcore.domain.meetings.meetings import VISIBLE
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.requests.retention import REMOVABLE_MEETINGS, REMOVABLE_NOTES, RemovedKind
from meetcore.ports.clock import Clock
from meetcore.ports.retention import PORTION, ROUND_EVERY, Removal

__all__ = ["MemoryRetention"]

_FIRST = UUID(int=0)


class MemoryRetention:
    """Removes what is past its retention."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def remove_notes(self, made_before: datetime, portion: int = PORTION) -> Removal | None:
        async with self._state.change() as tables:
            walked = self._walk(tables, RemovedKind.NOTES, tables.notes, first_id(made_before), portion)
            if walked is None:
                return None
            past = [name for name in walked if tables.notes[name].note.status in REMOVABLE_NOTES]
            for name in past:
                del tables.notes[name]
                tables.removed[name] = None
        return Removal(len(past), len(walked) < portion)

    async def remove_meetings(self, ended_before: datetime, portion: int = PORTION) -> Removal | None:
        async with self._state.change() as tables:
            walked = self._walk(
                tables, RemovedKind.MEETINGS, tables.meetings, first_id(ended_before), portion
            )
            if walked is None:
                return None
            past = [name for name in walked if _is_past(tables, tables.meetings[name], ended_before)]
            for name in past:
                _remove(tables, name)
        return Removal(len(past), len(walked) < portion)

    def _walk(
        self,
        tables: Tables,
        kind: RemovedKind,
        records: Iterable[tuple[UUID, UUID]],
        before: UUID,
        portion: int,
    ) -> list[tuple[UUID, UUID]] | None:
        """The next portion by its ids; how far the round is then is kept."""
        now, progress = self._clock.now(), tables.retention.get(kind, StoredRound())
        if progress.due_at is not None and progress.due_at > now:
            return None
        after = progress.after or _FIRST
        wanted = sorted((name for name in records if after < name[1] < before), key=lambda name: name[1])
        walked = wanted[:portion]
        if len(walked) < portion:
            tables.retention[kind] = evolve(progress, after=None, started_at=None, due_at=now + ROUND_EVERY)
        else:
            started_at = progress.started_at or now
            tables.retention[kind] = evolve(progress, after=walked[-1][1], started_at=started_at)
        return walked


def _is_past(tables: Tables, stored: StoredMeeting, ended_before: datetime) -> bool:
    meeting = stored.meeting
    name = (meeting.account_id, meeting.id)
    if meeting.status not in REMOVABLE_MEETINGS or meeting.end_at >= ended_before:
        return False
    if stored.lease is not None or stored.due_at is not None or stored.hold_id is not None:
        return False
    if name in tables.orphan_checks or name in tables.reservations:
        return False
    recorded = tables.recordings.get(name)
    if recorded is None:
        return True
    if recorded.recording.status is not RecordingStatus.EXPIRED or recorded.due_at is not None:
        return False
    return all(
        (one.note.account_id, one.note.recording_id) != (meeting.account_id, recorded.recording.id)
        for one in tables.notes.values()
    )


def _remove(tables: Tables, name: tuple[UUID, UUID]) -> None:
    account_id, _ = name
    if tables.meetings.pop(name).meeting.status in VISIBLE:
        tables.removed[name] = None
    recorded = tables.recordings.pop(name, None)
    if recorded is not None:
        recording_id = recorded.recording.id
        tables.removed[account_id, recording_id] = None
        for chunk in [each for each in tables.transcript_chunks if each[:2] == (account_id, recording_id)]:
            del tables.transcript_chunks[chunk]
