"""The store on PostgreSQL: one connection of the pool for each transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import get_type_hints
from uuid import UUID

import psycopg

from meetcore.adapters.postgres.audit_log import PostgresAuditLog
from meetcore.adapters.postgres.deliveries.repository import PostgresDeliveryRepository
from meetcore.adapters.postgres.endpoints.repository import PostgresEndpointRepository
from meetcore.adapters.postgres.erasures import PostgresErasureRepository
from meetcore.adapters.postgres.hosts.keys import PostgresHostKeyRepository
from meetcore.adapters.postgres.idempotency import PostgresIdempotencyRepository
from meetcore.adapters.postgres.inbox.events import PostgresProviderEventInbox
from meetcore.adapters.postgres.ledger.post import PostgresPostingRepository
from meetcore.adapters.postgres.mails.repository import PostgresMailRepository
from meetcore.adapters.postgres.meetings.orphans import PostgresOrphanCheckRepository
from meetcore.adapters.postgres.meetings.repository import PostgresMeetingRepository
from meetcore.adapters.postgres.meetings.seal import seal_join_urls
from meetcore.adapters.postgres.members.operators import PostgresOperatorRepository
from meetcore.adapters.postgres.members.passkeys import PostgresPasskeyRepository
from meetcore.adapters.postgres.members.proposals import PostgresProposalRepository
from meetcore.adapters.postgres.members.repository import PostgresMemberRepository
from meetcore.adapters.postgres.members.sign_in import PostgresSignInRepository
from meetcore.adapters.postgres.notes.repository import PostgresNoteRepository
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.recordings.repository import PostgresRecordingRepository
from meetcore.adapters.postgres.registry import PostgresRegistryRepository
from meetcore.adapters.postgres.repository import Repository
from meetcore.adapters.postgres.restores import PostgresRestoreRepository
from meetcore.adapters.postgres.retention import WAS_REMOVED
from meetcore.domain.errors import NotFound
from meetcore.ports.cipher import Cipher
from meetcore.ports.store import CommitLost, ConnectionLost, OutcomeUnknown, StoreUnavailable

# Takes the account's lock and raises the version, so that waiting readers read again.
_LOCK_ACCOUNT = "UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s RETURNING id"


@cache
def _repositories() -> dict[str, type[Repository]]:
    return get_type_hints(PostgresTransaction)


class PostgresTransaction:
    """The repositories of one open transaction, each made when it is first used: most transactions need one or two."""

    registry: PostgresRegistryRepository
    audit_log: PostgresAuditLog
    members: PostgresMemberRepository
    sign_in: PostgresSignInRepository
    operators: PostgresOperatorRepository
    proposals: PostgresProposalRepository
    passkeys: PostgresPasskeyRepository
    idempotency: PostgresIdempotencyRepository
    postings: PostgresPostingRepository
    meetings: PostgresMeetingRepository
    orphan_checks: PostgresOrphanCheckRepository
    host_keys: PostgresHostKeyRepository
    endpoints: PostgresEndpointRepository
    deliveries: PostgresDeliveryRepository
    inbox: PostgresProviderEventInbox
    recordings: PostgresRecordingRepository
    notes: PostgresNoteRepository
    erasures: PostgresErasureRepository
    mails: PostgresMailRepository
    restores: PostgresRestoreRepository

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    def __getattr__(self, name: str) -> Repository:
        made = _repositories().get(name)
        if made is None:
            raise AttributeError(name)
        repository = made(self._connection, self._cipher)
        setattr(self, name, repository)
        return repository

    async def lock_account(self, account_id: UUID) -> None:
        cursor = await self._connection.execute(_LOCK_ACCOUNT, {"account_id": account_id})
        if await cursor.fetchone() is None:
            raise NotFound("No account with this id.")

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        named = {"account_id": account_id, "id": record_id}
        return await (await self._connection.execute(WAS_REMOVED, named)).fetchone() is not None


class PostgresStore:
    """Opens transactions on a pool. READ COMMITTED: the account's lock orders what must be ordered."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self._pool = pool
        self._cipher = cipher

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        """A clean exit commits, an exception rolls back."""
        fault: StoreUnavailable | None = None
        is_sent = False
        with self._pool.tracing.span("transaction"), translated():
            try:
                async with self._pool.connection() as connection:
                    try:
                        async with connection.transaction():
                            yield PostgresTransaction(connection, self._cipher)
                            is_sent = not connection.is_overdue
                    except psycopg.Error as error:
                        fault = _fault_of(connection, error, is_sent=is_sent)
                        raise
            except psycopg.Error as error:
                if fault is None:
                    raise
                raise fault from error

    async def seal_join_urls(self) -> int:
        """Seal links of meetings that an earlier release wrote in the clear; how many were sealed."""
        return await seal_join_urls(self._pool, self._cipher)

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[PostgresTransaction]:
        """A transaction for one call only: the statement commits by itself."""
        fault: StoreUnavailable | None = None
        with self._pool.tracing.span("transaction"), translated():
            try:
                async with self._pool.connection() as connection:
                    try:
                        yield PostgresTransaction(connection, self._cipher)
                    except psycopg.Error as error:
                        fault = _fault_of(connection, error, is_sent=True)
                        raise
            except psycopg.Error as error:
                if fault is None:
                    raise
                raise fault from error


def _fault_of(connection: Connection, error: psycopg.Error, *, is_sent: bool) -> StoreUnavailable | None:
    """Return what an error says of the outcome; `None` for one that is translated as every other.

    Asked while the connection is still lent: later it may be another transaction's.

    Args:
        is_sent: whether the server may have been asked to commit.
    """
    if connection.is_overdue:
        return OutcomeUnknown("the database did not answer in time") if is_sent else None
    if not connection.was_cut(error):
        return None
    return (CommitLost if is_sent else ConnectionLost)("the connection was lost")
