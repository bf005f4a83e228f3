"""Reads that change nothing and lock nothing: one statement each."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.members.audit import ActionOrigin, AuditEntry
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, TransferKind
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EncodedEvent
from meetcore.ports.account_state import AccountState
from meetcore.ports.account_summary import AccountSummary
from meetcore.ports.console_queries import ConsoleQueries
from meetcore.ports.dashboard_queries import DashboardQueries
from meetcore.ports.endpoint_health import EndpointHealthQueries
from meetcore.ports.ledger_totals import LedgerTotals
from meetcore.ports.lists import (
    MAX_PAGE,
    AccountVersion,
    DeliveryHistory,
    EventFilter,
    ListQueries,
    Lists,
    MeetingFilter,
    NoteFilter,
)
from meetcore.ports.mails import MailQueries
from meetcore.ports.member_queries import MemberQueries
from meetcore.ports.request_log import RequestQueries

__all__ = [
    "FREE_START_WITHIN",
    "MAX_ENDS_LOOKED_AT",
    "MAX_ENTRIES_LOOKED_AT",
    "MAX_PAGE",
    "NO_INCLUDES",
    "AccountState",
    "AccountSummary",
    "AccountVersion",
    "Caller",
    "CallerIncludes",
    "DeliveryHistory",
    "EntriesOfKey",
    "EventFilter",
    "FreeStartQuery",
    "MeetingFilter",
    "NoteFilter",
    "Queries",
    "TransactionFilter",
]

FREE_START_WITHIN: Final = timedelta(days=7)
"""How far after the start that was wished for a free one is looked for."""

MAX_ENTRIES_LOOKED_AT: Final = 5000
"""How many entries of a ledger are looked at for those of one key: they are not stored by their keys."""

MAX_ENDS_LOOKED_AT: Final = 200
"""How many reservations are looked at for a free start, the first to end first."""


@frozen
class CallerIncludes:
    """What is read of the caller's account in the statement that finds the caller: at most one of these.

    `meeting_id` is a meeting of the account, `usage_on` a day of the key's cap, and `state_on` such a day
    for a decision that spends: with the account's funds and their version. There is no state for a request
    whose `idempotency_key` is known: the decision was made or is being made.
    """

    meeting_id: UUID | None = None
    usage_on: date | None = None
    state_on: date | None = None
    idempotency_key: str | None = None


NO_INCLUDES: Final = CallerIncludes()
"""The caller alone."""


def _no_meeting() -> None:
    return None


@frozen
class Caller:
    """A key and its account, read in one statement, with what a `CallerIncludes` asked for.

    `usage` is what the key spent and holds on that day, `state` the account on that day. `load_meeting`
    gives the meeting as `find_meeting` reports it, if there is one; sealed values stay so until the key is
    accepted. `user_id` is the member who asks, with the `dashboard_key` of the account; `origin` is who asks
    by hand, for the audit log. `version` is what the store had of the account, for lists that follow.
    """

    key: ApiKey
    account: AccountSummary
    usage: CapUsage | None = None
    load_meeting: Callable[[], Meeting | None] = field(default=_no_meeting, eq=False, repr=False)
    user_id: UUID | None = None
    origin: ActionOrigin | None = None
    version: AccountVersion | None = field(default=None, eq=False, repr=False)
    state: AccountState | None = None

    @property
    def actor_id(self) -> UUID:
        """Who asks: the member, else the key."""
        return self.key.id if self.user_id is None else self.user_id


@frozen
class TransactionFilter:
    """Which of an account's ledger entries a list shows. None narrows nothing.

    The entry's time lies in [`made_from`, `made_before`).
    """

    kind: TransferKind | None = None
    made_from: datetime | None = None
    made_before: datetime | None = None


@frozen
class EntriesOfKey:
    """Entries that one key caused, the newest first, and where a search for further ones goes on.

    Older entries than the one numbered `reached` were not looked at; None where there are none.
    """

    entries: Sequence[Entry] = ()
    reached: int | None = None


@frozen
class FreeStartQuery:
    """A meeting that found no host: so many seats and minutes, from `start_at`, asked for at `now`.

    `per_day` is how many meetings may be made for one host a day (UTC); none for any number.
    """

    seats: int
    start_at: datetime
    minutes: int
    now: datetime
    per_day: int | None = None


class Queries(
    Lists,
    ListQueries,
    MemberQueries,
    DashboardQueries,
    LedgerTotals,
    ConsoleQueries,
    RequestQueries,
    MailQueries,
    EndpointHealthQueries,
    Protocol,
):
    """Frequent reads that must be cheap. A key's digest is its SHA-256.

    A list has at most `limit` items, up to `MAX_PAGE`: only those whose ids (of ledger entries: numbers) are
    less than `before`, which may be that of one that is gone or not shown.
    """

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account, in one trip."""

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state.

        `host_key` is its host's key where that is in place, the host runs one meeting at a time, and no
        meeting that begins earlier still holds the host; else none. Whether it is time to show it is the
        domain's to say.
        """

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        """Whether a process makes or cancels an account's meeting now: under a lease that has not run out."""

    async def list_transactions(
        self, account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[Entry]:
        """An account's own entries in the ledger, the newest first."""

    async def list_entries_of_key(
        self, account_id: UUID, key_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> EntriesOfKey:
        """An account's entries that one key caused, of the next `MAX_ENTRIES_LOOKED_AT` that are wanted."""

    async def next_free_start(self, wanted: FreeStartQuery) -> datetime | None:
        """The earliest instant from `start_at` on at which such a meeting could be reserved now.

        On a host that has the seats, may be given a meeting now (`Host.can_take`), and has one of its slots
        free for the whole range.

        Returns:
            None when there is none within `FREE_START_WITHIN` of `start_at` or the days that a meeting may be
            made ahead of now, or when it does not show among the first `MAX_ENDS_LOOKED_AT` reservations to
            end after `start_at`.
        """

    async def next_creation_at(self, wanted: FreeStartQuery) -> datetime | None:
        """The first instant from `now` on at which a host with the seats may be given a meeting, free or not.

        See `Host.next_creation_at`; none where no active host has the seats.
        """

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own, in any state and of any account."""

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint, its secret opened."""

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        """A delivery to an account's endpoint, as long as the endpoint is there."""

    async def find_event(self, account_id: UUID, event_id: UUID) -> EncodedEvent | None:
        """An account's event, of any age, as long as it is there."""

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        """An account's recording, in any state."""

    async def find_note(self, account_id: UUID, note_id: UUID) -> Note | None:
        """An account's note, in any state."""

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        """Whether a meeting, recording or note of the account was removed past its retention."""

    async def list_audit_entries(
        self, account_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        """Entries of the audit log, the newest first, with the present addresses of members and invitations.

        Args:
            account_id: whose; of every account and of none where `None`.
        """

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL, of any account."""

    async def ping(self) -> None:
        """Make sure that the store answers and takes writes.

        Raises:
            StoreReadOnly: it answers, and takes none.
            StoreUnavailable: it does not answer.
        """
