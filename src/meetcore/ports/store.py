"""The store of money, meetings and endpoints: load, decide, save.

A use case opens one transaction, loads what a decision needs under a lock, asks the domain, and saves what
was decided. Under the lock of the account are changed: its money, its API keys, its idempotency keys, the
states of its meetings, recordings and notes, and the set of its endpoints; these decisions happen one after
another. A load takes the lock where its docstring says so, else `lock_account` comes first. The settings of
an endpoint and its deliveries are changed under the endpoint's lock. Progress of work that one process at a
time does (deliveries, notes, mails, provider events, checks) is written under a lease, by its token.

Locks are taken in the order account, host, endpoint, mails. Leases run by the store's clock, `now` in each
view.
"""

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event
from meetcore.ports.audit_log import AuditLog
from meetcore.ports.deliveries import DeliveryRepository
from meetcore.ports.erasures import ErasureRepository
from meetcore.ports.host_keys import HostKeyRepository
from meetcore.ports.idempotency import IdempotencyRepository
from meetcore.ports.mails import MailRepository
from meetcore.ports.meetings import MeetingRepository
from meetcore.ports.members import MemberRepository
from meetcore.ports.notes import NoteRepository
from meetcore.ports.operators import OperatorRepository
from meetcore.ports.orphan_checks import OrphanCheckRepository
from meetcore.ports.passkeys import PasskeyRepository
from meetcore.ports.postings import PostingRepository
from meetcore.ports.proposals import ProposalRepository
from meetcore.ports.provider_events import ProviderEventInbox
from meetcore.ports.recordings import RecordingRepository
from meetcore.ports.registry import RegistryRepository
from meetcore.ports.restores import RestoreRepository
from meetcore.ports.sign_in import SignInRepository

__all__ = [
    "CommitLost",
    "ConnectionLost",
    "EndpointRepository",
    "OutcomeUnknown",
    "PostingView",
    "Store",
    "StoreFenced",
    "StoreFull",
    "StoreLoginRefused",
    "StoreReadOnly",
    "StoreSessionRefused",
    "StoreUnavailable",
    "Transaction",
]


class StoreUnavailable(Exception):
    """The store does not answer.

    Nothing of the transaction was kept, unless it is `OutcomeUnknown`.
    """


class StoreLoginRefused(StoreUnavailable):
    """The store answers, and refuses this name, password or database."""


class StoreSessionRefused(StoreUnavailable):
    """What answers is a pooler, which refuses the settings of a session."""


class StoreFull(StoreUnavailable):
    """The store answers, and has no connection left to give."""


class StoreReadOnly(StoreUnavailable):
    """The store answers and takes no writes, as a standby does. Nothing was kept."""


class StoreFenced(StoreUnavailable):
    """The store was restored and is not released: it takes no writes of the service (`ports.restores`)."""


class ConnectionLost(StoreUnavailable):
    """The connection ended before the commit; another may work at once. Nothing was kept."""


class OutcomeUnknown(StoreUnavailable):
    """The store did not answer a commit, or a call of `at_once`, in time: it may be kept, now or later."""


class CommitLost(OutcomeUnknown):
    """The connection ended during the commit of `begin`, or a call of `at_once`, which commits by itself.

    Another connection may work at once.
    """


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

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        """The endpoint registered under a normalised URL."""

    async def count(self, account_id: UUID) -> int:
        """How many endpoints the account has, inactive ones included; the caller holds its lock."""

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller holds the account's lock and has looked for the URL."""

    async def load_locked(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint and lock it against deliveries that record their outcome."""

    async def save(self, endpoint: Endpoint) -> None:
        """Write what an update changed.

        What waits at an endpoint that is inactive now is held; posts in flight keep their claim.
        """

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        """Forget an endpoint and its deliveries that wait, a claimed one included.

        The caller holds the account's lock. The URL is free from now on; deliveries that are final stay
        until their retention is over.

        Returns:
            False when there was none, and nothing was written.
        """

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        """Read an endpoint and, if named, one of its deliveries; lock the endpoint as `load_locked` does.

        Returns:
            None when there is no such endpoint, or no such delivery to it.
        """

    async def post_event(self, event: Event, delivery: Delivery) -> None:
        """Write an event and one delivery of it, whatever the subscriptions."""

    async def post_again(self, delivery: Delivery) -> bool:
        """Write another delivery of an event that is written: of the same bytes.

        Returns:
            False when the event is past its retention, and nothing was written.
        """


class Transaction(Protocol):
    """One transaction: what was saved is kept together, or not at all."""

    async def lock_account(self, account_id: UUID) -> None:
        """Take the account's lock, for a decision whose reads do not take it.

        Raises:
            NotFound: no such account.
        """

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        """Whether a meeting, recording or note of the account was removed past its retention."""

    @property
    def registry(self) -> RegistryRepository:
        """Accounts, keys and hosts, to change them."""

    @property
    def audit_log(self) -> AuditLog:
        """What was changed, by whom."""

    @property
    def members(self) -> MemberRepository:
        """Users, memberships and invitations."""

    @property
    def sign_in(self) -> SignInRepository:
        """One-time links and sessions."""

    @property
    def operators(self) -> OperatorRepository:
        """Who may use the console."""

    @property
    def proposals(self) -> ProposalRepository:
        """Credits that operators propose to move."""

    @property
    def passkeys(self) -> PasskeyRepository:
        """Passkeys, and the challenges that they answer."""

    @property
    def idempotency(self) -> IdempotencyRepository:
        """What is remembered of requests."""

    @property
    def postings(self) -> PostingRepository:
        """Money outside meetings."""

    @property
    def meetings(self) -> MeetingRepository:
        """Meetings, their hosts and their money."""

    @property
    def endpoints(self) -> EndpointRepository:
        """Webhook endpoints."""

    @property
    def deliveries(self) -> DeliveryRepository:
        """The outbox as the worker sees it."""

    @property
    def inbox(self) -> ProviderEventInbox:
        """The events of providers."""

    @property
    def recordings(self) -> RecordingRepository:
        """What was recorded of meetings."""

    @property
    def notes(self) -> NoteRepository:
        """Notes and their money."""

    @property
    def host_keys(self) -> HostKeyRepository:
        """The keys of hosts, and whose are to be replaced."""

    @property
    def orphan_checks(self) -> OrphanCheckRepository:
        """Creations whose provider is still to be looked at."""

    @property
    def erasures(self) -> ErasureRepository:
        """Accounts that are erased."""

    @property
    def mails(self) -> MailRepository:
        """The outbox of mails."""

    @property
    def restores(self) -> RestoreRepository:
        """Restores of the store."""


class Store(Protocol):
    """Opens transactions."""

    def at_once(self) -> AbstractAsyncContextManager[Transaction]:
        """Give repositories without a common transaction: each call on them commits by itself.

        For a single write that carries its own condition, such as `save_scheduled`: it saves the round trips
        of BEGIN and COMMIT.

        Raises:
            OutcomeUnknown: on the call.
            StoreUnavailable: on entry or on the call.
        """

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """A clean exit commits, an exception rolls back.

        Raises:
            OutcomeUnknown: on exit.
            StoreUnavailable: on entry, on any call, or on exit.
        """
