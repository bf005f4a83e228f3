"""Money in memory: the funds, and entries that nothing changes once they are there."""

from collections.abc import Mapping, Sequence
from datetime import date
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.audit_log import MemoryAuditLog
from meetcore.adapters.memory.outbox import write_events
from meetcore.adapters.memory.state import ConstraintBroken, Tables, account_of
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.ports.account_state import AccountState
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
from meetcore.ports.postings import AccountPostings, OperationsView


def entry_of_operation(tables: Tables, account_id: UUID, operation: str) -> Entry | None:
    """The entry of an operation, if it is in the ledger."""
    number = tables.entry_of_operation.get((account_id, operation))
    return None if number is None else tables.entries[account_id, number]


def append_entry(tables: Tables, entry: Entry) -> None:
    """Append an entry.

    Raises:
        ConstraintBroken: its number, its transfer or its operation is in the ledger already, or it
            reverses what was reversed before.
    """
    account_id, transfer = entry.account_id, entry.transfer
    is_known = (
        (account_id, entry.number) in tables.entries
        or (account_id, transfer.id) in tables.entry_of_transfer
        or (account_id, transfer.operation) in tables.entry_of_operation
        or (transfer.reverses is not None and (account_id, transfer.reverses) in tables.entry_of_reversal)
    )
    if is_known:
        raise ConstraintBroken(f"{transfer.operation} or entry {entry.number} is in the ledger already")
    tables.entries[account_id, entry.number] = entry
    tables.entry_of_transfer[account_id, transfer.id] = entry.number
    tables.entry_of_operation[account_id, transfer.operation] = entry.number
    if transfer.reverses is not None:
        tables.entry_of_reversal[account_id, transfer.reverses] = entry.number


def write_funds(tables: Tables, funds: Funds) -> None:
    """Write the funds that were decided; the threshold is the registry's to change."""
    if funds.held < 0:
        raise ConstraintBroken("less than nothing is held")
    account = account_of(tables, funds.account_id)
    kept = evolve(funds, low_threshold=account.funds.low_threshold)
    tables.accounts[funds.account_id] = evolve(account, funds=kept)


def cap_key_of(tables: Tables, api_key_id: UUID) -> UUID:
    """The key that a key's cap is counted under."""
    key = tables.keys.get(api_key_id)
    return api_key_id if key is None else key.cap_key_id


def usage_of(tables: Tables, account_id: UUID, api_key_id: UUID, day: date) -> CapUsage:
    """The usage of a key's cap on a day; a day without a row is unused."""
    cap_key_id = cap_key_of(tables, api_key_id)
    stored = tables.usage.get((account_id, cap_key_id, day), CapUsage(cap_key_id, day))
    return evolve(stored, api_key_id=api_key_id)


def account_state(tables: Tables, account_id: UUID, api_key_id: UUID, day: date) -> AccountState:
    """The account for a decision that is tried without a lock.

    No version is kept here: the state itself is compared, which is what a version stands for.
    """
    key = tables.keys.get(api_key_id)
    return AccountState(
        0,
        account_of(tables, account_id).funds,
        usage_of(tables, account_id, api_key_id, day),
        None if key is None else key.daily_cap,
    )


def write_usage(tables: Tables, account_id: UUID, usage: CapUsage) -> None:
    """Write what was spent and is held under a cap on a day."""
    if usage.spent < 0 or usage.held < 0:
        raise ConstraintBroken("the usage of a cap is below zero")
    tables.usage[account_id, usage.cap_key_id, usage.day] = usage


class MemoryPostingRepository:
    """Top-ups and adjustments, several at once, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock, entropy: Entropy) -> None:
        self._tables = tables
        self._clock = clock
        self._entropy = entropy

    async def load_locked(self, account_id: UUID, operations: Sequence[str]) -> OperationsView:
        funds = account_of(self._tables, account_id).funds
        found = {each: entry_of_operation(self._tables, account_id, each) for each in operations}
        return OperationsView(funds, {name: entry for name, entry in found.items() if entry is not None})

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        return {
            each.after.account_id: await self._append(each) for each in postings if self._is_unchanged(each)
        }

    def _is_unchanged(self, postings: AccountPostings) -> bool:
        account = self._tables.accounts.get(postings.before.account_id)
        names = ((each.account_id, each.transfer.operation) for each in postings.entries)
        is_known = any(name in self._tables.entry_of_operation for name in names)
        return account is not None and account.funds == postings.before and not is_known

    async def _append(self, postings: AccountPostings) -> int:
        for entry in postings.entries:
            append_entry(self._tables, entry)
        write_funds(self._tables, postings.after)
        for action in postings.actions:
            await MemoryAuditLog(self._tables).append(action)
        account_id, now = postings.after.account_id, self._clock.now()
        return write_events(self._tables, account_id, postings.events, now, self._entropy)
