"""Erasure of accounts, in portions: each can be repeated, so that what was interrupted can go on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.requests.erasures import Erasure

__all__ = ["ErasureRepository"]


class ErasureRepository(Protocol):
    """What is erased of an account, and which erasures are under way."""

    async def load_locked(self, account_id: UUID) -> Erasure:
        """Take the account's lock; read what its erasure depends on.

        Raises:
            NotFound: no such account.
        """
        ...

    async def is_requested(self, account_id: UUID) -> bool:
        """Whether the account is erased, or being erased; the caller holds its lock."""
        ...

    async def start(self, account_id: UUID, at: datetime) -> None:
        """Note the erasure, and end every access to the account; the caller holds its lock.

        The account is suspended and loses name and address, as its pending invitations do. Its keys are
        revoked and lose their names. Its sessions are deleted and its memberships end. Users who belong to no
        other account lose name, address and passkeys, and the mails to them are deleted; so do those whom the
        account removed before, by its audit log.
        """
        ...

    async def claim_due(self, at: datetime, limit: int) -> Sequence[UUID]:
        """Take the accounts whose erasure is not finished and due, and put it off by `retry_delay`.

        Of several at once, each takes others. Erasures are due from their request on.
        """
        ...

    async def find_recorded(self, account_id: UUID, limit: int) -> Sequence[UUID]:
        """Meetings of the account whose recordings are not expired."""
        ...

    async def erase_meetings(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        """Erase titles, descriptions, passwords and links of the meetings that come after one by their ids.

        Returns:
            The id of the last one; None when none comes after.
        """
        ...

    async def erase_notes(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        """Erase the content of notes that are not in progress, in the same way."""
        ...

    async def delete_portion(self, account_id: UUID, limit: int) -> int:
        """Delete some deliveries with attempts, events, mails, stored answers and requests, so many of each.

        Returns:
            How many went; 0 when none is left.
        """
        ...

    async def finish(self, account_id: UUID, at: datetime) -> bool:
        """Note that the erasure is finished, unless the account's meetings or recordings are still worked on.

        Returns:
            Whether it is finished now.
        """
        ...
