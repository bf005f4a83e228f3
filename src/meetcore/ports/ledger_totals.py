"""Totals of the ledger, kept as entries are added, so that they cost the same after a long history."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.money.statements import DayTotal

__all__ = ["DayTotal", "LedgerTotals", "MonthTotal"]


@frozen
class MonthTotal:
    """What transfers of one kind did to the balances of all accounts in a month (WIB).

    `month` is the first day of it, `credits` as in `DayTotal`.
    """

    month: date
    kind: TransferKind
    credits: int
    entries: int


class LedgerTotals(Protocol):
    """Sums over ledger entries by day and kind. An entry counts on the day of its own time."""

    async def list_day_totals(self, account_id: UUID, first_day: date, last_day: date) -> Sequence[DayTotal]:
        """An account's totals of the days from one to another, both included, by day and kind."""
        ...

    async def list_month_totals(self, first_day: date, last_day: date) -> Sequence[MonthTotal]:
        """The totals of all accounts by month and kind, of the days from one to another, both included."""
        ...
