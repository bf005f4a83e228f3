"""What statements read of a ledger in PostgreSQL beside its totals: a range of numbers and its balances."""

from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import utc
from meetcore.adapters.postgres.ledger.read import FIRST_AT
from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.money.statements import EntryRange

# When the account's first entry was made.
_FIND_FIRST_ENTRY = """
SELECT at FROM ledger_entries WHERE account_id = %(account_id)s AND number = 1 AND book = 'customer'
"""

# The numbers of the entries of a stretch of time, and the balances before the first and after the last of them.
_FIND_ENTRY_RANGE = f"""
WITH RECURSIVE {FIRST_AT.format(name="made_from")}, {FIRST_AT.format(name="made_before")}
SELECT f.low AS first, b.low - 1 AS last, COALESCE(o.balance_after, 0) AS opening, COALESCE(c.balance_after, 0) AS closing
FROM first_at_made_from f CROSS JOIN first_at_made_before b
LEFT JOIN ledger_entries o ON o.account_id = %(account_id)s AND o.number = f.low - 1 AND o.book = 'customer'
LEFT JOIN ledger_entries c ON c.account_id = %(account_id)s AND c.number = b.low - 1 AND c.book = 'customer'
WHERE f.low = f.high AND b.low = b.high
"""


class StatementReads(Reads):
    """The entries of a stretch of time in an account's ledger."""

    async def find_first_entry_at(self, account_id: UUID) -> datetime | None:
        row = await self._one(_FIND_FIRST_ENTRY, {"account_id": account_id})
        return None if row is None else utc(row["at"])

    async def find_entry_range(
        self, account_id: UUID, made_from: datetime, made_before: datetime
    ) -> EntryRange:
        parameters = {"account_id": account_id, "made_from": made_from, "made_before": made_before}
        row = await self._one(_FIND_ENTRY_RANGE, parameters)
        return EntryRange(1, 0, 0, 0) if row is None else EntryRange(**row)
