"""Totals of the ledger in memory, summed when they are asked for."""

from collections.abc import Iterable, Sequence
from datetime import date
from uuid import UUID

from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.ledger import Entry, TransferKind
from meetcore.ports.ledger_totals import DayTotal, MonthTotal


class MemoryLedgerTotals:
    """Sums over ledger entries by day and kind."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_day_totals(self, account_id: UUID, first_day: date, last_day: date) -> Sequence[DayTotal]:
        entries = [each for each in self._between(first_day, last_day) if each.account_id == account_id]
        keyed = [(cap_day(each.at), each) for each in entries]
        return [DayTotal(day, kind, *sums) for (day, kind), sums in _summed(keyed)]

    async def list_month_totals(self, first_day: date, last_day: date) -> Sequence[MonthTotal]:
        keyed = [(cap_day(each.at).replace(day=1), each) for each in self._between(first_day, last_day)]
        return [MonthTotal(month, kind, *sums) for (month, kind), sums in _summed(keyed)]

    def _between(self, first_day: date, last_day: date) -> Iterable[Entry]:
        entries = self._state.committed.entries.values()
        return (each for each in entries if first_day <= cap_day(each.at) <= last_day)


def _summed(
    keyed: Iterable[tuple[date, Entry]],
) -> Iterable[tuple[tuple[date, TransferKind], tuple[int, int]]]:
    sums: dict[tuple[date, TransferKind], tuple[int, int]] = {}
    for day, entry in keyed:
        key = (day, entry.transfer.kind)
        credits, entries = sums.get(key, (0, 0))
        sums[key] = (credits + entry.amount, entries + 1)
    return sorted(sums.items())
