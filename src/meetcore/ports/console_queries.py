"""Reads of the console: what a page of operators shows, in one statement each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.members.members import Member
from meetcore.domain.money.proposals import Proposal
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.health import Queues
from meetcore.ports.ledger_totals import MonthTotal
from meetcore.ports.registry import StoredAccount

__all__ = [
    "AccountPage",
    "AccountSearch",
    "ConsoleQueries",
    "DeliveryLine",
    "DoubtfulMeeting",
    "DoubtfulRemoval",
    "Doubts",
    "EntryLine",
    "HostBooking",
    "Liability",
    "ProposalLine",
]


@frozen
class AccountSearch:
    """What to find accounts by: any part that matches is enough; `None` matches nothing.

    `text` begins an account's e-mail address or name, or is the e-mail address of a member, all in any case.
    `id` is that of the account, of a member, a key, a meeting, an event or a request; `id_made_at` is the
    instant of it, which finds an event. `key_digest` is of a whole key, `last_four` ends one.
    """

    text: str | None = None
    id: UUID | None = None
    id_made_at: datetime | None = None
    key_digest: bytes | None = field(default=None, repr=False)
    last_four: str | None = None


@frozen
class EntryLine:
    """An entry of the ledger. `amount` and `balance_after` are credits.

    `title` is that of the meeting that it is for, or whose notes it is for; `None` where that is not there.
    """

    at: datetime
    kind: TransferKind
    reference_id: str
    amount: int
    balance_after: int
    reference_type: str
    title: str | None


@frozen
class DeliveryLine:
    """A delivery with its endpoint's URL, if that is still there, and its last attempt, if there was one."""

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
class AccountPage:
    """An account with its members, and its newest keys, entries and deliveries, the newest first."""

    account: StoredAccount
    members: Sequence[Member]
    keys: Sequence[ApiKey]
    entries: Sequence[EntryLine]
    deliveries: Sequence[DeliveryLine]


@frozen
class DoubtfulMeeting:
    """A meeting that is being made or cancelled. `lease_until` is until when a process works on it.

    `can_deliver` is whether a retry of its request can still get the result of its creation.
    """

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
    """A meeting that no record names any more, whose removal at the provider has failed so many times."""

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
class Doubts:
    """What is in doubt, the longest first: meetings in progress, and removals that failed."""

    meetings: Sequence[DoubtfulMeeting]
    removals: Sequence[DoubtfulRemoval]


@frozen
class Liability:
    """What the accounts have: the sum of their balances and of what is held of them, in credits.

    `debt` is the sum of the balances below zero, as a positive number, which `balance` includes.
    """

    accounts: int
    balance: int
    held: int
    debt: int


@frozen
class HostBooking:
    """A meeting that occupies a host, from one instant to another."""

    host_id: UUID
    account_id: UUID
    account_name: str
    meeting_id: UUID
    title: str
    starts_at: datetime
    ends_at: datetime


@frozen
class ProposalLine:
    """A proposal that can be decided, with the name of its account."""

    proposal: Proposal
    account_name: str


class ConsoleQueries(Protocol):
    """Reads of the console."""

    async def list_proposals(self, now: datetime, limit: int) -> Sequence[ProposalLine]:
        """Proposals that can be decided, the first to expire first."""

    async def list_bookings(
        self, begins_at: datetime, ends_at: datetime, limit: int
    ) -> Sequence[HostBooking]:
        """What occupies hosts at any time of [`begins_at`, `ends_at`), by its start, so many at most."""

    async def find_queues(self) -> Queues:
        """What is due now, every queue once."""

    async def find_liability(self) -> tuple[Liability, Sequence[MonthTotal]]:
        """What all accounts have, and what was moved of it by month (WIB) and kind, of one moment."""

    async def list_doubts(self, made_before: datetime, limit: int) -> Doubts:
        """Meetings in progress and failed removals, so many of each.

        A meeting that is being made counts where it was asked for before an instant.
        """

    async def search_accounts(self, wanted: AccountSearch, limit: int) -> Sequence[StoredAccount]:
        """The accounts that something of the search matches, the newest first."""

    async def find_account_page(self, account_id: UUID, keys: int, last: int) -> AccountPage | None:
        """One account with so many of its keys, and so many of its entries and deliveries."""
