"""Reads of the dashboard: what a page shows beside the lists of the API, in one statement each."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.statements import EntryRange
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.keys import ApiKey

__all__ = [
    "CappedKey",
    "DashboardQueries",
    "DaySpending",
    "KeyUse",
    "MeetingDetails",
    "NoteDetails",
    "Overview",
    "TitledNote",
    "TroubledEndpoint",
]


@frozen
class KeyUse:
    """A key and the credits that count against its cap on a day, those that are held included."""

    key: ApiKey
    spent: int


@frozen
class CappedKey:
    """A key with a daily cap and the credits that count against it on a day, those that are held included."""

    name: str
    daily_cap: int
    spent: int


@frozen
class DaySpending:
    """Credits that were charged on a day (WIB) for meetings and for notes, refunds of that day taken off."""

    day: date
    meetings: int
    notes: int


@frozen
class TroubledEndpoint:
    """A webhook endpoint that was disabled by failures, or whose last deliveries failed."""

    id: UUID
    url: str
    consecutive_failures: int
    is_disabled: bool


@frozen
class Overview:
    """What the first page shows of an account. `low_threshold` is credits."""

    spending: Sequence[DaySpending] = ()
    capped_keys: Sequence[CappedKey] = ()
    troubled: Sequence[TroubledEndpoint] = ()
    low_threshold: int = 0


@frozen
class MeetingDetails:
    """A meeting, what was recorded of it, and the notes on that, the newest first."""

    meeting: Meeting
    recordings: Sequence[Recording] = ()
    notes: Sequence[Note] = ()


@frozen
class NoteDetails:
    """A note with its meeting and its recording, where they can still be read."""

    note: Note
    meeting: Meeting | None
    recording: Recording | None


@frozen
class TitledNote:
    """A note without draft and transcript, and the title of its meeting."""

    note: Note
    title: str | None


class DashboardQueries(Protocol):
    """Reads of an account's pages."""

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[KeyUse]:
        """An account's keys, the newest first, with their use on a day; keys of one roll share theirs."""
        ...

    async def find_overview(self, account_id: UUID, first_day: date, today: date) -> Overview:
        """What the first page shows.

        Spending has the days from the first one on that have charges or refunds, the oldest first; capped
        keys are those that are not revoked, the newest first, with their use today; troubled endpoints are
        those that do not receive what they should, the oldest first.
        """
        ...

    async def find_meeting_details(self, account_id: UUID, meeting_id: UUID) -> MeetingDetails | None:
        """A meeting as `Queries.find_meeting` gives it, with recordings and notes as the lists have them."""
        ...

    async def list_titled_notes(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[TitledNote]:
        """An account's notes as `Queries.list_notes` gives them, without reading what they say."""
        ...

    async def find_note_details(self, account_id: UUID, note_id: UUID) -> NoteDetails | None:
        """An account's note in any state, with its meeting and its recording, without the host's key."""
        ...

    async def find_first_entry_at(self, account_id: UUID) -> datetime | None:
        """When the first entry of the account's ledger was made; None where it has none."""
        ...

    async def find_entry_range(
        self, account_id: UUID, made_from: datetime, made_before: datetime
    ) -> EntryRange:
        """The numbers of the entries made from an instant on and before another, and the balances around."""
        ...
