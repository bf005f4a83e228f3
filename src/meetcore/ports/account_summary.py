"""An account as those who use it see it."""

from datetime import datetime
from uuid import UUID

from attrs import frozen

__all__ = ["AccountSummary"]


@frozen
class AccountSummary:
    """Whose account it is, its balance in credits and what open holds reserve of it.

    `suspended_at` is None while the account is active.
    """

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    balance: int
    held: int = 0
    suspended_at: datetime | None = None
