"""Stored records of requests, by their idempotency keys. Leases run by the store's clock."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.requests.idempotency import IdempotencyRecord

__all__ = ["Claim", "IdempotencyRepository", "KeyView"]


@frozen
class Claim:
    """An idempotency key taken for work that goes on beyond this transaction."""

    key: str
    fingerprint: bytes
    subject_id: UUID


@frozen
class KeyView:
    """What is remembered of an idempotency key, and the store's time.

    `is_lost`: a restore may have lost what became of the key (`domain.requests.restores.is_key_lost`).
    """

    record: IdempotencyRecord | None
    now: datetime
    is_lost: bool = False


class IdempotencyRepository(Protocol):
    """What is remembered of requests."""

    async def load_locked(self, account_id: UUID, key: str) -> KeyView:
        """Take the account's lock and read a key.

        Raises:
            NotFound: no such account.
        """

    async def save(self, account_id: UUID, record: IdempotencyRecord) -> None:
        """Write a key as bound (not done) or done with its outcome. Ends any lease on it."""
