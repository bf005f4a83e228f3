"""Reads of the dashboard in PostgreSQL: one statement for a page."""

from collections.abc import Sequence
from datetime import date, timedelta
from uuid import UUID

from meetcore.adapters.postgres.callers import API_KEY
from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.meetings.schedule import cap_day_ends_at
from meetcore.ports.dashboard_queries import DaySpending, KeyUse, TroubledEndpoint

# An account's keys, the newest first, with the usage of the cap that each counts against on a day.
_LIST_KEY_USE = f"""
SELECT {API_KEY.select}, COALESCE(u.spent + u.held, 0) AS used
FROM api_keys k
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = %(day)s
WHERE k.account_id = %(account_id)s ORDER BY k.id DESC
"""

# What was charged for meetings and notes on each day (WIB), refunds taken off, from the first entry of a day on: the
# entries are numbered in the order of time, so that the range is found by a binary search over the primary key.
_SPENDING = """
WITH RECURSIVE first_entry (low, high) AS (
    SELECT 1::bigint, a.entries + 1 FROM accounts a WHERE a.id = %(account_id)s
    UNION ALL
    SELECT CASE WHEN e.at < %(since)s THEN e.number + 1 ELSE s.low END,
        CASE WHEN e.at < %(since)s THEN s.high ELSE e.number END
    FROM first_entry s CROSS JOIN LATERAL (
        SELECT number, at FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = (s.low + s.high) / 2 AND book = 'customer'
    ) e
    WHERE s.low < s.high
)
SELECT ((e.at AT TIME ZONE 'UTC') + interval '7 hours')::date AS day,
    COALESCE(sum(e.amount) FILTER (WHERE e.book = 'meetings'), 0)::bigint AS meetings,
    COALESCE(sum(e.amount) FILTER (WHERE e.book = 'notulen'), 0)::bigint AS notes
FROM ledger_entries e
WHERE e.account_id = %(account_id)s AND e.book IN ('meetings', 'notulen')
    AND e.number >= (SELECT low FROM first_entry WHERE low = high)
GROUP BY 1 ORDER BY 1
"""

# Endpoints that were disabled by failures, or whose last deliveries failed; an account has few endpoints.
_TROUBLED = """
SELECT id, url, consecutive_failures, state = 'disabled' AS is_disabled FROM webhook_endpoints
WHERE account_id = %(account_id)s AND (state = 'disabled' OR consecutive_failures > 0) ORDER BY id
"""


class DashboardReads(Reads):
    """What the pages of the dashboard show beside the lists of the API."""

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[KeyUse]:
        rows = await self._all(_LIST_KEY_USE, {"account_id": account_id, "day": day})
        return [_key_use(row) for row in rows]

    async def list_spending(self, account_id: UUID, first_day: date) -> Sequence[DaySpending]:
        since = cap_day_ends_at(first_day - timedelta(days=1))
        rows = await self._all(_SPENDING, {"account_id": account_id, "since": since})
        return [DaySpending(**row) for row in rows]

    async def list_troubled_endpoints(self, account_id: UUID) -> Sequence[TroubledEndpoint]:
        rows = await self._all(_TROUBLED, {"account_id": account_id})
        return [TroubledEndpoint(**row) for row in rows]


def _key_use(row: Row) -> KeyUse:
    return KeyUse(API_KEY.read(row), row["used"])
