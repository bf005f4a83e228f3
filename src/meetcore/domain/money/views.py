"""Views of funds and of the ledger that the store reads and writes for a decision."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.money import holds, ledger
from meetcore.domain.webhooks.events import Event


@frozen
class OperationsView:
    """An account's funds under its lock, and its ledger entries of the operations asked for."""

    funds: ledger.Funds
    entries: Mapping[str, ledger.Entry]


@frozen
class AccountPostings:
    """Entries of one account, each decided on the funds that the one before left, and their side effects.

    `before` are the funds of the first decision, `after` those that the last leaves.
    """

    before: ledger.Funds
    after: ledger.Funds
    entries: Sequence[ledger.Entry]
    events: Sequence[Event] = ()
    actions: Sequence[AuditEntry] = ()


@frozen
class AccountState:
    """The funds of an account, and the daily cap in credits of one of its keys with its usage on a day.

    A decision on a `version` is written only if nothing of the account has changed since; `None` under the
    account's lock.
    """

    version: int | None
    funds: ledger.Funds
    usage: holds.CapUsage
    daily_cap: int | None


@frozen
class MonthTotal:
    """The sum of a kind of transfer over all accounts in a month (WIB), by its first day; see `DayTotal`."""

    month: date
    kind: ledger.TransferKind
    credits: int
    entries: int


MAX_FLAWS = 100
"""Reported flaws of a kind; there may be more."""


@frozen
class StoredFunds:
    """An account's stored figures, and the sums of its open holds and of its daily totals."""

    funds: ledger.Funds
    open_holds: int
    day_credits: int
    day_entries: int


class FlawKind(StrEnum):
    """Kinds of inconsistent records, in words that follow the name of the record."""

    UNBALANCED = "has not two legs that sum to zero"
    NO_CHARGE = "reverses no meeting's charge of its account"
    TOO_MUCH = "returns more than its charge took"
    RETURNED_BEFORE = "returns a charge that was returned before"
    USAGE = "is not what its charges, refunds and open holds make"


@frozen
class Flaw:
    """A record that does not fit the others; `subject` names a transfer or a key's usage on a day in it."""

    account_id: UUID
    kind: FlawKind
    subject: str
    number: int | None = None


@frozen
class VerificationRun:
    """A run over the whole ledger in progress, under the caller's lease.

    The `accounts` up to `after_account`, with their `entries`, are verified. `findings` are the first ones,
    as texts.
    """

    token: UUID = field(repr=False)
    started_at: datetime
    after_account: UUID | None = None
    accounts: int = 0
    entries: int = 0
    findings: tuple[str, ...] = ()


@frozen
class TransactionFilter:
    """A choice of ledger entries, made in [`made_from`, `made_before`); `None` narrows nothing."""

    kind: ledger.TransferKind | None = None
    made_from: datetime | None = None
    made_before: datetime | None = None


@frozen
class EntriesOfKey:
    """Entries that one key caused, the newest first. Those older than the number `reached` were not read."""

    entries: Sequence[ledger.Entry] = ()
    reached: int | None = None


MAX_ENTRIES_LOOKED_AT: Final = 5000
"""Ledger entries that are read for those of one key: they are not indexed by key."""
