"""Lists of an account's records, which a store may read from a copy that is behind it.

Such a copy, a standby, is read where it has all that the store had of the account when its caller was
authenticated: what a caller has written is in each list that it asks for afterwards. Nothing else is promised
of a copy but a bound on how long ago the rest was so. What a decision or an amount of credits depends on is
no list.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EncodedEvent, EventKind

__all__ = [
    "MAX_PAGE",
    "AccountVersion",
    "DeliveryHistory",
    "EventFilter",
    "ListQueries",
    "Lists",
    "MeetingFilter",
    "NoteFilter",
]

MAX_PAGE = 1000
"""The most that a caller may ask of a list at once."""


@frozen
class AccountVersion:
    """What the store itself had of an account at `read_at`, by its own clock.

    `number` rises with each change that a caller of the account asked for, and with each that begins or ends
    one of its meetings, recordings or notes.
    """

    account_id: UUID
    number: int
    read_at: datetime


@frozen
class DeliveryHistory:
    """A delivery and its attempts, the first one first, each without the address that was dialled."""

    delivery: Delivery
    attempts: tuple[Attempt, ...] = ()


@frozen
class MeetingFilter:
    """Which of an account's meetings a list shows. None narrows nothing.

    `status` is the one that `domain.meetings.meetings.shown_status` returns at the instant `now`; the start
    lies in [`starts_from`, `starts_before`). Each of `words`, as `search_words` gives them, begins a word of
    the title.
    """

    now: datetime
    status: MeetingStatus | None = None
    starts_from: datetime | None = None
    starts_before: datetime | None = None
    words: tuple[str, ...] = ()


@frozen
class NoteFilter:
    """Which of an account's notes a list shows: those on a recording, of a meeting. None narrows nothing."""

    recording_id: UUID | None = None
    meeting_id: UUID | None = None


@frozen
class EventFilter:
    """Which of an account's events a list shows. None narrows nothing.

    The millisecond that an event's id begins with, which is that of the event, lies in
    [`made_from`, `made_before`).
    """

    made_from: datetime
    kind: EventKind | None = None
    made_before: datetime | None = None


class ListQueries(Protocol):
    """Lists of one account. Each has `limit` items at most, up to `MAX_PAGE`, of ids less than `before`."""

    async def list_meetings(
        self, account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        """The meetings that a customer may see, the newest first, each as `find_meeting` gives it."""

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        """An account's webhook endpoints, the newest first, their secrets opened."""

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        """The deliveries to an account's endpoint, the newest first.

        Returns:
            None when there is no such endpoint.
        """

    async def list_events(
        self, account_id: UUID, wanted: EventFilter, limit: int, before: UUID | None
    ) -> Sequence[EncodedEvent]:
        """An account's events, the newest first.

        Args:
            account_id: whose.
            wanted: which of them.
            limit: how many at most, up to `MAX_PAGE`.
            before: only those whose ids are less; the id may be of one that is gone.
        """

    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[Recording]:
        """An account's recordings that a customer may see, the newest first."""

    async def list_notes(
        self, account_id: UUID, wanted: NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[Note]:
        """An account's notes that are not erased, the newest first."""


class Lists(Protocol):
    """Chooses where lists are read."""

    def since(self, version: AccountVersion | None) -> ListQueries:
        """Return lists that have all that the store had of the account at this version.

        Without a version they are read from the store itself.
        """
