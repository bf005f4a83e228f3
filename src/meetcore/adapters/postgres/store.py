"""The store on PostgreSQL: one connection of the pool for each transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final
from uuid import UUID

import psycopg

from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.ports.runtime import Cipher
from meetcore.ports.store import CommitLost, ConnectionLost, OutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from meetcore.adapters.postgres.mails import PostgresMailRepository
    from meetcore.adapters.postgres.meetings.lifecycle import PostgresMeetingRepository
    from meetcore.adapters.postgres.meetings.upkeep import (
        PostgresHostKeyRepository,
        PostgresOrphanCheckRepository,
        PostgresProviderEventInbox,
    )
    from meetcore.adapters.postgres.members.audit import PostgresAuditLog
    from meetcore.adapters.postgres.members.members import (
        PostgresMemberRepository,
        PostgresOperatorRepository,
    )
    from meetcore.adapters.postgres.members.sign_in import PostgresPasskeyRepository, PostgresSignInRepository
    from meetcore.adapters.postgres.money.postings import (
        PostgresPostingRepository,
        PostgresProposalRepository,
    )
    from meetcore.adapters.postgres.notes.recordings import PostgresRecordingRepository
    from meetcore.adapters.postgres.notes.work import PostgresNoteRepository
    from meetcore.adapters.postgres.payments.payments import PostgresPaymentRepository
    from meetcore.adapters.postgres.requests.grants import PostgresGrantRepository
    from meetcore.adapters.postgres.requests.idempotency import PostgresIdempotencyRepository
    from meetcore.adapters.postgres.requests.registry import PostgresRegistryRepository
    from meetcore.adapters.postgres.requests.retention import PostgresErasureRepository
    from meetcore.adapters.postgres.webhooks.deliveries import PostgresDeliveryRepository
    from meetcore.adapters.postgres.webhooks.endpoints import PostgresEndpointRepository

_REPOSITORIES: Final = {
    "registry": "requests.registry:PostgresRegistryRepository",
    "grants": "requests.grants:PostgresGrantRepository",
    "audit_log": "members.audit:PostgresAuditLog",
    "members": "members.members:PostgresMemberRepository",
    "sign_in": "members.sign_in:PostgresSignInRepository",
    "operators": "members.members:PostgresOperatorRepository",
    "proposals": "money.postings:PostgresProposalRepository",
    "payments": "payments.payments:PostgresPaymentRepository",
    "passkeys": "members.sign_in:PostgresPasskeyRepository",
    "idempotency": "requests.idempotency:PostgresIdempotencyRepository",
    "postings": "money.postings:PostgresPostingRepository",
    "meetings": "meetings.lifecycle:PostgresMeetingRepository",
    "orphan_checks": "meetings.upkeep:PostgresOrphanCheckRepository",
    "host_keys": "meetings.upkeep:PostgresHostKeyRepository",
    "endpoints": "webhooks.endpoints:PostgresEndpointRepository",
    "deliveries": "webhooks.deliveries:PostgresDeliveryRepository",
    "inbox": "meetings.upkeep:PostgresProviderEventInbox",
    "recordings": "notes.recordings:PostgresRecordingRepository",
    "notes": "notes.work:PostgresNoteRepository",
    "erasures": "requests.retention:PostgresErasureRepository",
    "mails": "mails:PostgresMailRepository",
}

# Takes the account's lock and raises the version, so that waiting readers read again.
_LOCK_ACCOUNT = "UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s RETURNING id"


@cache
def _repository(name: str) -> type[Repository] | None:
    if name not in _REPOSITORIES:
        return None
    found: type[Repository] = resolve_name(f"meetcore.adapters.postgres.{_REPOSITORIES[name]}")
    return found


def load_repositories() -> None:
    """Import every repository now, as a service does: the first transaction that needs one is not kept waiting."""
    for name in _REPOSITORIES:
        _repository(name)


class PostgresTransaction:
    """The repositories of one open transaction, each made when it is first used: most transactions need one or two."""

    registry: "PostgresRegistryRepository"
    grants: "PostgresGrantRepository"
    audit_log: "PostgresAuditLog"
    members: "PostgresMemberRepository"
    sign_in: "PostgresSignInRepository"
    operators: "PostgresOperatorRepository"
    proposals: "PostgresProposalRepository"
    payments: "PostgresPaymentRepository"
    passkeys: "PostgresPasskeyRepository"
    idempotency: "PostgresIdempotencyRepository"
    postings: "PostgresPostingRepository"
    meetings: "PostgresMeetingRepository"
    orphan_checks: "PostgresOrphanCheckRepository"
    host_keys: "PostgresHostKeyRepository"
    endpoints: "PostgresEndpointRepository"
    deliveries: "PostgresDeliveryRepository"
    inbox: "PostgresProviderEventInbox"
    recordings: "PostgresRecordingRepository"
    notes: "PostgresNoteRepository"
    erasures: "PostgresErasureRepository"
    mails: "PostgresMailRepository"

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    def __getattr__(self, name: str) -> Repository:
        made = _repository(name)
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
        from meetcore.adapters.postgres.requests.retention import SQL

        named = {"account_id": account_id, "id": record_id}
        return await (await self._connection.execute(SQL["was_removed"], named)).fetchone() is not None


class PostgresStore:
    """Open transactions on a pool. READ COMMITTED: the account's lock orders what must be ordered."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self._pool = pool
        self._cipher = cipher

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        """Open a transaction: a clean exit commits, an exception rolls back."""
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

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[PostgresTransaction]:
        """Open a transaction for one call only: the statement commits by itself."""
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
    """Return what an error says of the outcome, before the connection is returned; `None` for any other.

    `is_sent`: the server may have been asked to commit.
    """
    if connection.is_overdue:
        return OutcomeUnknown("the database did not answer in time") if is_sent else None
    if not connection.was_cut(error):
        return None
    return (CommitLost if is_sent else ConnectionLost)("the connection was lost")
