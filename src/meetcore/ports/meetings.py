"""Meetings, their hosts and their money, in a store: what each decision loads and what each writes.

A meeting in progress is under a lease, and every later step is fenced by its token. Locks are taken in the
order account, meeting, host.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.hosts import DayCreations, Host
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds, Transfer
from meetcore.domain.webhooks.events import Event
from meetcore.ports.account_state import AccountState
from meetcore.ports.idempotency import Claim, KeyView
from meetcore.ports.lease import Lease

__all__ = [
    "CreationQuery",
    "CreationView",
    "DueMeeting",
    "ExpiredLease",
    "LeaseView",
    "MeetingRepository",
    "MeetingView",
    "Provisioning",
]


@frozen
class CreationQuery:
    """What the decision on a new meeting needs. `operation` is the charge's permanent name.

    `now` is the request's instant and `per_day` how many meetings may be made for one host a day, for
    `Host.can_take`. `needs_host` is false with a provider that has none.
    """

    account_id: UUID
    api_key_id: UUID
    cap_day: date
    operation: str
    idempotency_key: str | None
    seats: int
    start_at: datetime
    end_at: datetime
    now: datetime
    per_day: int | None = None
    needs_host: bool = True
    can_wait_for_host: bool = False


@frozen
class CreationView:
    """The account, and the free hosts that can take the meeting, locked to the end of the transaction.

    `is_contended` means that a fitting host is free but locked by another transaction: ask again
    with `can_wait_for_host`. `daily_cap` is the key's cap at this moment. `creations` are those of the
    query's day on active and former hosts with the seats; none where `per_day` limits nothing. What is left
    of them is as of the last commit: two accounts that create at the same moment may each count the same.
    `is_erased` means that the erasure of the account was requested.
    """

    funds: Funds
    usage: CapUsage
    daily_cap: int | None
    charged: Transfer | None
    idempotency: KeyView
    free_hosts: Sequence[Host]
    is_contended: bool
    creations: DayCreations | None = None
    is_erased: bool = False


@frozen
class Provisioning:
    """A meeting about to be made: its hold, its host if there is one, its lease, its idempotency key.

    `counts_creation` means that the account's creations on the host are limited, and are to be counted.
    `orphan_window_s` opens a check for orphans that is due so long after the lease; none opens none.
    """

    meeting: Meeting
    hold: Hold
    funds: Funds
    usage: CapUsage
    lease: Lease
    claim: Claim | None
    provider_user_id: str
    counts_creation: bool = False
    orphan_window_s: float | None = None


@frozen
class LeaseView:
    """A meeting in progress, fenced: loaded only for the bearer of its lease.

    `hold` is there while it is being made, `charge` once it is paid, `usage` for the cap day of
    whichever is there. `version` names this state of the account: what is decided on it is written
    only if nothing of the account has changed since; it may be `None` under the account's lock.
    """

    token: UUID = field(repr=False)
    version: int | None
    meeting: Meeting
    provider_user_id: str
    funds: Funds
    usage: CapUsage
    hold: Hold | None
    charge: Transfer | None
    claim: Claim | None


@frozen
class MeetingView:
    """A meeting under its account's lock. `is_leased` means that a process works on it now."""

    meeting: Meeting
    idempotency: KeyView
    is_leased: bool


@frozen
class ExpiredLease:
    """A meeting that a process left behind, now under the caller's lease."""

    account_id: UUID
    meeting_id: UUID
    token: UUID = field(repr=False)


@frozen
class DueMeeting:
    """A meeting that the clock must see to, and its host at the provider, empty where there is none.

    `recording_checks` counts how often its recording was looked for since it ended, this time included.
    """

    meeting: Meeting
    provider_user_id: str
    recording_checks: int = 0


class MeetingRepository(Protocol):
    """Meetings, their hosts and their money."""

    async def load_creation(self, query: CreationQuery) -> CreationView:
        """Everything that the decision on a new meeting needs, in one locked read.

        Raises:
            NotFound: no such account.
        """

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        """Write meeting, hold, reservation, lease and claim, and count the creation.

        Returns:
            The state that the bearer of the lease goes on from; none when the host was taken
            meanwhile, and nothing was written.
        """

    async def load_state(self, account_id: UUID, api_key_id: UUID, cap_day: date) -> AccountState:
        """Take the account's lock and read what decisions on its money need, for several of them.

        Raises:
            NotFound: no such account.
        """

    async def save_if_unchanged(
        self, query: CreationQuery, provisioning: Provisioning, state: AccountState
    ) -> LeaseView | None:
        """Write what was decided on an account that is not locked, or on a state of `load_state`.

        Where it is not locked, this is for one call of `at_once`.

        The host is chosen as it is reserved, in the order of `choose_host`: the provisioning names none, the
        returned view does. For a query without `per_day` only.

        Returns:
            As `save_provisioning`. None, and nothing was written, where the account is locked or no longer
            as in the state, the idempotency key or the query's operation is known, a restore may have lost
            the key, the erasure of the account was requested, or no fitting host is free and unlocked: decide
            again under the account's lock.
        """

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        """The meeting in progress, if the lease is still the bearer's."""

    async def save_scheduled(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event], encoded_outcome: bytes | None,
    ) -> int | None:  # fmt: skip
        """The hold becomes the charge, the meeting is there; the key is done, events go out.

        Returns:
            How many deliveries are due now; none when the account or the lease is no longer as the
            view has it, and nothing was written.
        """

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> None:  # fmt: skip
        """The hold and the host are released; the idempotency key may try again.

        What was not made is not counted among the creations of its day, the host's (`Host.given_back`) and
        the account's on that host. What `was_made` stays counted: the provider counted it, too. Meeting,
        funds and usage are given as they are afterwards.

        Args:
            host_unavailable_until: the host gets no new meeting before, where given.
            look_again_s: a check for orphans of it is due then; none closes the one that is open.
            was_made: the provider made it, although it is given up.
        """

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        """Take the account's lock and read a meeting in any state."""

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None:
        """Mark a meeting as being cancelled or ended, under a lease."""

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: "tuple[Funds, CapUsage, Entry] | None",
        events: Sequence[Event], encoded_outcome: bytes | None, *, invalidates_host_key: bool,
    ) -> int:  # fmt: skip
        """Write the end of a cancellation: the refund where there is one, the host free, the key done.

        `invalidates_host_key` as in `save_lifecycle`.
        """

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        """Put a meeting back that the provider would not let go of; its key may try again."""

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """Find the meeting that a provider speaks of, take its account's lock and read it again."""

    async def save_lifecycle(
        self, meeting: Meeting, events: Sequence[Event], *, invalidates_host_key: bool
    ) -> int:
        """Write a status that the provider or the clock brought; a meeting that ended frees its host.

        Args:
            invalidates_host_key: where the host is freed, its key was the meeting's to show: it is forgotten
                and due to be replaced, unless an earlier meeting of the host is not over.

        Returns:
            How many deliveries are due now.
        """

    async def claim_due(self, limit: int, again_s: float) -> Sequence[DueMeeting]:
        """Meetings that the clock must see to.

        At their end, or, where they ended and were sold with a recording, to look for it.

        Each comes again after `again_s`, until it is saved as ended or cancelled, or `schedule_next_check`.
        """

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None = None) -> None:
        """The clock need not see to this meeting again, or not before so many seconds."""

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[ExpiredLease]:
        """Take over meetings whose lease ran out, each under this lease from now on."""

    async def lease_expired(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        """Take over one meeting if its lease ran out."""

    async def take_lease(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        """Take over one meeting in progress from whatever process has its lease, which can write no more."""
