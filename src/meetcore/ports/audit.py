"""Reading the whole ledger, as it was at one moment, to prove it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from attrs import frozen

from meetcore.domain.ledger import Entry, Funds

__all__ = ["LedgerAudit", "LedgerSnapshot", "StoredFunds"]


@frozen
class StoredFunds:
    """An account's stored figures, and what its open holds sum to."""

    funds: Funds
    open_holds: int


class LedgerSnapshot(Protocol):
    """One moment of the ledger."""

    async def count_entries(self) -> int:
        """How many entries customers have in all."""
        ...

    def accounts(self) -> AsyncIterator[Sequence[StoredFunds]]:
        """Every account, in portions."""
        ...

    def entries(self, portion: Sequence[StoredFunds]) -> AsyncIterator[Entry]:
        """The customer entries of these accounts, by account in the given order, then by number."""
        ...

    async def unbalanced(self) -> Sequence[str]:
        """Names of transfers whose legs do not sum to zero; some, if there are many."""
        ...


class LedgerAudit(Protocol):
    """Opens snapshots."""

    def snapshot(self) -> AbstractAsyncContextManager[LedgerSnapshot]:
        """The ledger at this moment, while others write on.

        Raises:
            StoreAway: the store does not answer.
        """
        ...
