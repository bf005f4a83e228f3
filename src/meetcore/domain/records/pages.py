"""Records that pages of the dashboard and of the console show."""

from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.members.members import Member
from meetcore.domain.money import proposals, transfers
from meetcore.domain.money.ledger import Entry
from meetcore.domain.money.spending_report import PayerTotal
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.domain.requests.views import StoredAccount
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EventKind


@frozen
class KeyUse:
    """A key and its charges and holds of a day, in credits."""

    key: ApiKey
    spent: int


@frozen
class CappedKey:
    """A key with a daily cap, and the charges and holds of a day that count against it, in credits."""

    name: str
    daily_cap: int
    spent: int


@frozen
class DaySpending:
    """Charges of a day (WIB) for meetings and for notes less its refunds, in credits."""

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
class FirstSteps:
    """What a new account has done; `endpoint_id` is its first webhook, `has_delivered` is of any."""

    endpoint_id: UUID | None
    has_credits: bool
    has_key: bool
    has_called: bool
    has_met: bool
    has_delivered: bool


@frozen
class Overview:
    """The overview of an account. `low_threshold` is credits; `first_steps` are of a new account alone."""

    spending: Sequence[DaySpending] = ()
    capped_keys: Sequence[CappedKey] = ()
    troubled: Sequence[TroubledEndpoint] = ()
    low_threshold: int = 0
    first_steps: FirstSteps | None = None


@frozen
class MeetingDetails:
    """A meeting, its recordings, its notes, the newest first, and its sessions, the first one first.

    `made_by` is the name of the API key that made it, with the end of its text, or the member who did by
    hand; `None` where that is not known.
    """

    meeting: Meeting
    recordings: Sequence[Recording] = ()
    notes: Sequence[Note] = ()
    sessions: Sequence[Session] = ()
    made_by: str | None = None


@frozen
class NoteDetails:
    """A note with its meeting and its recording, where those are still there."""

    note: Note
    meeting: Meeting | None
    recording: Recording | None


@frozen
class TitledNote:
    """A note without draft and transcript, and the title of its meeting."""

    note: Note
    title: str | None


@frozen
class AccountSearch:
    """A search for accounts that match any part; `None` matches nothing.

    `text` begins an account's e-mail address or name, or is the e-mail address of a member, in any case.
    It may also be a gateway's reference of a payment. `id` is of the account, a member, a key, a meeting, an
    event, a request or a payment; an event is found by the instant `id_made_at` of its id. `key_digest` is of
    a whole key, `last_four` ends one. `receipt` has the year and the number of a receipt.
    """

    text: str | None = None
    id: UUID | None = None
    id_made_at: datetime | None = None
    key_digest: bytes | None = field(default=None, repr=False)
    last_four: str | None = None
    receipt: tuple[int, int] | None = None


@frozen
class EntryLine:
    """A ledger entry, with the `title` of its meeting, if any. `amount` and `balance_after` are credits."""

    at: datetime
    kind: transfers.TransferKind
    reference_id: str
    amount: int
    balance_after: int
    reference_type: str
    title: str | None


@frozen
class DescribedEntry:
    """A ledger entry with the `title` of its meeting and the `member` who made it by hand, where known.

    `key_name` is that of the API key that caused it, if one did.
    """

    entry: Entry
    title: str | None = None
    member: str | None = None
    key_name: str | None = None


@frozen
class KeyName:
    """The name of a key, and the end of its text."""

    id: UUID
    name: str
    last_four: str | None


@frozen
class DescribedEntries:
    """Entries in their order, and every key of the account, the newest first."""

    entries: Sequence[DescribedEntry]
    keys: Sequence[KeyName]


@frozen
class SpendingTotals:
    """Sums by month (its first day) and kind, and by payer in one month; `first_at` is of the first entry."""

    first_at: datetime | None
    months: Sequence[tuple[date, transfers.TransferKind, int]]
    payers: Sequence[PayerTotal]
    keys: Sequence[KeyName]


@frozen
class DeliveryLine:
    """A delivery with the URL of its endpoint and its last attempt, where there are any."""

    id: UUID
    event_id: UUID
    event_kind: EventKind
    status: DeliveryStatus
    created_at: datetime
    next_attempt_at: datetime | None
    attempts_made: int
    url: str | None
    last_status_code: int | None
    last_error: str | None
    endpoint_id: UUID


@frozen
class RequestDetails:
    """A request, the name of its key, and the deliveries of the events that are known to come from it."""

    request: LoggedRequest
    key_name: str
    deliveries: Sequence[DeliveryLine] = ()


@frozen
class AccountPage:
    """An account with its members, and its newest keys, entries and deliveries, the newest first."""

    account: StoredAccount
    members: Sequence[Member]
    keys: Sequence[ApiKey]
    entries: Sequence[EntryLine]
    deliveries: Sequence[DeliveryLine]


@frozen
class DoubtfulMeeting:
    """A meeting made or cancelled under a lease; `can_deliver`: a retry could still get its creation."""

    account_id: UUID
    account_name: str
    id: UUID
    title: str
    status: MeetingStatus
    credits: int
    created_at: datetime
    start_at: datetime
    provider: str
    provider_meeting_id: str | None
    lease_until: datetime
    can_deliver: bool


@frozen
class DoubtfulRemoval:
    """A meeting without a record whose removal at the provider has failed `failures` times."""

    account_id: UUID
    account_name: str
    meeting_id: UUID
    title: str
    start_at: datetime
    provider: str
    failures: int
    since: datetime
    due_at: datetime


@frozen
class KeptRecording:
    """An expired recording of whose files the provider has not deleted all, in `tries` tries."""

    account_id: UUID
    account_name: str
    id: UUID
    meeting_id: UUID
    recorded_at: datetime
    provider: str
    provider_meeting_id: str
    tries: int
    due_at: datetime


@frozen
class Doubts:
    """Meetings in progress, failed removals, and recordings that the provider keeps, the oldest first."""

    meetings: Sequence[DoubtfulMeeting]
    removals: Sequence[DoubtfulRemoval]
    recordings: Sequence[KeptRecording]


@frozen
class Liability:
    """The sums of all balances and open holds, in credits; `debt`, positive, of those below zero."""

    accounts: int
    balance: int
    held: int
    debt: int


@frozen
class HostBooking:
    """A meeting that occupies a host."""

    host_id: UUID
    account_id: UUID
    account_name: str
    meeting_id: UUID
    title: str
    starts_at: datetime
    ends_at: datetime


@frozen
class ProposalLine:
    """An open proposal, with the name of its account."""

    proposal: proposals.Proposal
    account_name: str


class QueueName(StrEnum):
    """Kinds of scheduled work in the store."""

    DELIVERIES = "deliveries"
    MAILS = "mails"
    NOTES = "notes"
    RECORDINGS = "recordings"
    PROVIDER_EVENTS = "provider_events"
    MEETINGS = "meetings"
    REMOVALS = "removals"


@frozen
class Queue:
    """The due work of one kind; more than a thousand are counted as a thousand and one."""

    name: QueueName
    due: int
    oldest_due_at: datetime | None


@frozen
class Queues:
    """Every queue, the store's time, its schema, and the start of its oldest transaction."""

    now: datetime
    schema: int
    oldest_transaction_at: datetime | None
    queues: Sequence[Queue]
