"""The records of recordings and of the notes on them. Seconds count from the beginning of the recording."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated

from attrs import field, frozen

from meetcore.domain.fields import DURATION_UNIT, FieldInfo, Id, Utc, record_of
from meetcore.domain.money.pricing import started_minutes
from meetcore.domain.notes import notes, recordings

_Moment = Annotated[int, FieldInfo("Second of the recording.")]
_Quote = Annotated[str, FieldInfo("Word for word; empty where a member added it by hand.")]


class RecordingState(StrEnum):
    """Whether a recording's files can still be had."""

    AVAILABLE = "available"
    EXPIRED = "expired"


class NoteState(StrEnum):
    """How far the notes of a recording are."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@frozen
class Recording:
    """The recording of a meeting, in however many files."""

    id: Id
    meeting_id: Id
    status: Annotated[str, FieldInfo(known_values=RecordingState)]
    duration: Annotated[int, FieldInfo("Begun minutes of media, as notes are paid by.")]
    duration_unit: Annotated[str, FieldInfo("`minutes`.")]
    size_bytes: Annotated[int, FieldInfo("How long the download is.")]
    recorded_at: Utc
    expires_at: Annotated[datetime, FieldInfo("When its files are removed, in UTC.")]


@frozen
class DownloadUrl:
    """A link to a recording that works without a key."""

    url: Annotated[str, FieldInfo("GET it; byte ranges work. A further file is named in `Link`.")] = field(
        repr=False
    )
    expires_at: Annotated[datetime, FieldInfo("Until when it works, in UTC.")]


@frozen
class Decision:
    """A decision, and the words that state it."""

    text: str = field(repr=False)
    quote: _Quote = field(repr=False)
    at: _Moment


@frozen(kw_only=True)
class ActionItem:
    """A task, its owner and day."""

    task: str = field(repr=False)
    owner: str | None = field(default=None, repr=False)
    due: str | None = field(default=None, repr=False)
    due_on: Annotated[date | None, FieldInfo("The day of `due`.")] = None
    quote: _Quote = field(repr=False)
    at: _Moment


@frozen(kw_only=True)
class Utterance:
    """The speaker is null where only the sound is known."""

    speaker: str | None = field(default=None, repr=False)
    at: _Moment
    text: str = field(repr=False)


@frozen(kw_only=True)
class Note:
    """The notes of a recording."""

    id: Id
    recording_id: Id | None
    meeting_id: Id
    status: Annotated[str, FieldInfo(known_values=NoteState)]
    language: Annotated[str, FieldInfo("What they are written in.", known_values=notes.Language)]
    summary: str | None = field(default=None, repr=False)
    decisions: tuple[Decision, ...] = ()
    action_items: tuple[ActionItem, ...] = ()
    topics: tuple[str, ...] = field(default=(), repr=False)
    transcript: tuple[Utterance, ...] = field(default=(), repr=False)
    written_by: Annotated[str | None, FieldInfo("`rules` or a model's name.")] = None
    duration: Annotated[int | None, FieldInfo("Begun minutes that were paid for; null before.")] = None
    credits_charged: Annotated[int | None, FieldInfo("Whole credits; null while it is in progress.")] = None
    error: Annotated[str | None, FieldInfo("Why there are none.")] = None
    created_at: Utc
    completed_at: Annotated[datetime | None, FieldInfo("In UTC.")] = None
    edited_at: Annotated[datetime | None, FieldInfo("By hand.")] = None


def recording_record(recording: recordings.Recording, now: datetime) -> Recording:
    """Return the record of a recording, in begun minutes."""
    return record_of(
        Recording,
        recording,
        status=recordings.shown_status(recording, now).value,
        duration=started_minutes(recording.duration_s),
        duration_unit=DURATION_UNIT,
    )


def note_record(note: notes.Note) -> Note:
    """Return a note's record: its content once completed, its error if it failed; begun minutes were paid."""
    content: dict[str, object] = {"summary": None, "duration": None, "written_by": None}
    content |= dict.fromkeys(("decisions", "action_items", "topics", "transcript"), ())
    if note.status is notes.NoteStatus.COMPLETED and (draft := note.draft) is not None:
        content = {
            "summary": draft.summary,
            "decisions": tuple(record_of(Decision, one, at=int(one.at_s)) for one in draft.decisions),
            "action_items": tuple(record_of(ActionItem, one, at=int(one.at_s)) for one in draft.action_items),
            "topics": draft.topics,
            "transcript": tuple(record_of(Utterance, one, at=int(one.at_s)) for one in note.transcript),
            "duration": started_minutes(note.duration_s),
            "written_by": note.written_by,
        }
    return record_of(Note, note, **content)
