"""Views of notes and recordings that the store reads and writes for a decision."""

from datetime import date
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.money import holds, ledger
from meetcore.domain.notes import notes, recordings


@frozen
class NoteQuery:
    """The input of the decision on a new note: the recording, and the key that pays on the cap day."""

    account_id: UUID
    api_key_id: UUID
    cap_day: date
    recording_id: UUID
    language: notes.Language


@frozen
class NoteCreationView:
    """The account under its lock, the recording, the note that `blocks_new_note`, the key's present cap."""

    funds: ledger.Funds
    usage: holds.CapUsage
    daily_cap: int | None
    recording: recordings.Recording | None
    existing_note: notes.Note | None


@frozen
class NoteTask:
    """A note to work on, under the caller's lease, and the recording at the time of the claim.

    `lease_expirations` counts the expired leases of workers on this note since a step or a part of it was
    kept; `had_expired_lease`: one led to this claim. `cause` is the place in a recorded trace where the note
    was requested.
    """

    token: UUID = field(repr=False)
    note: notes.Note
    recording: recordings.Recording
    lease_expirations: int = 0
    had_expired_lease: bool = False
    cause: str | None = None


@frozen
class NoteSettlement:
    """A note in progress with its money, under its account's lock. `usage` is for the hold's cap day."""

    note: notes.Note
    funds: ledger.Funds
    usage: holds.CapUsage
    hold: holds.Hold


@frozen
class RecordingTask:
    """A recording with work left at the provider, under the caller's lease.

    `tries` counts the claims since its work last succeeded, this one included, `misses` the latest ones in a
    row at which the provider listed its files without one. `had_expired_lease` where an earlier claim was
    neither renewed nor ended.
    """

    token: UUID = field(repr=False)
    recording: recordings.Recording
    tries: int
    misses: int = 0
    had_expired_lease: bool = False


@frozen
class NoteFilter:
    """A choice of an account's notes, by recording and meeting; `None` narrows nothing."""

    recording_id: UUID | None = None
    meeting_id: UUID | None = None
