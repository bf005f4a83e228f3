"""Money outside meetings: entries, appended where an account's funds are those that were decided on."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.webhooks.events import Event

__all__ = ["AccountPostings", "OperationsView", "PostingRepository"]


@frozen
class OperationsView:
    """An account's funds under its lock, and which of the operations asked for are in its ledger."""

    funds: Funds
    entries: Mapping[str, Entry]


@frozen
class AccountPostings:
    """Entries of one account, each decided on what the one before it left, and what is written with them.

    `before` are the funds that the first was decided on, `after` those that the last leaves. `actions` are
    the entries of the audit log.
    """

    before: Funds
    after: Funds
    entries: Sequence[Entry]
    events: Sequence[Event] = ()
    actions: Sequence[AuditEntry] = ()


class PostingRepository(Protocol):
    """Top-ups and adjustments, several at once."""

    async def load_locked(self, account_id: UUID, operations: Sequence[str]) -> OperationsView:
        """Take the account's lock; read its funds and the entries of these operations.

        Raises:
            NotFound: no such account.
        """

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        """Append to each account whose funds are as they were and that has none of the operations.

        An account that another transaction has locked is left alone, too: this waits for no account. Of an
        account everything is written or nothing.

        Args:
            postings: at most one for each account.

        Returns:
            The accounts that were written, and how many of their deliveries are due now.
        """
