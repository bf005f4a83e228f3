"""What the API answers with of recordings and notes, typed. See `records` for what the types promise.

Transcripts are not in a record's `repr`.
"""

from enum import StrEnum
from pathlib import Path

from attrs import field, frozen

from meetcore.client.records import At
from meetcore.domain.notes.notes import Language

__all__ = [
    "ActionItem",
    "Decision",
    "Download",
    "DownloadUrl",
    "Language",
    "Note",
    "NoteStatus",
    "Recording",
    "RecordingStatus",
    "Utterance",
]


class RecordingStatus(StrEnum):
    """Whether a recording's files can be had."""

    AVAILABLE = "available"
    EXPIRED = "expired"


class NoteStatus(StrEnum):
    """How far a note is."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@frozen
class Recording:
    """What was recorded of a meeting. `duration` is in begun minutes, as notes are paid by."""

    id: str
    meeting_id: str
    status: str
    duration: int
    duration_unit: str
    size_bytes: int
    recorded_at: At
    expires_at: At


@frozen
class DownloadUrl:
    """A link that downloads a recording without a key, for 15 minutes. It works for anyone who has it."""

    url: str = field(repr=False)
    expires_at: At


@frozen
class Download:
    """What was downloaded of a recording: the files, in their order, and the bytes in all of them.

    `has_more`: another part follows, which was not requested.
    """

    size_bytes: int
    paths: tuple[Path, ...] = ()
    has_more: bool = False


@frozen
class Decision:
    """A decision, its sentence, and the second of the recording."""

    text: str = field(repr=False)
    quote: str = field(repr=False)
    at: int


@frozen
class ActionItem:
    """An action item; owner and due date where they were named."""

    task: str = field(repr=False)
    quote: str = field(repr=False)
    at: int
    owner: str | None = field(default=None, repr=False)
    due: str | None = field(default=None, repr=False)


@frozen
class Utterance:
    """An utterance and its second. The speaker is None where it is not known."""

    at: int
    text: str = field(repr=False)
    speaker: str | None = field(default=None, repr=False)


@frozen
class Note:
    """Notes on a recording. The content is there once it is completed; `error` says why it failed."""

    id: str
    recording_id: str
    meeting_id: str
    status: str
    language: str
    created_at: At
    decisions: tuple[Decision, ...] = ()
    action_items: tuple[ActionItem, ...] = ()
    topics: tuple[str, ...] = field(default=(), repr=False)
    transcript: tuple[Utterance, ...] = field(default=(), repr=False)
    summary: str | None = field(default=None, repr=False)
    duration: int | None = None
    credits_charged: int | None = None
    error: str | None = None
    completed_at: At | None = None
