"""A recording's files as Zoom lists them, in its answers and in its events alike."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

from attrs import field, frozen
from msgspec import Meta

from meetcore.domain.notes.recordings import FileKind, RecordingFile

# By `file_type`. Chats, captions and time lines are not kept.
_KINDS: Final = {"MP4": FileKind.VIDEO, "M4A": FileKind.AUDIO, "TRANSCRIPT": FileKind.TRANSCRIPT}


@frozen
class ListedFile:
    """A file in a list; one that is still being made lacks most."""

    id: str = ""
    file_type: str = ""
    status: str = "completed"
    file_size: Annotated[int, Meta(ge=0)] = 0
    recording_start: str = ""
    recording_end: str = ""
    download_url: str = field(default="", repr=False)


def ready_files(listed: Iterable[ListedFile]) -> tuple[RecordingFile, ...]:
    """The files that are kept and that Zoom is done with: video, audio and transcripts.

    Raises:
        ValueError: the times of one of them cannot be read.
    """
    return tuple(_file(one, _KINDS[one.file_type]) for one in listed if _is_ready(one))


def _is_ready(listed: ListedFile) -> bool:
    is_done = listed.status == "completed" and bool(listed.recording_end)
    return listed.file_type in _KINDS and is_done and bool(listed.id and listed.download_url)


def _file(listed: ListedFile, kind: FileKind) -> RecordingFile:
    return RecordingFile(
        listed.id, kind, listed.file_size, _instant(listed.recording_start), _instant(listed.recording_end),
        listed.download_url,
    )  # fmt: skip


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("an instant without a zone")
    return at.astimezone(UTC)
