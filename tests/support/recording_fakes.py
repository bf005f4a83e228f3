"""Recordings and their files for tests of downloads."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

from attrs import define, evolve, field

from meetcore.domain.notes.recordings import FileKind, Recording, RecordingFile, RecordingStatus
from meetcore.ports.queries import Queries

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
KEY, OLD_KEY = bytes(range(32)), bytes(32)


def a_recording(kinds: Sequence[FileKind] = (FileKind.AUDIO,), sizes: Sequence[int] = (1000,)) -> Recording:
    """Return an available recording with an hourly segment per kind."""
    files = []
    for number, (kind, size) in enumerate(zip(kinds, sizes, strict=True), start=1):
        start = NOW - timedelta(days=1) + timedelta(hours=number)
        end = start + timedelta(minutes=30)
        files.append(RecordingFile(f"f{number}-{uuid4()}", kind, size, start, end, "secret:address", 1800.0))
    return Recording(
        uuid4(), uuid4(), uuid4(), "memory", "meeting-1", RecordingStatus.AVAILABLE, tuple(files),
        NOW - timedelta(days=1), NOW, NOW + timedelta(days=89),
    )  # fmt: skip


@define
class FakeRecordings:
    """In-memory reads of recordings."""

    recordings: dict[UUID, Recording] = field(factory=dict)

    def put(self, recording: Recording) -> Recording:
        self.recordings[recording.id] = recording
        return recording

    def change(self, recording: Recording, **changes: Any) -> None:
        self.put(evolve(recording, **changes))

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        found = self.recordings.get(recording_id)
        return found if found is not None and found.account_id == account_id else None

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        return False

    @property
    def queries(self) -> Queries:
        return cast(Queries, self)  # of which downloads ask these two questions
