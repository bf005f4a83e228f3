"""The store in memory: transactions strictly one after another, each all or nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from meetcore.adapters.memory.audit_log import MemoryAuditLog
from meetcore.adapters.memory.deliveries import MemoryDeliveryRepository
from meetcore.adapters.memory.endpoints import MemoryEndpointRepository
from meetcore.adapters.memory.erasures import MemoryErasureRepository
from meetcore.adapters.memory.host_keys import MemoryHostKeyRepository
from meetcore.adapters.memory.idempotency import MemoryIdempotencyRepository
from meetcore.adapters.memory.ledger import MemoryPostingRepository
from meetcore.adapters.memory.mails import MemoryMailRepository
from meetcore.adapters.memory.meetings import MemoryMeetingRepository
from meetcore.adapters.memory.members import MemoryMemberRepository
from meetcore.adapters.memory.notes import MemoryNoteRepository
from meetcore.adapters.memory.operators import MemoryOperatorRepository
from meetcore.adapters.memory.orphan_checks import MemoryOrphanCheckRepository
from meetcore.adapters.memory.passkeys import MemoryPasskeyRepository
from meetcore.adapters.memory.proposals import MemoryProposalRepository
from meetcore.adapters.memory.provider_events import MemoryProviderEventInbox
from meetcore.adapters.memory.recordings import MemoryRecordingRepository
from meetcore.adapters.memory.registry import MemoryRegistryRepository
from meetcore.adapters.memory.restores import MemoryRestoreRepository
from meetcore.adapters.memory.sign_in import MemorySignInRepository
from meetcore.adapters.memory.state import MemoryState, Tables, account_of
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.store import StoreFenced


class MemoryTransaction:
    """The repositories of one open transaction."""

    def __init__(self, tables: Tables, clock: Clock, entropy: Entropy) -> None:
        self._tables = tables
        self._registry = MemoryRegistryRepository(tables)
        self._audit_log = MemoryAuditLog(tables)
        self._members = MemoryMemberRepository(tables)
        self._sign_in = MemorySignInRepository(tables)
        self._operators = MemoryOperatorRepository(tables)
        self._proposals = MemoryProposalRepository(tables)
        self._passkeys = MemoryPasskeyRepository(tables)
        self._idempotency = MemoryIdempotencyRepository(tables, clock)
        self._postings = MemoryPostingRepository(tables, clock, entropy)
        self._meetings = MemoryMeetingRepository(tables, clock, entropy)
        self._endpoints = MemoryEndpointRepository(tables, clock)
        self._deliveries = MemoryDeliveryRepository(tables, clock)
        self._inbox = MemoryProviderEventInbox(tables, clock)
        self._recordings = MemoryRecordingRepository(tables, clock, entropy)
        self._notes = MemoryNoteRepository(tables, clock, entropy)
        self._host_keys = MemoryHostKeyRepository(tables, clock)
        self._orphan_checks = MemoryOrphanCheckRepository(tables, clock)
        self._erasures = MemoryErasureRepository(tables)
        self._mails = MemoryMailRepository(tables, clock)
        self._restores = MemoryRestoreRepository(tables, clock)

    async def lock_account(self, account_id: UUID) -> None:
        """Make sure that the account exists; the transaction is the lock."""
        account_of(self._tables, account_id)

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        return (account_id, record_id) in self._tables.removed

    @property
    def registry(self) -> MemoryRegistryRepository:
        return self._registry

    @property
    def audit_log(self) -> MemoryAuditLog:
        return self._audit_log

    @property
    def members(self) -> MemoryMemberRepository:
        return self._members

    @property
    def sign_in(self) -> MemorySignInRepository:
        return self._sign_in

    @property
    def operators(self) -> MemoryOperatorRepository:
        return self._operators

    @property
    def passkeys(self) -> MemoryPasskeyRepository:
        return self._passkeys

    @property
    def proposals(self) -> MemoryProposalRepository:
        return self._proposals

    @property
    def idempotency(self) -> MemoryIdempotencyRepository:
        return self._idempotency

    @property
    def postings(self) -> MemoryPostingRepository:
        return self._postings

    @property
    def meetings(self) -> MemoryMeetingRepository:
        return self._meetings

    @property
    def endpoints(self) -> MemoryEndpointRepository:
        return self._endpoints

    @property
    def deliveries(self) -> MemoryDeliveryRepository:
        return self._deliveries

    @property
    def inbox(self) -> MemoryProviderEventInbox:
        return self._inbox

    @property
    def recordings(self) -> MemoryRecordingRepository:
        return self._recordings

    @property
    def notes(self) -> MemoryNoteRepository:
        return self._notes

    @property
    def host_keys(self) -> MemoryHostKeyRepository:
        return self._host_keys

    @property
    def orphan_checks(self) -> MemoryOrphanCheckRepository:
        return self._orphan_checks

    @property
    def erasures(self) -> MemoryErasureRepository:
        return self._erasures

    @property
    def mails(self) -> MemoryMailRepository:
        return self._mails

    @property
    def restores(self) -> MemoryRestoreRepository:
        return self._restores


class MemoryStore:
    """Opens transactions on a state.

    Args:
        clock: by which leases and due times run.
        entropy: for the ids of deliveries.
        state: shared with `MemoryQueries` and `MemoryRegistry`; an empty one when `None`.
        passes_fence: whether it is an operator's, whose changes go on while a restore is fenced.
    """

    def __init__(
        self, clock: Clock, entropy: Entropy, state: MemoryState | None = None, *, passes_fence: bool = False
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._passes_fence = passes_fence
        self.state = MemoryState() if state is None else state

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[MemoryTransaction]:
        async with self.state.change() as tables:
            if not self._passes_fence and any(each.is_fenced for each in tables.restores.values()):
                raise StoreFenced("a restore is not released")
            yield MemoryTransaction(tables, self._clock, self._entropy)

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[MemoryTransaction]:
        async with self.begin() as tx:
            yield tx
