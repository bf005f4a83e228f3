"""Notes (notulen) of a recording: their steps and their price (rule 1/notes).

::

    step     fetch ──> transcribe ──> write ──> settle
               └─(the provider has a transcript)─^

A note is made under a lease, step by step, and each result is kept before the next step begins: the next
worker resumes where the last one stopped, and nothing is paid for twice. A hold is taken when the note is
queued, for the length that is known then; the charge at the end is for the length of the media that was used.
A failed note costs nothing.
"""

import re
from datetime import date, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, Gone, NotFound, ServiceUnavailable, Unprocessable
from meetcore.domain.machine import step
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import Hold
from meetcore.domain.money.transfers import Reference, TransferKind
from meetcore.domain.notes.recordings import Recording, RecordingStatus, is_gone, needs_work
from meetcore.domain.notes.transcripts import Transcript

MEASURED_WITHIN_S: Final = 30
"""How soon a recording that has grown is worth asking for notes of again."""


BY_RULES: Final = "rules"
"""The name of the writer that chooses sentences by rules; others have the name of their model."""


class Language(StrEnum):
    """Languages of notes, by their ISO 639-1 codes."""

    INDONESIAN = "id"
    ENGLISH = "en"


class NoteStatus(StrEnum):
    """The state of a note. Of an erased one only the ids and the money are left."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    ERASED = "erased"


class NoteEvent(StrEnum):
    """An event of a note."""

    TAKE = "take"
    COMPLETE = "complete"
    FAIL = "fail"
    ERASE = "erase"


TRANSITIONS: Final = {
    (NoteStatus.QUEUED, NoteEvent.TAKE): NoteStatus.PROCESSING,
    (NoteStatus.PROCESSING, NoteEvent.TAKE): NoteStatus.PROCESSING,
    (NoteStatus.PROCESSING, NoteEvent.COMPLETE): NoteStatus.COMPLETED,
    (NoteStatus.QUEUED, NoteEvent.FAIL): NoteStatus.FAILED,
    (NoteStatus.PROCESSING, NoteEvent.FAIL): NoteStatus.FAILED,
    (NoteStatus.COMPLETED, NoteEvent.ERASE): NoteStatus.ERASED,
    (NoteStatus.FAILED, NoteEvent.ERASE): NoteStatus.ERASED,
}
"""The whole machine of the status: a missing key is illegal and changes nothing."""


class NoteStep(StrEnum):
    """The next step of a note in progress, in their order; after the last one it is completed."""

    FETCH = "fetch"
    TRANSCRIBE = "transcribe"
    WRITE = "write"
    SETTLE = "settle"


class NoteFault(StrEnum):
    """The reason why a note cannot be made."""

    SHORT_OF_CREDITS = "short_of_credits"
    CAP_REACHED = "cap_reached"
    RECORDING_GONE = "recording_gone"
    NO_RECORDING = "no_recording"
    FILES_UNAVAILABLE = "files_unavailable"
    MEDIA_UNREADABLE = "media_unreadable"
    NO_SPEECH = "no_speech"
    NO_TRANSCRIBER = "no_transcriber"
    AI_REFUSED = "ai_refused"
    AI_UNAVAILABLE = "ai_unavailable"
    FAULT_HERE = "fault_here"


_MESSAGES: Final = {
    NoteFault.SHORT_OF_CREDITS: (
        "The account had too few credits for these notes. Top up and ask for them with POST /notes."
    ),
    NoteFault.CAP_REACHED: (
        "The daily credit cap of the meeting's API key left no room for these notes. Ask for them "
        "tomorrow, or with another key, with POST /notes."
    ),
    NoteFault.RECORDING_GONE: "The recording was deleted or is past its retention.",
    NoteFault.NO_RECORDING: (
        "The video provider delivered no recording of this meeting. Nothing was charged for the notes, and "
        "what was paid for the recording was given back."
    ),
    NoteFault.FILES_UNAVAILABLE: (
        "The video provider did not hand over the recording. Nothing was charged; try again later."
    ),
    NoteFault.MEDIA_UNREADABLE: "The recording's file cannot be read as audio or video.",
    NoteFault.NO_SPEECH: "No speech was found in the recording, so that there is nothing to note.",
    NoteFault.NO_TRANSCRIBER: (
        "The video provider wrote no transcript of this recording, and this service does not transcribe "
        "recordings itself. Nothing was charged."
    ),
    NoteFault.AI_REFUSED: (
        "The AI provider refused to work on this recording. Nothing was charged, and the same request "
        "is likely to be refused again."
    ),
    NoteFault.AI_UNAVAILABLE: (
        "The AI provider did not answer for a long time. Nothing was charged; try again later."
    ),
    NoteFault.FAULT_HERE: (
        "The notes could not be made because of a fault at the service. Nothing was charged; try again."
    ),
}


def describe(fault: NoteFault) -> str:
    """Describe a fault to a customer, without internals."""
    return _MESSAGES[fault]


@frozen
class Decision:
    """A decision, the sentence that states it, and the second at which it was spoken.

    One that was added by hand has no sentence, and 0 as its second.
    """

    text: str = field(repr=False)
    quote: str = field(repr=False)
    at_s: float

    @property
    def is_verbatim(self) -> bool:
        """Whether the text has the words of the quote and no others: one of them is enough to show."""
        return _words_of(self.text) == _words_of(self.quote)

    @property
    def is_by_hand(self) -> bool:
        """Whether it was added by hand: no sentence states it."""
        return not self.quote


@frozen
class ActionItem:
    """A task. Owner and due are the spoken words, if they were said; `due_on` is the day that they mean.

    One that was added by hand has no quote, and 0 as its second.
    """

    task: str = field(repr=False)
    quote: str = field(repr=False)
    at_s: float
    owner: str | None = field(default=None, repr=False)
    due: str | None = field(default=None, repr=False)
    due_on: date | None = None

    @property
    def is_verbatim(self) -> bool:
        """Whether the task has the words of the quote and no others."""
        return _words_of(self.task) == _words_of(self.quote)

    @property
    def is_by_hand(self) -> bool:
        """Whether it was added by hand: no sentence states it."""
        return not self.quote


def _words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@frozen
class NoteDraft:
    """A writer's result from a transcript: the note's content before it is paid for."""

    summary: str = field(repr=False)
    decisions: tuple[Decision, ...] = ()
    action_items: tuple[ActionItem, ...] = ()
    topics: tuple[str, ...] = field(default=(), repr=False)


@frozen
class Original:
    """What was written and transcribed, before the first correction by hand."""

    draft: NoteDraft
    transcript: Transcript = field(repr=False)


@frozen
class Note:
    """One note on one recording in one language; `recording_id` is `None` where no recording ever came.

    `api_key_id` is the key that pays. `duration_s` is the length of the media, final from the step `write`
    on. `tries` counts how often the present step failed for a temporary reason. `draft`, `transcript` and
    `left_out` are set by their steps: the last one holds the first and the last second of each stretch of the
    recording that there is no transcript of. `written_by` is `BY_RULES` or the name of a model. Until there
    is a draft, `parts` are what a writer has done of it, each with its name. Where a customer corrected it,
    `edited_at` is when last, and `original` what it was before.
    """

    id: UUID
    account_id: UUID
    api_key_id: UUID
    recording_id: UUID | None
    meeting_id: UUID
    language: Language
    status: NoteStatus
    step: NoteStep
    duration_s: int
    created_at: datetime
    tries: int = 0
    draft: NoteDraft | None = None
    transcript: Transcript = field(default=(), repr=False)
    parts: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    left_out: tuple[tuple[float, float], ...] = ()
    written_by: str | None = None
    original: Original | None = None
    edited_at: datetime | None = None
    credits_charged: int | None = None
    charge_id: UUID | None = None
    error: str | None = None
    completed_at: datetime | None = None


@frozen
class NoteCompleted:
    """A note was written and paid for."""

    note: Note


@frozen
class NoteFailed:
    """A note was given up; it cost nothing."""

    note: Note


def note_operation(note_id: UUID) -> str:
    """Return the permanent name of a note's charge: one note, one name, one charge."""
    return f"note:{note_id}"


def is_in_progress(note: Note) -> bool:
    """Return whether a worker still has to work on it, and credits are held for it."""
    return note.status in (NoteStatus.QUEUED, NoteStatus.PROCESSING)


def blocks_new_note(note: Note) -> bool:
    """Return whether it prevents another note on its recording and language: unless failed or erased."""
    return is_in_progress(note) or note.status is NoteStatus.COMPLETED


def admit_note(recording: Recording | None, existing_note: Note | None, now: datetime) -> Recording:
    """Check that a note can be made; `existing_note` is one in the same language, if any.

    Raises:
        NotFound: no such recording of the caller, or one that is not measured yet.
        Gone: it is past its retention or was deleted (rule 7/410).
        Conflict: there is a note that `blocks_new_note`; `details.id` names it.
        ServiceUnavailable: the recording has grown, and its price is not known before it is measured.
        Unprocessable: it has no audio.
    """
    if recording is None or recording.status is RecordingStatus.MEASURING:
        raise NotFound("No recording with this id.")
    if is_gone(recording, now):
        raise Gone(describe(NoteFault.RECORDING_GONE))
    if existing_note is not None and blocks_new_note(existing_note):
        raise Conflict(
            "There is a note on this recording in this language already: read that one.", existing_note.id
        )
    if needs_work(recording):
        raise ServiceUnavailable(
            "More of this recording has come and is being measured. Try again soon.", MEASURED_WITHIN_S
        )
    if recording.duration_s < 1:
        raise Unprocessable(describe(NoteFault.MEDIA_UNREADABLE))
    return recording


def queue(id: UUID, recording: Recording, api_key_id: UUID, language: Language, at: datetime) -> Note:
    """Create a queued note."""
    return Note(
        id, recording.account_id, api_key_id, recording.id, recording.meeting_id, language, NoteStatus.QUEUED,
        NoteStep.FETCH, recording.duration_s, at,
    )  # fmt: skip


def fail_without_recording(
    id: UUID, meeting: Meeting, language: Language, at: datetime
) -> tuple[Note, NoteFailed]:
    """Create the failed note of a meeting whose recording never came."""
    note = Note(
        id, meeting.account_id, meeting.api_key_id, None, meeting.id, language, NoteStatus.QUEUED,
        NoteStep.FETCH, 0, at,
    )  # fmt: skip
    return fail(note, NoteFault.NO_RECORDING)


def hold_for(note: Note, hold_id: UUID, credits: int, day: date) -> Hold:
    """Return the hold for a note in progress, on the cap of the WIB day of its request."""
    reference = Reference("note", str(note.id))
    operation = note_operation(note.id)
    return Hold(hold_id, operation, TransferKind.NOTULEN_CHARGE, credits, reference, note.api_key_id, day)


def advance(note: Note, step: NoteStep) -> Note:
    """Advance a note to its next step and reset its failure count.

    Raises `ValueError` where the note is not in progress, or the step does not lie ahead.
    """
    order = tuple(NoteStep)
    if not is_in_progress(note) or order.index(step) <= order.index(note.step):
        raise ValueError(f"a {note.status} note at {note.step} does not go on to {step}")
    return evolve(note, step=step, tries=0)


MAX_PARTS_CHARS: Final = 1_000_000
"""Parts of a draft are kept up to this length together; more are written again where writing fails."""


def keep_part(note: Note, name: str, text: str) -> Note:
    """Keep a part of the draft, where there is room for it."""
    others = tuple(part for part in note.parts if part[0] != name)
    if sum(len(other) for _, other in others) + len(text) > MAX_PARTS_CHARS:
        return note
    return evolve(note, parts=(*others, (name, text)))


def finish_draft(note: Note, draft: NoteDraft, written_by: str) -> Note:
    """Set the draft in place of its parts, and advance to the charge. `ValueError`: as of `advance`."""
    return evolve(advance(note, NoteStep.SETTLE), draft=draft, written_by=written_by, parts=())


def complete(note: Note, credits: int, charge_id: UUID, at: datetime) -> tuple[Note, NoteCompleted]:
    """Complete a note that is written and paid for; `NoteCompleted` reports it (rule 6/6).

    Raises:
        IllegalStep: it is not being written.
        ValueError: nothing was written.
    """
    status = step(TRANSITIONS, note.status, NoteEvent.COMPLETE)
    if note.draft is None:
        raise ValueError("a note without content is not completed")
    done = evolve(note, status=status, credits_charged=credits, charge_id=charge_id, completed_at=at)
    return done, NoteCompleted(done)


def fail(note: Note, fault: NoteFault) -> tuple[Note, NoteFailed]:
    """Fail a note; it costs nothing and keeps no transcript. IllegalStep: it is over already."""
    status = step(TRANSITIONS, note.status, NoteEvent.FAIL)
    failed = evolve(_without_content(note), status=status, error=describe(fault), credits_charged=0)
    return failed, NoteFailed(failed)


def erase(note: Note) -> Note:
    """Erase all but the ids and the money. IllegalStep: it is in progress, or erased already."""
    status = step(TRANSITIONS, note.status, NoteEvent.ERASE)
    return evolve(_without_content(note), status=status, original=None, edited_at=None, error=None)


def _without_content(note: Note) -> Note:
    return evolve(note, draft=None, transcript=(), left_out=(), parts=(), written_by=None)
