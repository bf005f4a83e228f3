"""Idempotency keys in SQLite: bound to a request, claimed while work runs, done with an answer."""

from datetime import datetime
from uuid import UUID

from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.ports.clock import Clock
from meetcore.ports.idempotency import Claim, KeyView

from . import rows
from .connection import Connection
from .ledger import load_funds

__all__ = ["SqliteIdempotencyRepository", "claim_key", "end_claim", "finish_key", "load_key", "prolong_claim"]

# The record of a key.
_LOAD = "SELECT * FROM idempotency_keys WHERE account_id = :account_id AND key = :key"

# Binds a key, or marks it done with its answer. Its age runs from the first binding.
_SAVE = """
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, answer,
    created_at)
VALUES (:account_id, :key, :fingerprint, :is_done, :subject_id, NULL, :answer, :now)
ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
    is_done = excluded.is_done, subject_id = excluded.subject_id, lease_until = NULL,
    answer = excluded.answer
"""

# Takes a key for work that goes on beyond this transaction. One that is known keeps its fingerprint.
_CLAIM = """
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
VALUES (:account_id, :key, :fingerprint, 0, :subject_id, :until, :now)
ON CONFLICT (account_id, key) DO UPDATE SET subject_id = excluded.subject_id,
    lease_until = excluded.lease_until
"""

# The work was taken over: its key runs as long as the new lease, so that who repeats the request waits.
_PROLONG = """
UPDATE idempotency_keys SET lease_until = :until
WHERE account_id = :account_id AND lease_until IS NOT NULL AND key = (
    SELECT idempotency_key FROM meetings WHERE account_id = :account_id AND id = :meeting_id)
"""

# The work is done, and this is its answer.
_FINISH = """
UPDATE idempotency_keys SET is_done = 1, answer = :answer, lease_until = NULL
WHERE account_id = :account_id AND key = :key
"""

# The work came to nothing: the key may try again, bound to its fingerprint.
_END_CLAIM = """
UPDATE idempotency_keys SET subject_id = NULL, lease_until = NULL
WHERE account_id = :account_id AND key = :key
"""


async def load_key(connection: Connection, account_id: UUID, key: str | None) -> IdempotencyRecord | None:
    """The record of a key, if one was sent."""
    row = await connection.fetch_one(_LOAD, {"account_id": account_id, "key": key})
    return None if row is None else rows.record(IdempotencyRecord, row)


async def claim_key(
    connection: Connection, account_id: UUID, claim: Claim | None, now: datetime, until: datetime
) -> None:
    """Mark a key as being worked on, if one was sent."""
    if claim is not None:
        about = {"account_id": account_id, "now": now, "until": until}
        await connection.change(_CLAIM, rows.fields_of(claim) | about)


async def prolong_claim(connection: Connection, account_id: UUID, meeting_id: UUID, until: datetime) -> None:
    """Let the key of a meeting's work, if it has one, run as long as the lease on the meeting."""
    about = {"account_id": account_id, "meeting_id": meeting_id, "until": until}
    await connection.change(_PROLONG, about)


async def finish_key(
    connection: Connection, account_id: UUID, claim: Claim | None, answer: bytes | None
) -> None:
    """Mark a key as done with its answer, if one was sent."""
    if claim is not None:
        about = {"account_id": account_id, "key": claim.key, "answer": answer}
        await connection.change(_FINISH, about)


async def end_claim(connection: Connection, account_id: UUID, claim: Claim | None) -> None:
    """Let a key try again, if one was sent."""
    if claim is not None:
        await connection.change(_END_CLAIM, {"account_id": account_id, "key": claim.key})


class SqliteIdempotencyRepository:
    """Idempotency records, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def load(self, account_id: UUID, key: str) -> KeyView:
        """Read a key of an account, which has to exist."""
        await load_funds(self._connection, account_id)
        return KeyView(await load_key(self._connection, account_id, key), self._clock.now())

    async def save(self, account_id: UUID, record: IdempotencyRecord) -> None:
        """Write a key as bound, or as done with its answer."""
        about = {"account_id": account_id, "now": self._clock.now()}
        await self._connection.change(_SAVE, rows.fields_of(record) | about)
