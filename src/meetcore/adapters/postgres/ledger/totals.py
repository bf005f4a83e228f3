"""Totals of the ledger in PostgreSQL. A trigger of the schema keeps them as entries are added."""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.money.ledger import TransferKind
from meetcore.ports.ledger_totals import DayTotal, MonthTotal

# An account's totals of a range of days.
_LIST_DAYS = """
SELECT day, kind, credits, entries FROM ledger_day_totals
WHERE account_id = %(account_id)s AND day BETWEEN %(first_day)s AND %(last_day)s ORDER BY day, kind
"""

# The totals of all accounts in a range of days, by month.
_LIST_MONTHS = """
SELECT date_trunc('month', day)::date AS month, kind, sum(credits)::bigint AS credits, sum(entries)::bigint AS entries
FROM ledger_day_totals WHERE day BETWEEN %(first_day)s AND %(last_day)s GROUP BY 1, 2 ORDER BY 1, 2
"""


class TotalReads(Reads):
    """Sums over ledger entries by day and kind."""

    async def list_day_totals(self, account_id: UUID, first_day: date, last_day: date) -> Sequence[DayTotal]:
        rows = await self._all(
            _LIST_DAYS, {"account_id": account_id, "first_day": first_day, "last_day": last_day}
        )
        return [
            DayTotal(row["day"], TransferKind(row["kind"]), row["credits"], row["entries"]) for row in rows
        ]

    async def list_month_totals(self, first_day: date, last_day: date) -> Sequence[MonthTotal]:
        rows = await self._all(_LIST_MONTHS, {"first_day": first_day, "last_day": last_day})
        return [
            MonthTotal(row["month"], TransferKind(row["kind"]), row["credits"], row["entries"])
            for row in rows
        ]
