"""The store of money, meetings and endpoints: load, decide, save.

A use case opens one transaction, loads what a decision needs under the account's lock, asks the
domain, and saves what was decided. Everything that belongs to an account is changed under that
account's lock, so that for one account the decisions happen one after another. Locks are taken in
the order account, host, endpoint. Leases run by the store's clock, told as `now` in each view.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.deliveries import Delivery
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.events import Event
from meetcore.domain.holds import CapUsage, Hold
from meetcore.domain.hosts import Host
from meetcore.domain.idempotency import IdempotencyRecord
from meetcore.domain.ledger import Entry, Funds, Transfer
from meetcore.domain.meetings import Meeting
from meetcore.ports.deliveries import DeliveryRepository
from meetcore.ports.host_keys import HostKeyRepository
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ProviderEventInbox
from meetcore.ports.recordings import RecordingRepository

__all__ = [
    "Claim",
    "CreationQuery",
    "CreationView",
    "DueMeeting",
    "EndpointRepository",
    "IdempotencyRepository",
    "KeyView",
    "LeaseView",
    "LedgerRepository",
    "LedgerView",
    "MeetingRepository",
    "MeetingView",
    "PostingView",
    "Provisioning",
    "Store",
    "StoreAway",
    "Transaction",
]


class StoreAway(Exception):
    """The store does not answer. Nothing of the transaction was kept, unless the fault hit the commit."""


@frozen
class Claim:
    """An idempotency key taken for work that goes on beyond this transaction."""

    key: str
    fingerprint: bytes
    subject_id: UUID


@frozen
class KeyView:
    """What is remembered of an idempotency key, and the store's time."""

    record: IdempotencyRecord | None
    now: datetime


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
    """The account under its lock, and hosts that can take a meeting, free for the range until the end.

    `is_contended` tells that a fitting host is free but in another transaction's hands: ask again
    with `can_wait_for_host`. `daily_cap` is the key's cap at this moment.
    """

    funds: Funds
    usage: CapUsage
    daily_cap: int | None
    charged: Transfer | None
    idempotency: KeyView
    free_hosts: Sequence[Host]
    is_contended: bool


@frozen
class Provisioning:
    """A meeting about to be made: its hold, its host if there is one, its lease, its idempotency key."""

    meeting: Meeting
    hold: Hold
    funds: Funds
    usage: CapUsage
    lease: Lease
    claim: Claim | None
    provider_user_id: str


@frozen
class LeaseView:
    """A meeting in progress, fenced: loaded only for the bearer of its lease.

    `hold` is there while it is being made, `charge` once it is paid, `usage` for the cap day of
    whichever is there. `version` names this state of the account: what is decided on it is written
    only if nothing of the account has changed since.
    """

    token: UUID = field(repr=False)
    version: int
    meeting: Meeting
    provider_user_id: str
    funds: Funds
    usage: CapUsage
    hold: Hold | None
    charge: Transfer | None
    claim: Claim | None


@frozen
class MeetingView:
    """A meeting under its account's lock. `is_leased` tells that somebody works on it now."""

    meeting: Meeting
    idempotency: KeyView
    is_leased: bool


class IdempotencyRepository(Protocol):
    """What is remembered of requests."""

    async def load(self, account_id: UUID, key: str) -> KeyView:
        """Take the account's lock and read a key.

        Raises:
            NotFound: no such account.
        """
        ...

    async def save(self, account_id: UUID, record: IdempotencyRecord) -> None:
        """Write a key as bound (not done) or done with its answer. Ends any lease on it."""
        ...


class LedgerRepository(Protocol):
    """Money outside meetings: top-ups and adjustments."""

    async def load(self, account_id: UUID, operation: str) -> "LedgerView":
        """Take the account's lock; read its funds and the transfer of this operation, if any.

        Raises:
            NotFound: no such account.
        """
        ...

    async def append(self, funds: Funds, entry: Entry, events: Sequence[Event]) -> int:
        """Append an entry with both legs, write the funds after it, the events and their deliveries.

        Returns:
            How many deliveries are due now.
        """
        ...


@frozen
class LedgerView:
    """An account's funds under its lock. `entry` is that of the operation asked for."""

    funds: Funds
    entry: Entry | None


class MeetingRepository(Protocol):
    """Meetings, their hosts and their money."""

    async def load_creation(self, query: CreationQuery) -> CreationView:
        """Everything that the decision on a new meeting needs, in one locked read.

        Raises:
            NotFound: no such account.
        """
        ...

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        """Write meeting, hold, reservation, lease and claim.

        Returns:
            The state that the bearer of the lease goes on from; none when the host was taken
            meanwhile, and nothing was written.
        """
        ...

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        """The meeting in progress, if the lease is still the bearer's."""
        ...

    async def save_scheduled(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event], answer: bytes | None,
    ) -> int | None:  # fmt: skip
        """The hold becomes the charge, the meeting is there; the key is done, events go out.

        Returns:
            How many deliveries are due now; none when the account or the lease is no longer as the
            view has it, and nothing was written.
        """
        ...

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_rests_until: datetime | None = None, look_again_s: float | None = None,
    ) -> None:  # fmt: skip
        """The hold and the host are released; the idempotency key may try again.

        Args:
            view: the meeting in progress.
            meeting: the same, given up.
            funds: after the release.
            usage: after the release.
            host_rests_until: the host gets no new meeting before, where given.
            look_again_s: when the meeting is due for `claim_due`, where given.
        """
        ...

    async def load_for_cancel(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        """Take the account's lock and read a meeting in any state."""
        ...

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None:
        """Mark a meeting as being cancelled or ended, under a lease."""
        ...

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: "tuple[Funds, CapUsage, Entry] | None",
        events: Sequence[Event], answer: bytes | None, *, spoils_host_key: bool,
    ) -> int:  # fmt: skip
        """Write the end of a cancellation: the refund where there is one, the host free, the key done.

        `spoils_host_key` as in `save_lifecycle`.
        """
        ...

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        """Put a meeting back that the provider would not let go of; its key may try again."""
        ...

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """Find the meeting that a provider speaks of, take its account's lock and read it again."""
        ...

    async def save_lifecycle(
        self, meeting: Meeting, events: Sequence[Event], *, spoils_host_key: bool
    ) -> int:
        """Write a status that the provider or the clock brought; a meeting that ended frees its host.

        Args:
            meeting: with its new status.
            events: to be told.
            spoils_host_key: where the host is freed, its key was the meeting's to show: it is forgotten
                and due to be replaced, unless an earlier meeting of the host is not over.

        Returns:
            How many deliveries are due now.
        """
        ...

    async def claim_due(self, limit: int, again_s: float) -> "Sequence[DueMeeting]":
        """Meetings that the clock must see to: at their end, or once more after they were given up.

        Each comes again after `again_s`, until it is saved as ended or cancelled, or `save_seen_to`.
        """
        ...

    async def save_seen_to(self, meeting: Meeting) -> None:
        """The clock need not see to this meeting again."""
        ...

    async def claim_lapsed(self, limit: int, lease: Lease) -> "Sequence[Lapsed]":
        """Take over meetings whose lease ran out, each under this lease from now on."""
        ...

    async def lease_lapsed(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> "Lapsed | None":
        """Take over one meeting if its lease ran out."""
        ...


@frozen
class Lapsed:
    """A meeting that a process left behind, now under the caller's lease."""

    account_id: UUID
    meeting_id: UUID
    token: UUID = field(repr=False)


@frozen
class DueMeeting:
    """A meeting that the clock must see to, and its host at the provider, empty where there is none."""

    meeting: Meeting
    provider_user_id: str


@frozen
class PostingView:
    """An endpoint that something is to be sent to, locked; `now` is the store's time.

    `earlier` is the delivery that is to be sent again, when one was asked for.
    """

    endpoint: Endpoint
    earlier: Delivery | None
    now: datetime


class EndpointRepository(Protocol):
    """Webhook endpoints of an account."""

    async def lock_account(self, account_id: UUID) -> None:
        """Take the account's lock."""
        ...

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        """The endpoint registered under a normalised URL."""
        ...

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller holds the account's lock and has looked for the URL."""
        ...

    async def load(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint and lock it against deliveries that record their outcome."""
        ...

    async def save(self, endpoint: Endpoint) -> None:
        """Write what an update changed.

        What waits at an endpoint that is inactive now is held; posts in flight keep their claim.
        """
        ...

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        """Forget an endpoint and its deliveries that wait, a claimed one included.

        The caller holds the account's lock. The URL is free from now on; deliveries that are final stay
        until their retention is over.

        Returns:
            False when there was none, and nothing was written.
        """
        ...

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        """Read an endpoint, and one of its deliveries if it is named, and lock the endpoint as `load` does.

        Returns:
            None when there is no such endpoint, or no such delivery to it.
        """
        ...

    async def post_event(self, event: Event, delivery: Delivery) -> None:
        """Write an event and one delivery of it, which nobody's subscription decided."""
        ...

    async def post_again(self, delivery: Delivery) -> bool:
        """Write another delivery of an event that is written: of the same bytes.

        Returns:
            False when the event is past its retention, and nothing was written.
        """
        ...


class Transaction(Protocol):
    """One transaction: what was saved is kept together, or not at all."""

    @property
    def idempotency(self) -> IdempotencyRepository:
        """What is remembered of requests."""
        ...

    @property
    def ledger(self) -> LedgerRepository:
        """Money outside meetings."""
        ...

    @property
    def meetings(self) -> MeetingRepository:
        """Meetings, their hosts and their money."""
        ...

    @property
    def endpoints(self) -> EndpointRepository:
        """Webhook endpoints."""
        ...

    @property
    def deliveries(self) -> DeliveryRepository:
        """The outbox as the worker sees it."""
        ...

    @property
    def inbox(self) -> ProviderEventInbox:
        """What providers told."""
        ...

    @property
    def recordings(self) -> RecordingRepository:
        """What was recorded of meetings."""
        ...

    @property
    def host_keys(self) -> HostKeyRepository:
        """The keys of hosts, and whose are to be replaced."""
        ...


class Store(Protocol):
    """Opens transactions."""

    def at_once(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for one call only: each call on it is kept, or not, by itself.

        For a write that carries its own condition, such as `save_scheduled`: it saves the trips of
        opening and committing.

        Raises:
            StoreAway: on entry or on the call.
        """
        ...

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """A clean exit commits, an exception rolls back.

        Raises:
            StoreAway: on entry, on any call, or on exit.
        """
        ...
