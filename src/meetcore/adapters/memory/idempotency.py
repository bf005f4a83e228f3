"""Idempotency keys in memory."""

from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import Tables, account_of
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.domain.requests.restores import is_key_lost
from meetcore.ports.clock import Clock
from meetcore.ports.idempotency import Claim, KeyView


def key_view(tables: Tables, account_id: UUID, key: str | None, now: datetime) -> KeyView:
    """The record of a key, if one was sent."""
    is_lost = any(is_key_lost(key, each) for each in tables.restores.values())
    return KeyView(None if key is None else tables.idempotency.get((account_id, key)), now, is_lost)


def claim_key(tables: Tables, account_id: UUID, claim: Claim | None, now: datetime, until: datetime) -> None:
    """Mark a key as being worked on; one that is known keeps its fingerprint."""
    if claim is None:
        return
    known = tables.idempotency.get((account_id, claim.key))
    record = known or IdempotencyRecord(claim.key, claim.fingerprint)
    tables.idempotency[account_id, claim.key] = evolve(record, subject_id=claim.subject_id, lease_until=until)
    tables.idempotency_since.setdefault((account_id, claim.key), now)


def prolong_claim(tables: Tables, account_id: UUID, key: str, until: datetime) -> None:
    """Let a key run as long as the work that was taken over under it."""
    record = tables.idempotency.get((account_id, key))
    if record is not None and record.lease_until is not None:
        tables.idempotency[account_id, key] = evolve(record, lease_until=until)


def finish_key(tables: Tables, account_id: UUID, claim: Claim | None, encoded_outcome: bytes | None) -> None:
    """Mark a key as done with its answer."""
    record = None if claim is None else tables.idempotency.get((account_id, claim.key))
    if record is not None:
        tables.idempotency[account_id, record.key] = evolve(
            record, is_done=True, encoded_outcome=encoded_outcome, lease_until=None
        )


def end_claim(tables: Tables, account_id: UUID, claim: Claim | None) -> None:
    """Let a key try again; it stays bound to its fingerprint."""
    record = None if claim is None else tables.idempotency.get((account_id, claim.key))
    if record is not None:
        tables.idempotency[account_id, record.key] = evolve(record, subject_id=None, lease_until=None)


class MemoryIdempotencyRepository:
    """Idempotency records, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def load_locked(self, account_id: UUID, key: str) -> KeyView:
        account_of(self._tables, account_id)
        return key_view(self._tables, account_id, key, self._clock.now())

    async def save(self, account_id: UUID, record: IdempotencyRecord) -> None:
        self._tables.idempotency[account_id, record.key] = evolve(record, lease_until=None)
        self._tables.idempotency_since.setdefault((account_id, record.key), self._clock.now())
