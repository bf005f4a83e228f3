"""What the author of a store fills, so that the suites can act on it and look behind its ports.

::

    LedgerRig        accounts, transactions with a ledger, and a look at its entries: a ledger alone
    Rig              transactions, the operator's records, hosts put in place: every other suite needs these
    StoreRig         and a view of holds and deliveries that no port returns: the repositories
    QueriesRig       and the cheap reads
    RegistryRig      and what a broken constraint raises
    HousekeepingRig  and keys that grow old
    KeyUsesRig       and the last uses of keys
    RequestLogRig    and where requests are kept
    LedgerAuditRig   and a way to tamper with an entry
    FiguresRig       and the figures that an operator watches
    RetentionRig     and the removal of what is past its retention
    VerificationRig  and how far the verification of the ledger is
    PartitionsRig    and where events and deliveries are kept
    RestoresRig      and a store of an operator, with what enforces the fence
    FullRig          all of them: one class for one store

A suite asks only for what it uses. `meetcore.testing.memory_rig.MemoryRig` fills all of it.

The fixture `rig` gives each test a rig on a store in which no earlier test has left hosts, meetings,
endpoints or deliveries, and which no other test uses meanwhile. Accounts and their ledgers may stay:
every test opens its own. The suites race up to twenty transactions; a pool may make them queue, but
must not refuse them.
"""

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import Enum
from typing import Protocol
from uuid import UUID

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money.ledger import Entry
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.ports.audit import LedgerAudit
from meetcore.ports.figures import FigureReader
from meetcore.ports.housekeeping import Housekeeping
from meetcore.ports.key_uses import KeyUses
from meetcore.ports.ledger_verification import VerificationLog
from meetcore.ports.partitions import Partitions
from meetcore.ports.postings import PostingRepository
from meetcore.ports.queries import Queries
from meetcore.ports.registry import NewAccount, Registry
from meetcore.ports.request_log import RequestLog
from meetcore.ports.restores import Fence
from meetcore.ports.retention import RetentionStore
from meetcore.ports.store import Store


class AccountRegistry(Protocol):
    """The one operation of `meetcore.ports.registry.RegistryRepository` that a ledger needs."""

    async def add_account(self, account: NewAccount) -> None:
        """Open an active account with empty funds."""


class LedgerTransaction(Protocol):
    """The part of `meetcore.ports.store.Transaction` that a ledger needs."""

    @property
    def registry(self) -> AccountRegistry:
        """Where accounts are opened."""

    @property
    def postings(self) -> PostingRepository:
        """Money outside meetings."""


class LedgerStore(Protocol):
    """The part of `meetcore.ports.store.Store` that a ledger needs."""

    def begin(self) -> AbstractAsyncContextManager[LedgerTransaction]:
        """A clean exit commits, an exception rolls back."""


class LedgerAccess(Protocol):
    """A ledger to work with: every store is one."""

    @property
    def store(self) -> LedgerStore:
        """The transactions under test."""


class LedgerRig(LedgerAccess, Protocol):
    """For `LedgerContract`."""

    @property
    def refusal(self) -> type[Exception]:
        """What the store raises where a constraint is broken: a second entry of one number, say.

        Not an error of the domain: only a defect in the code that calls gets this far.
        """

    async def until_lock_contended(self) -> None:
        """Return once another transaction waits for a lock that an open one holds.

        Called by the holder while it is open. Return at once where a transaction waits before it
        begins. Ask the store in a loop with a deadline; a wait of fixed length proves nothing.
        """

    async def entries(self, account_id: UUID) -> list[Entry]:
        """An account's committed entries in the order of their numbers, read as they are stored."""

    async def legs(self, account_id: UUID) -> list[tuple[str, int]]:
        """Both legs of each of an account's transfers, in any order.

        Returns:
            The value of the book and the credits, negative where they leave it.
        """

    async def holds(self, account_id: UUID) -> list[int]:
        """The credits of each of an account's open holds; none where a store keeps no holds."""


class Rig(LedgerAccess, Protocol):
    """The least that a suite needs: a store to work with."""

    @property
    def store(self) -> Store:
        """The transactions under test."""

    @property
    def registry(self) -> Registry:
        """The operator's records of the same store."""

    async def put_hosts(self, *hosts: Host) -> None:
        """Put hosts in place exactly as they are, uses and activity included.

        A host that is there under the same id takes the new values and keeps its reservations.
        """


class QueriesRig(Rig, Protocol):
    """For `QueriesContract`."""

    @property
    def queries(self) -> Queries:
        """The cheap reads of the same store."""


class RegistryRig(Rig, Protocol):
    """For `RegistryContract`."""

    @property
    def refusal(self) -> type[Exception]:
        """What the store raises where a constraint is broken: a second account of one id, say.

        Not an error of the domain: only a defect in the code that calls gets this far.
        """


class StoreRig(QueriesRig, RegistryRig, LedgerRig, Protocol):
    """For the suites of the repositories."""

    def now(self) -> datetime:
        """The store's time, aware, in UTC, at most a moment old."""

    async def reset(self) -> None:
        """Delete every host, meeting, reservation, recording, note, endpoint, event, delivery and attempt.

        And every provider event, transcript and mail.

        Accounts, keys and the ledger may stay.
        """

    async def deliveries(self, account_id: UUID) -> dict[UUID, Delivery]:
        """An account's deliveries by their ids, in any state."""

    async def attempts(self, account_id: UUID) -> list[int]:
        """The number of every attempt recorded for any delivery of an account."""


class HousekeepingRig(Rig, Protocol):
    """For `HousekeepingContract`."""

    @property
    def housekeeping(self) -> Housekeeping:
        """The housekeeping of the same store."""

    async def age_keys(self, seconds: float) -> None:
        """Make every idempotency key, with its lease, older by so many seconds.

        Moving the store's clock does it too, where the store's clock can be moved.
        """


class KeyUsesRig(Rig, Protocol):
    """For `KeyUsesContract`."""

    @property
    def key_uses(self) -> KeyUses:
        """The last uses of keys of the same store."""


class RequestLogRig(QueriesRig, HousekeepingRig, Protocol):
    """For `RequestLogContract`."""

    @property
    def request_log(self) -> RequestLog:
        """Where requests are kept in the same store."""


class Tampering(Enum):
    """What an attacker may do to a ledger. `number` is the entry's, where there is one."""

    BALANCE_AFTER = "the entry's balance is one credit too high"
    AMOUNT = "the transfer of the entry, and its legs, move one credit more"
    REVERSES = "the transfer of the entry reverses one that is not there"
    GONE = "the entry is not there, nor is its transfer"
    BALANCE = "the account has one credit more"
    HELD = "one credit more is held of the account"
    USAGE = "every key spent one credit more on every day on which it spent any"


class LedgerAuditRig(Rig, Protocol):
    """For `LedgerAuditContract`."""

    @property
    def audit(self) -> LedgerAudit:
        """The reading of the whole ledger of the same store."""

    async def tamper(self, account_id: UUID, number: int, tampering: Tampering) -> None:
        """Change what is stored of an account, past every guard, and nothing but what `tampering` names.

        As an attacker with the database's password would: triggers off, constraints got round.
        """


class FiguresRig(StoreRig, Protocol):
    """For `FigureReaderContract`."""

    @property
    def figures(self) -> FigureReader:
        """The figures of the same store."""


class VerificationRig(FiguresRig, Protocol):
    """For `VerificationLogContract`. `reset` forgets the run, too."""

    @property
    def verification_log(self) -> VerificationLog:
        """How far the verification of the ledger is, in the same store."""


class RetentionRig(FiguresRig, Protocol):
    """For `RetentionStoreContract`. `reset` lets every round begin anew."""

    @property
    def retention(self) -> RetentionStore:
        """The removal of what is past its retention, of the same store."""

    async def begin_rounds(self) -> None:
        """Make the next round of every removal due."""


class RestoresRig(StoreRig, Protocol):
    """For `RestoreRepositoryContract`. `reset` forgets the restores, too, fenced or not."""

    @property
    def operator_store(self) -> Store:
        """The same store as an operator's commands have it: it writes while a restore is fenced."""

    @property
    def fence(self) -> Fence:
        """What enforces the fence in the same store."""


class PartitionsRig(RestoresRig, FiguresRig, QueriesRig, Protocol):
    """For `PartitionsContract`. The store is one in which no partition was dropped yet."""

    @property
    def partitions(self) -> Partitions:
        """Where events, deliveries and attempts of the same store are kept."""


class FullRig(
    PartitionsRig,
    RetentionRig,
    VerificationRig,
    RestoresRig,
    FiguresRig,
    StoreRig,
    RequestLogRig,
    KeyUsesRig,
    LedgerAuditRig,
    Protocol,
):
    """Everything about one store, for all the suites."""
