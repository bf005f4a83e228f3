"""Recordings of meetings: what files a provider has of one, and the one record that gathers them.

A meeting has at most one recording. Its files come in several events: the segments of a meeting that was
paused, the transcript later than the media, each perhaps twice and in any order. Gathering them gives the
same recording whichever order they came in.

Owns what a file and a recording are. Refuses to fetch, to measure and to price.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.meetings import Meeting, MeetingStatus

__all__ = [
    "FileKind",
    "Recording",
    "RecordingFile",
    "RecordingStatus",
    "can_be_recorded",
    "gather_files",
    "open_recording",
]

# A meeting that is still scheduled here took place at the provider: the news of its start comes later.
_TAKES_PLACE = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.STARTED, MeetingStatus.ENDED})


class FileKind(StrEnum):
    """What is in a file of a recording."""

    VIDEO = "video"
    AUDIO = "audio"
    TRANSCRIPT = "transcript"


@frozen
class RecordingFile:
    """One file of a recording, as the provider names it.

    A meeting that was paused has several of each kind; `starts_at` and `ends_at` tell which belong
    together. They are the provider's word and include pauses. `url` opens the file for whoever bears the
    provider's token.
    """

    provider_file_id: str
    kind: FileKind
    size_bytes: int
    starts_at: datetime
    ends_at: datetime
    url: str = field(repr=False)


class RecordingStatus(StrEnum):
    """Whether a recording's files can still be had."""

    AVAILABLE = "available"
    EXPIRED = "expired"


@frozen
class Recording:
    """What was recorded of a meeting, in however many files.

    `recorded_at` is the beginning of the earliest file. `duration_s` is the length of the media in seconds as
    measured, none until somebody has: what the provider says of a file's ends includes pauses.
    """

    id: UUID
    account_id: UUID
    meeting_id: UUID
    status: RecordingStatus
    files: tuple[RecordingFile, ...]
    recorded_at: datetime
    created_at: datetime
    duration_s: int | None = None


def can_be_recorded(meeting: Meeting) -> bool:
    """Whether a provider's files of a meeting become a recording: it was sold with one, and took place.

    Who has the host's key can record what was sold without recording; that is nothing that we sell again.
    """
    return meeting.with_recording and meeting.status in _TAKES_PLACE


def open_recording(
    id: UUID, meeting: Meeting, files: Iterable[RecordingFile], created_at: datetime
) -> Recording | None:
    """The recording that the first files of a meeting make; none without a file.

    Args:
        id: the new recording's.
        meeting: what was recorded.
        files: what the provider has, doubles welcome.
        created_at: the present instant.
    """
    gathered = _gathered(files)
    if not gathered:
        return None
    return Recording(
        id, meeting.account_id, meeting.id, RecordingStatus.AVAILABLE, gathered,
        _recorded_at(gathered), created_at,
    )  # fmt: skip


def gather_files(recording: Recording, files: Iterable[RecordingFile]) -> Recording:
    """Add files that a later event told of; the same recording where it says nothing new.

    A file is known by its id at the provider. Of two that bear one id the longer is the truth: a provider
    tells of a file again when it has grown. A recording that has expired takes no more.
    """
    if recording.status is RecordingStatus.EXPIRED:
        return recording
    gathered = _gathered((*recording.files, *files))
    return evolve(recording, files=gathered, recorded_at=_recorded_at(gathered))


def _gathered(files: Iterable[RecordingFile]) -> tuple[RecordingFile, ...]:
    """Each file once, in the order of time. By a total order, so that it does not matter who came first."""
    known: dict[str, RecordingFile] = {}
    for file in files:
        rival = known.get(file.provider_file_id, file)
        known[file.provider_file_id] = max(file, rival, key=_weight)
    return tuple(sorted(known.values(), key=lambda file: (file.starts_at, file.provider_file_id)))


def _weight(file: RecordingFile) -> tuple[int, datetime, datetime, str, str]:
    return file.size_bytes, file.ends_at, file.starts_at, file.kind, file.url


def _recorded_at(files: tuple[RecordingFile, ...]) -> datetime:
    return min(file.starts_at for file in files)
