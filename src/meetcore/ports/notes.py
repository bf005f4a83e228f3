"""Notes and their money in a store: what each decision loads and what each writes.

A note in progress is due at every moment: now, at a time to come, or when the lease of the worker on it
runs out. Each step is written by the bearer of the lease only. Locks are taken in the order account, note.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes.notes import Language, Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.webhooks.events import Event
from meetcore.ports.lease import Lease

__all__ = ["NoteCreationView", "NoteQuery", "NoteRepository", "NoteSettlement", "NoteTask"]


@frozen
class NoteQuery:
    """What the decision on a new note needs: whose recording, and which key pays on which day."""

    account_id: UUID
    api_key_id: UUID
    cap_day: date
    recording_id: UUID
    language: Language


@frozen
class NoteCreationView:
    """The account under its lock, the recording, and the note on it in that language that `blocks_new_note`.

    `daily_cap` is the key's cap at this moment.
    """

    funds: Funds
    usage: CapUsage
    daily_cap: int | None
    recording: Recording | None
    existing_note: Note | None


@frozen
class NoteTask:
    """A note to work on, under the caller's lease, and the recording as it was when it was claimed.

    `lease_expirations` counts how often the lease of a worker on this note ran out, and `had_expired_lease`
    is whether it is claimed because one did. `cause` is where in a recorded trace the note was requested.
    """

    token: UUID = field(repr=False)
    note: Note
    recording: Recording
    lease_expirations: int = 0
    had_expired_lease: bool = False
    cause: str | None = None


@frozen
class NoteSettlement:
    """A note in progress with its money, under its account's lock. `usage` is for the hold's cap day."""

    note: Note
    funds: Funds
    usage: CapUsage
    hold: Hold


class NoteRepository(Protocol):
    """Notes, their holds and charges, and the transcript chunks made for them."""

    async def load_note_creation(self, query: NoteQuery) -> NoteCreationView:
        """Everything that the decision on a new note needs, in one locked read.

        Raises:
            NotFound: no such account.
        """

    async def save_queued(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, cause: str | None = None
    ) -> None:
        """Write a note that is due at once, its hold, and the `cause` that its tasks are to have."""

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        """Write a note that failed before it began, under its account's lock.

        Returns:
            How many deliveries are due now.
        """

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        """Take notes that are due, each under the lease, and let them count as processing.

        At most one of a recording at a time, so that it is transcribed once; of several accounts, the one
        with the least in progress first.

        Args:
            in_flight: how many may be under a lease at once, over all workers.
        """

    async def is_any_overdue(self, seconds: float) -> bool:
        """Whether a note, or a recording that notes could be made of, has been due for so many seconds."""

    async def renew(self, task: NoteTask, seconds: float) -> bool:
        """Keep a claim for so many seconds from now; false when it is lost."""

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        """Write how far a note has come; false when the claim is lost, and nothing was written."""

    async def postpone(self, task: NoteTask, note: Note, seconds: float) -> bool:
        """Write a note and give it back, due in so many seconds; false when the claim is lost."""

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        """The transcript chunks of the task's recording so far, by their number.

        Args:
            source: a name for the files and how they were cut; chunks of another source are left out.
        """

    async def save_transcript_chunk(
        self, task: NoteTask, source: str, piece: int, transcript: Transcript
    ) -> bool:
        """Save the transcript of a chunk; false when the claim is lost, and nothing was written."""

    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> NoteSettlement | None:
        """A note in progress and its money, in one locked read.

        Args:
            token: of the lease; `None` ends the note without its worker's lease.

        Returns:
            None when it is not in progress, or the lease is lost.
        """

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int:
        """Write a completed note, its charge in place of its hold, and its events.

        Returns:
            How many deliveries are due now.
        """

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        """Write a failed note, its hold given back, and its events.

        Returns:
            How many deliveries are due now.
        """

    async def load_of_recording(self, account_id: UUID, recording_id: UUID) -> Sequence[Note]:
        """Every note on a recording that is not erased, under the account's lock."""

    async def delete_transcript_chunks(self, account_id: UUID, recording_id: UUID) -> None:
        """Delete the transcript chunks of a recording, under the account's lock."""

    async def save_erased(self, note: Note) -> None:
        """Write an erased note; its events, their deliveries and attempts are deleted."""
