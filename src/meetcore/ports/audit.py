"""Reading the whole ledger, as it was at one moment, to prove it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.money.chain_keys import Seal
from meetcore.domain.money.hash_chain import CanonicalEntry
from meetcore.domain.money.ledger import Funds

__all__ = ["MAX_FLAWS", "Flaw", "FlawKind", "LedgerAudit", "LedgerSnapshot", "StoredFunds"]

MAX_FLAWS = 100
"""So many faults of a kind are reported; there may be more."""


@frozen
class StoredFunds:
    """An account's stored figures, what its open holds sum to, and its seal, if it has one."""

    funds: Funds
    open_holds: int
    sealed: Seal | None = None


class FlawKind(StrEnum):
    """What can be wrong with records that hang together, in words that follow a name of the record."""

    UNBALANCED = "has not two legs that sum to zero"
    NO_CHARGE = "reverses no meeting's charge of its account"
    TOO_MUCH = "returns more than its charge took"
    RETURNED_BEFORE = "returns a charge that was returned before"
    USAGE = "is not what its charges, refunds and open holds make"


@frozen
class Flaw:
    """A record that does not fit the others.

    `subject` names it within its account: a transfer, or the usage of a key on a day. `number` is that of
    the entry, where the record has one.
    """

    account_id: UUID
    kind: FlawKind
    subject: str
    number: int | None = None


class LedgerSnapshot(Protocol):
    """One moment of the ledger."""

    @property
    def name(self) -> str:
        """The name by which another connection opens the same snapshot, while this one is open."""

    async def count_entries(self) -> int:
        """How many entries customers have in all."""

    def accounts(self, after: UUID | None = None) -> AsyncGenerator[Sequence[StoredFunds], None]:
        """Every account behind an id, in the order of ids and in portions of about the same work.

        That is many accounts, or one with a long history. Who stops before the end closes it.
        """

    def entries(self, portion: Sequence[StoredFunds]) -> AsyncGenerator[Sequence[CanonicalEntry], None]:
        """The customer entries of a portion that `accounts` gave, in chunks of some thousands.

        By account in the given order, then by number. An entry whose transfer is not there is left out: its
        number is missed. Who stops before the end closes it.
        """

    async def flaws_of_span(self, after: UUID | None, last: UUID | None) -> Sequence[Flaw]:
        """The same flaws of the accounts behind an id and up to another, that one included.

        `None` leaves the span open; ids that no account has are in it, too.
        """

    async def flaws(self) -> Sequence[Flaw]:
        """What does not hang together, up to `MAX_FLAWS` of each kind. May be asked for beside the entries.

        Transfers without two legs that sum to zero, and legs without a transfer. Refunds of what is no
        meeting's charge, of more than it took, or of what was refunded before. Keys' usage of a day other
        than their charges less the refunds of these, and their open holds, of that day.
        """


class LedgerAudit(Protocol):
    """Opens snapshots, and keeps the seals of histories that are older than the keys."""

    async def count_seals(self) -> int:
        """How many accounts are sealed.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def add_seals(self, seals: Sequence[Seal], at: datetime) -> None:
        """Keep seals, for ever; one that an account has already stays.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    def snapshot(self) -> AbstractAsyncContextManager[LedgerSnapshot]:
        """The ledger at this moment, while others write on.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    def joined(self, name: str) -> AbstractAsyncContextManager[LedgerSnapshot]:
        """The moment of another's snapshot of this store, which has to stay open meanwhile.

        Raises:
            StoreUnavailable: the store does not answer, or that moment is over.
        """
