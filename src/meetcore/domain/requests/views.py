"""Views of accounts and idempotency keys that the store reads and writes for a decision."""

from datetime import date, datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.requests.idempotency import IdempotencyRecord


@frozen
class Claim:
    """An idempotency key claimed for work that goes on beyond this transaction."""

    key: str
    fingerprint: bytes
    subject_id: UUID


@frozen
class KeyView:
    """The record of an idempotency key, and the store's time."""

    record: IdempotencyRecord | None
    now: datetime


@frozen
class RequestFilter:
    """A choice of an account's requests; `None` narrows nothing. `status_class` is 2, 4 or 5.

    Requests are of [`begins_at`, `ends_at`).
    """

    api_key_id: UUID | None = None
    status_class: int | None = None
    path: str | None = None
    code: str | None = None
    begins_at: datetime | None = None
    ends_at: datetime | None = None


@frozen
class NewAccount:
    """An account to open. `low_threshold` is credits."""

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    low_threshold: int
    created_at: datetime


@frozen
class StoredAccount:
    """An account as an operator sees it, in credits.

    `suspension_reason` is what its members read, if a reason was given. `statements_mailed` is the first day
    of the last month whose statement was mailed; `None` where none are.
    """

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    created_at: datetime
    suspended_at: datetime | None
    balance: int
    held: int
    low_threshold: int
    statements_mailed: date | None = None
    suspension_reason: str | None = None


@frozen
class AccountSummary:
    """An account with its balance and the sum of its open holds, in credits."""

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    balance: int
    held: int = 0
    suspended_at: datetime | None = None
    suspension_reason: str | None = None


@frozen
class AccountVersion:
    """The state of an account in the store itself at `read_at`, by its own clock.

    `number` rises with each change that a caller of the account asked for, and with each that begins or ends
    one of its meetings, recordings or notes.
    """

    account_id: UUID
    number: int
    read_at: datetime
