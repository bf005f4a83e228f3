"""Cheap reads of committed records: callers, records by id, and lists.

A list has at most `limit` items, up to `MAX_PAGE`, the newest first, with ids (of ledger entries: numbers)
less than `before`, which may be of a record that is gone or not shown. It may be read from a standby that is
behind, where the standby has all that the store had of the account when its caller was authenticated: a
caller's own writes are in its later lists. Of the rest only a bound on its age is promised. Input of a
decision, and amounts of credits, are never read from a standby.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final, Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings import meetings, views
from meetcore.domain.members.audit import ActionOrigin, AuditEntry
from meetcore.domain.money import holds, ledger, statements
from meetcore.domain.money.views import AccountState, EntriesOfKey, MonthTotal, TransactionFilter
from meetcore.domain.notes import notes, recordings
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.records import pages
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.requests.views import AccountSummary, AccountVersion, StoredAccount
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EncodedEvent
from meetcore.domain.webhooks.views import DeliveryFilter, DeliveryHistory, EventFilter
from meetcore.ports import mails, members
from meetcore.ports.money import LedgerTotals
from meetcore.ports.payments import PaymentQueries
from meetcore.ports.requests import RequestQueries
from meetcore.ports.webhooks import EndpointHealthQueries

MAX_PAGE = 1000
"""The most items of a list in one read."""


class ListQueries(Protocol):
    """Lists of one account."""

    async def list_meetings(
        self, account_id: UUID, wanted: views.MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[meetings.Meeting]:
        """List the meetings that a customer may see, each as `find_meeting` returns it."""

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        """List webhook endpoints, their secrets opened."""

    async def list_deliveries(
        self, account_id: UUID, endpoint_id: UUID, wanted: DeliveryFilter, limit: int, before: UUID | None
    ) -> Sequence[DeliveryHistory] | None:
        """List the deliveries to an endpoint; `None` when there is no such endpoint."""

    async def list_events(
        self, account_id: UUID, wanted: EventFilter, limit: int, before: UUID | None
    ) -> Sequence[EncodedEvent]: ...
    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[recordings.Recording]:
        """List the recordings that a customer may see."""

    async def list_notes(
        self, account_id: UUID, wanted: NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[notes.Note]:
        """List the notes that are not erased."""


class Lists(Protocol):
    """Chooses the server that lists are read from."""

    def since(self, version: AccountVersion | None) -> ListQueries:
        """Return lists of at least this version of the account; `None` reads from the store itself."""


@frozen
class CallerIncludes:
    """An addition to the statement that finds the caller: at most one of these.

    `meeting_id` is a meeting of the account, `usage_on` a day of the key's cap, and `state_on` such a day
    for a decision that spends: with the account's funds and their version. There is no state for a request
    whose `idempotency_key` is known: the decision was made or is being made.
    """

    meeting_id: UUID | None = None
    usage_on: date | None = None
    state_on: date | None = None
    idempotency_key: str | None = None


NO_INCLUDES: Final = CallerIncludes()


@frozen
class Caller:
    """A key and its account, read in one statement with its `CallerIncludes`.

    `usage` is the sum of the key's charges and holds of that day, `state` the account on that day.
    `load_meeting` returns the meeting as `find_meeting` does; sealed values stay so until the key is
    accepted. `user_id` is the member who asks with the `dashboard_key` of the account; `origin` is that of
    actions by hand, for the audit log. `version` is for the lists that follow.
    """

    key: ApiKey
    account: AccountSummary
    usage: holds.CapUsage | None = None
    load_meeting: Callable[[], meetings.Meeting | None] = field(default=lambda: None, eq=False, repr=False)
    user_id: UUID | None = None
    origin: ActionOrigin | None = None
    version: AccountVersion | None = field(default=None, eq=False, repr=False)
    state: AccountState | None = None

    @property
    def actor_id(self) -> UUID:
        """The id of the member, else of the key."""
        return self.key.id if self.user_id is None else self.user_id


class DashboardQueries(Protocol):
    """Reads of an account's pages."""

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[pages.KeyUse]:
        """List keys, the newest first, with their use on a day; keys of one roll share theirs."""

    async def find_overview(self, account_id: UUID, first_day: date, today: date) -> pages.Overview:
        """Return the overview: days with spending, and troubled endpoints, the oldest first.

        Capped keys are those that are not revoked, the newest first, with their use today; of keys that were
        rolled and have one cap the newest. First steps are those of an account that has had no meeting or was
        opened on `first_day` or later.
        """

    async def find_meeting_details(self, account_id: UUID, meeting_id: UUID) -> pages.MeetingDetails | None:
        """Return a meeting as `Queries.find_meeting`, with recordings and notes as in the lists."""

    async def list_titled_notes(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[pages.TitledNote]:
        """List notes as `Queries.list_notes`, without their content."""

    async def find_note_details(self, account_id: UUID, note_id: UUID) -> pages.NoteDetails | None:
        """Return a note in any state, without the host's key."""

    async def list_meetings_by_start(
        self, account_id: UUID, wanted: views.MeetingFilter, limit: int, after: views.StartCursor | None,
        *, is_ascending: bool,
    ) -> Sequence[meetings.Meeting]:  # fmt: skip
        """List meetings in the order of their starts; words are not looked for."""

    async def describe_entries(
        self, account_id: UUID, entries: Sequence[ledger.Entry]
    ) -> pages.DescribedEntries: ...
    async def find_spending(
        self, account_id: UUID, month: statements.Month, first_day: date
    ) -> pages.SpendingTotals:
        """Sum the months from `first_day` on by kind, and `month` by kind and payer.

        Of the month the newest `MAX_ENTRIES_SUMMED` entries are read.
        """

    async def find_first_entry_at(self, account_id: UUID) -> datetime | None: ...
    async def find_entry_range(
        self, account_id: UUID, made_from: datetime, made_before: datetime
    ) -> statements.EntryRange:
        """Return the numbers of the entries made in this range, and the balances around them."""


class ConsoleQueries(Protocol):
    """Reads of the console."""

    async def list_proposals(self, now: datetime, limit: int) -> Sequence[pages.ProposalLine]:
        """List open proposals, the first to expire first."""

    async def list_bookings(
        self, begins_at: datetime, ends_at: datetime, limit: int
    ) -> Sequence[pages.HostBooking]:
        """List meetings that occupy hosts at any time of [`begins_at`, `ends_at`), by their start."""

    async def find_queues(self) -> pages.Queues: ...
    async def find_liability(self) -> tuple[pages.Liability, Sequence[MonthTotal]]:
        """Return the sums over all accounts, and their movements by month (WIB) and kind, at one moment."""

    async def list_doubts(self, made_before: datetime, limit: int) -> pages.Doubts:
        """List failed removals, cancellations in progress, and creations requested before an instant."""

    async def search_accounts(self, wanted: pages.AccountSearch, limit: int) -> Sequence[StoredAccount]:
        """List the accounts that match any part of the search, the newest first."""

    async def find_account_page(self, account_id: UUID, keys: int, last: int) -> pages.AccountPage | None:
        """Return an account with up to `keys` keys, and up to `last` entries and deliveries."""


class Queries(
    Lists, ListQueries, members.MemberQueries, DashboardQueries, LedgerTotals, ConsoleQueries, RequestQueries,
    mails.MailQueries, EndpointHealthQueries, PaymentQueries, Protocol,
):  # fmt: skip
    """Every read. A key's digest is its SHA-256; a `find_` by id returns an account's record in any state."""

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        """Return the key with a digest, valid or not, and its account."""

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> meetings.Meeting | None:
        """Return a meeting.

        `host_key` is its host's key where that is in place, the host runs one meeting at a time, and no
        meeting that begins earlier still holds the host. The domain decides when to show it.
        """

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        """Return whether the meeting is under a lease that has not expired."""

    async def list_transactions(
        self, account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[ledger.Entry]: ...
    async def list_entries_of_key(
        self, account_id: UUID, key_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> EntriesOfKey:
        """List the entries that one key caused, of the next `MAX_ENTRIES_LOOKED_AT` that are wanted."""

    async def next_free_start(self, wanted: views.FreeStartQuery) -> datetime | None:
        """Return the earliest instant from `start_at` on at which such a meeting could be reserved now.

        On a host that has the seats, may be given a meeting now (`Host.can_take`), and has one of its slots
        free for the whole range. `None` when there is none within `FREE_START_WITHIN` of `start_at` or the
        days that a meeting may be made ahead of now, or among the first `MAX_ENDS_LOOKED_AT` reservations to
        end after `start_at`.
        """

    async def next_creation_at(self, wanted: views.FreeStartQuery) -> datetime | None:
        """Return when, from `now` on, an active host with the seats can: see `Host.next_creation_at`."""

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> meetings.Meeting | None: ...
    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Return a webhook endpoint, its secret opened."""

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None: ...
    async def find_event(self, account_id: UUID, event_id: UUID) -> EncodedEvent | None: ...
    async def find_recording(self, account_id: UUID, recording_id: UUID) -> recordings.Recording | None: ...
    async def find_note(self, account_id: UUID, note_id: UUID) -> notes.Note | None: ...
    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        """Return whether a meeting, recording or note of the account was removed past its retention."""

    async def list_audit_entries(
        self, account_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        """List audit entries, of every account and of none if `None`, with present addresses of people."""

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """Return the secrets of every endpoint registered under a normalised URL, of any account."""

    async def ping(self) -> None:
        """Make sure that the store answers and takes writes. Raises `StoreReadOnly`, `StoreUnavailable`."""
