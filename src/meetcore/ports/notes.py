"""The store of recordings and notes, and the money of notes.

A note in progress is always due: now, later, or when the lease of its worker expires. Its steps, too, return
False or `None` when the lease is lost.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes import views
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.webhooks.events import Event
from meetcore.ports.runtime import Lease


class NoteRepository(Protocol):
    """Notes, their holds and charges, and the transcript chunks made for them."""

    async def load_note_creation(self, query: views.NoteQuery) -> views.NoteCreationView:
        """Take the account's lock and read the input of the decision on a new note. Raises `NotFound`."""

    async def save_queued(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, cause: str | None = None
    ) -> None:
        """Write a note that is due at once, its hold, and the `cause` of its tasks."""

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        """Write a note that failed before it began, under its account's lock.

        Of a meeting without a recording there is one such note: another one is not written.
        """

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[views.NoteTask]:
        """Take notes that are due and mark them as processing, `in_flight` at once over all workers.

        At most one of a recording at a time, so that it is transcribed once; of several accounts, the one
        with the least in progress first.
        """

    async def is_any_overdue(self, seconds: float) -> bool:
        """Return whether a note, or a recording for notes, has been due for so many seconds."""

    async def renew(self, task: views.NoteTask, seconds: float) -> bool: ...
    async def save_step(self, task: views.NoteTask, note: Note) -> bool: ...
    async def postpone(self, task: views.NoteTask, note: Note, seconds: float) -> bool: ...
    async def wake(self, recording: Recording) -> None:
        """Make those notes on a recording due that wait without a lease for a transcript, or to make one."""

    async def load_transcript_chunks(self, task: views.NoteTask, source: str) -> Mapping[int, Transcript]:
        """Read the chunks of the task's recording so far, by number, of a `source`: files and their split."""

    async def save_transcript_chunk(
        self, task: views.NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool: ...
    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> views.NoteSettlement | None:
        """Take the account's lock and read a note in progress with its money, by its lease's token if any."""

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int: ...
    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int: ...
    async def load(self, account_id: UUID, note_id: UUID) -> Note | None:
        """Read a note, under the account's lock."""

    async def save_edited(self, note: Note) -> None: ...
    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        """Read every note on a recording that is not erased, under the account's lock."""

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None: ...
    async def save_erased(self, note: Note) -> None:
        """Write an erased note; delete its events, their deliveries and attempts."""


class RecordingRepository(Protocol):
    """Recordings. Loads and saves are under the account's lock; claims need none."""

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None: ...
    async def load_by_id(self, account_id: UUID, recording_id: UUID) -> Recording | None: ...
    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        """Write a new or a loaded recording with all its files; return the due deliveries.

        One that `needs_work` is due: at once, if it was not before or has just expired. One that has expired
        or needs no work any more ends its lease.
        """

    async def claim(self, limit: int, lease: Lease) -> Sequence[views.RecordingTask]: ...
    async def renew(self, task: views.RecordingTask, seconds: float) -> bool: ...
    async def postpone(self, task: views.RecordingTask, seconds: float, *, is_missed: bool = False) -> None:
        """Make it due after so many seconds; `is_missed` where its provider listed the files without one."""

    async def find_outlived(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        """Find account and meeting of recordings to expire, the oldest first."""
