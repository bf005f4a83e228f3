"""Tell a record that was removed past its retention from one that never was, or is another account's."""

from typing import Protocol
from uuid import UUID

from meetcore.domain.errors import DomainError, Gone, NotFound


class RemovedRecords(Protocol):
    """Knows which records were removed. Queries and transactions do."""

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        """Return whether a record of the account was removed past its retention."""


async def missing(reader: RemovedRecords, account_id: UUID, record_id: UUID, what: str) -> DomainError:
    """Return the refusal for a record that is not there; `what` is its name in the message (rule 7/410)."""
    if await reader.was_removed(account_id, record_id):
        return Gone(f"This {what} was removed: it is past its retention.")
    return NotFound(f"No {what} with this id.")
