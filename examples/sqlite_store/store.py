"""The store on SQLite: transactions strictly one after another, each all or nothing."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property

from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy

from .connection import Connection, Database
from .deliveries import SqliteDeliveryRepository
from .endpoints import SqliteEndpointRepository
from .host_keys import SqliteHostKeyRepository
from .idempotency import SqliteIdempotencyRepository
from .ledger import SqliteLedgerRepository
from .meetings import SqliteMeetingRepository
from .notes import SqliteNoteRepository
from .orphan_checks import SqliteOrphanCheckRepository
from .provider_events import SqliteProviderEventInbox
from .recordings import SqliteRecordingRepository

__all__ = ["SqliteStore", "SqliteTransaction"]


class SqliteTransaction:
    """The repositories of one open transaction, each made at its first use."""

    def __init__(self, connection: Connection, clock: Clock, entropy: Entropy) -> None:
        self._connection = connection
        self._clock = clock
        self._entropy = entropy

    @cached_property
    def idempotency(self) -> SqliteIdempotencyRepository:
        """Idempotency records."""
        return SqliteIdempotencyRepository(self._connection, self._clock)

    @cached_property
    def ledger(self) -> SqliteLedgerRepository:
        """Money outside meetings."""
        return SqliteLedgerRepository(self._connection, self._clock, self._entropy)

    @cached_property
    def meetings(self) -> SqliteMeetingRepository:
        """Meetings, their hosts and their money."""
        return SqliteMeetingRepository(self._connection, self._clock, self._entropy)

    @cached_property
    def endpoints(self) -> SqliteEndpointRepository:
        """Webhook endpoints."""
        return SqliteEndpointRepository(self._connection, self._clock)

    @cached_property
    def deliveries(self) -> SqliteDeliveryRepository:
        """The outbox as the worker sees it."""
        return SqliteDeliveryRepository(self._connection, self._clock)

    @cached_property
    def inbox(self) -> SqliteProviderEventInbox:
        """Provider webhook events."""
        return SqliteProviderEventInbox(self._connection, self._clock)

    @cached_property
    def recordings(self) -> SqliteRecordingRepository:
        """What was recorded of meetings."""
        return SqliteRecordingRepository(self._connection, self._clock, self._entropy)

    @cached_property
    def notes(self) -> SqliteNoteRepository:
        """Notes and their money."""
        return SqliteNoteRepository(self._connection, self._clock, self._entropy)

    @cached_property
    def host_keys(self) -> SqliteHostKeyRepository:
        """The keys of hosts, and whose are to be replaced."""
        return SqliteHostKeyRepository(self._connection, self._clock)

    @cached_property
    def orphan_checks(self) -> SqliteOrphanCheckRepository:
        """Creations whose provider is still to be looked at."""
        return SqliteOrphanCheckRepository(self._connection, self._clock)


class SqliteStore:
    """Opens transactions on a file.

    Args:
        database: shared with `SqliteRegistry` and `SqliteQueries`.
        clock: by which leases and due times run. Processes that share a file share a machine, and its clock.
        entropy: for the ids of deliveries.
    """

    def __init__(self, database: Database, clock: Clock, entropy: Entropy) -> None:
        self._database = database
        self._clock = clock
        self._entropy = entropy

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[SqliteTransaction]:
        """A clean exit commits, an exception rolls back."""
        async with self._database.transaction() as connection:
            yield SqliteTransaction(connection, self._clock, self._entropy)

    def at_once(self) -> AbstractAsyncContextManager[SqliteTransaction]:
        """A transaction for one call only. Opening one costs no trip here, so it is one like any other."""
        return self.begin()
