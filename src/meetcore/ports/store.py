"""The store: load, decide, save in one transaction.

A use case loads what a decision needs under a lock, asks the domain, and saves what was decided. The
account's lock orders changes of its money, API keys, idempotency keys, set of endpoints, and of the states of
its meetings, recordings and notes. A load takes the lock where its docstring says so, else `lock_account`
comes first. The endpoint's lock orders changes of its settings and its deliveries. Work that one process at a
time does (deliveries, notes, mails, provider events, checks) is written under a lease and fenced by its
token: with a lost lease nothing is written.

Locks are taken in the order account, meeting or note, host, endpoint, mails. Leases run by the store's clock,
`now` in each view. A `claim` returns the work that is due, the longest due first; it is due again when
the lease expires. `renew` extends a lease to so many seconds from now, `postpone` ends one, and the work is
due after so many. A save that takes events returns how many of their deliveries are due now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from meetcore.ports.mails import MailRepository
    from meetcore.ports.meetings import (
        HostKeyRepository,
        MeetingRepository,
        OrphanCheckRepository,
        ProviderEventInbox,
    )
    from meetcore.ports.members import (
        AuditLog,
        MemberRepository,
        OperatorRepository,
        PasskeyRepository,
        SignInRepository,
    )
    from meetcore.ports.money import PostingRepository, ProposalRepository
    from meetcore.ports.notes import NoteRepository, RecordingRepository
    from meetcore.ports.payments import PaymentRepository
    from meetcore.ports.requests import (
        ErasureRepository,
        GrantRepository,
        IdempotencyRepository,
        RegistryRepository,
    )
    from meetcore.ports.webhooks import DeliveryRepository, EndpointRepository


class StoreUnavailable(Exception):
    """The store does not answer. Nothing of the transaction was kept, except with `OutcomeUnknown`."""


class StoreLoginRefused(StoreUnavailable):
    """The store refuses this name, password or database."""


class StoreSessionRefused(StoreUnavailable):
    """A pooler in front of the store refuses the settings of a session."""


class StoreFull(StoreUnavailable):
    """The store has no connection left to give."""


class StoreReadOnly(StoreUnavailable):
    """The store takes no writes, as a standby does."""


class ConnectionLost(StoreUnavailable):
    """The connection ended before the commit; another may work at once."""


class OutcomeUnknown(StoreUnavailable):
    """The store did not answer a commit, or a call of `at_once`, in time: it may be kept, now or later."""


class CommitLost(OutcomeUnknown):
    """The connection ended during a commit, or a call of `at_once`; another may work at once."""


class Transaction(Protocol):
    """One transaction: everything that was saved is kept, or nothing."""

    async def lock_account(self, account_id: UUID) -> None:
        """Take the account's lock, for a decision whose reads do not take it. Raises `NotFound`."""

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        """Return whether a meeting, recording or note of the account was removed past its retention."""

    @property
    def registry(self) -> RegistryRepository: ...
    @property
    def grants(self) -> GrantRepository: ...
    @property
    def audit_log(self) -> AuditLog: ...
    @property
    def members(self) -> MemberRepository: ...
    @property
    def sign_in(self) -> SignInRepository: ...
    @property
    def operators(self) -> OperatorRepository: ...
    @property
    def proposals(self) -> ProposalRepository: ...
    @property
    def payments(self) -> PaymentRepository: ...
    @property
    def passkeys(self) -> PasskeyRepository: ...
    @property
    def idempotency(self) -> IdempotencyRepository: ...
    @property
    def postings(self) -> PostingRepository: ...
    @property
    def meetings(self) -> MeetingRepository: ...
    @property
    def endpoints(self) -> EndpointRepository: ...
    @property
    def deliveries(self) -> DeliveryRepository: ...
    @property
    def inbox(self) -> ProviderEventInbox: ...
    @property
    def recordings(self) -> RecordingRepository: ...
    @property
    def notes(self) -> NoteRepository: ...
    @property
    def host_keys(self) -> HostKeyRepository: ...
    @property
    def orphan_checks(self) -> OrphanCheckRepository: ...
    @property
    def erasures(self) -> ErasureRepository: ...
    @property
    def mails(self) -> MailRepository: ...


class Store(Protocol):
    """Opens transactions. Entry, calls and exit raise `StoreUnavailable`."""

    def at_once(self) -> AbstractAsyncContextManager[Transaction]:
        """Open repositories without a common transaction: each call commits by itself.

        For a single write that carries its own condition, such as `save_scheduled`: it saves the round trips
        of BEGIN and COMMIT. The call raises `OutcomeUnknown`.
        """

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction: a clean exit commits or raises `OutcomeUnknown`, an exception rolls back."""
