"""Reads of the ledger: pages of entries, totals by day, statements.

A page is found by the numbers of the entries, so that the last one of a long history costs what the first
does. A range of time is a range of numbers, too: entries are numbered without gaps and in the order of time.
Nothing is locked.
"""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.money.rows import ENTRY, TRANSFER, entry
from meetcore.adapters.postgres.repository import Reads, load_statements
from meetcore.domain.money.ledger import Entry, TransferKind, system_book
from meetcore.domain.money.statements import DayTotal, EntryRange
from meetcore.domain.money.views import MAX_ENTRIES_LOOKED_AT, EntriesOfKey, TransactionFilter
from meetcore.ports.queries import MAX_PAGE

SQL = load_statements(__file__)


class TotalReads(Reads):
    """Sums over ledger entries by day and kind."""

    async def list_day_totals(self, account_id: UUID, first_day: date, last_day: date) -> Sequence[DayTotal]:
        rows = await self._all(
            SQL["list_days"], account_id=account_id, first_day=first_day, last_day=last_day
        )
        return [
            DayTotal(row["day"], TransferKind(row["kind"]), row["credits"], row["entries"]) for row in rows
        ]


_AFTER_ALL = (1 << 63) - 1  # no entry has this number

# The number of the first entry at an instant or later, one more than the last entry's where there is none: a binary
# search by the primary key, which reads some twenty entries of a million.
FIRST_AT = """first_at_{name} (low, high) AS (
    SELECT 1::bigint, a.entries + 1 FROM accounts a WHERE a.id = %(account_id)s
    UNION ALL
    SELECT CASE WHEN e.at < %({name})s THEN e.number + 1 ELSE s.low END,
        CASE WHEN e.at < %({name})s THEN s.high ELSE e.number END
    FROM first_at_{name} s CROSS JOIN LATERAL (
        SELECT number, at FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = (s.low + s.high) / 2 AND book = 'customer'
    ) e
    WHERE s.low < s.high
)"""
_IS_FROM = "WHERE page.number >= (SELECT low FROM first_at_made_from WHERE low = high)"
_IS_BEFORE = "w.number < (SELECT low FROM first_at_made_before WHERE low = high)"

# The inner limits are for the planner: of a parameter it would expect a tenth of the table, and sort that instead of
# reading an index backwards. The lower bound of a range stands outside the page for the same reason: beside the upper
# one the planner would expect few entries between them, and sort all of those.
_PAGE = f"""(SELECT * FROM (
        SELECT w.number FROM ledger_entries w
        WHERE w.account_id = %(account_id)s AND w.number < %(before)s AND {{condition}}
        ORDER BY w.number DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s)"""

_OF_ANY_KIND = "w.book = 'customer'"

# Of one kind: by the system's leg, whose book determines the kind; a refund goes out of the book that a charge came into.
_IS_REFUND = "(w.book = 'meetings' AND w.amount < 0 OR w.book = 'topups' AND w.amount > 0)"
_OF_KIND = {
    None: _OF_ANY_KIND,
    False: f"w.book = %(book)s AND NOT {_IS_REFUND}",
    True: f"w.book = %(book)s AND {_IS_REFUND}",
}


def _page(condition: str, *, is_from: bool, is_before: bool) -> str:
    searches = [
        FIRST_AT.format(name=name)
        for name, is_given in (("made_from", is_from), ("made_before", is_before))
        if is_given
    ]
    if is_before:
        condition += f" AND {_IS_BEFORE}"
    return f"""{"WITH RECURSIVE " + ", ".join(searches) if searches else ""}
SELECT {ENTRY.select}, {TRANSFER.select}
FROM {_PAGE.format(condition=condition)} AS page
    JOIN ledger_entries e ON e.account_id = %(account_id)s AND e.number = page.number AND e.book = 'customer'
    JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
{_IS_FROM if is_from else ""}
ORDER BY e.number DESC
"""


# A page of an account's entries, the newest first: of any kind or a refund's or another (is_refund), from an instant on
# (is_from), before an instant (is_before).
_LISTS = {
    (is_refund, is_from, is_before): _page(condition, is_from=is_from, is_before=is_before)
    for is_refund, condition in _OF_KIND.items()
    for is_from in (False, True)
    for is_before in (False, True)
}


def _page_of_key(condition: str, *, is_from: bool, is_before: bool) -> str:
    # The offsets keep the planner from joining the whole tables: it looks up one entry after another.
    searches = [
        FIRST_AT.format(name=name)
        for name, is_given in (("made_from", is_from), ("made_before", is_before))
        if is_given
    ]
    if is_before:
        condition += f" AND {_IS_BEFORE}"
    lower = "(SELECT low FROM first_at_made_from WHERE low = high)" if is_from else "1"
    return f"""
WITH RECURSIVE {"".join(f"{search}, " for search in searches)}looked_at AS MATERIALIZED (
    SELECT w.number, w.transfer_id FROM ledger_entries w
    WHERE w.account_id = %(account_id)s AND w.number < %(before)s AND {condition}
    ORDER BY w.number DESC LIMIT {MAX_ENTRIES_LOOKED_AT}
), reach AS (
    SELECT min(number) AS reached FROM looked_at
    HAVING count(*) = {MAX_ENTRIES_LOOKED_AT} AND min(number) > {lower}
)
SELECT (SELECT reached FROM reach) AS reached, page.*
FROM (SELECT 1) AS always LEFT JOIN LATERAL (
    SELECT e.number, {ENTRY.select}, {TRANSFER.select}
    FROM looked_at l
        CROSS JOIN LATERAL (
            SELECT * FROM ledger_transfers WHERE account_id = %(account_id)s AND id = l.transfer_id OFFSET 0
        ) t
        CROSS JOIN LATERAL (
            SELECT * FROM ledger_entries
            WHERE account_id = %(account_id)s AND number = l.number AND book = 'customer' OFFSET 0
        ) e
    WHERE l.number >= {lower} AND t.api_key_id = %(key_id)s ORDER BY l.number DESC LIMIT %(limit)s
) AS page ON true
ORDER BY page.number DESC
"""


# The entries of one key among the next ones of an account, the newest first, with the filters of a page.
_LISTS_OF_KEY = {
    (is_refund, is_from, is_before): _page_of_key(condition, is_from=is_from, is_before=is_before)
    for is_refund, condition in _OF_KIND.items()
    for is_from in (False, True)
    for is_before in (False, True)
}


class TransactionReads(Reads):
    """Pages of an account's ledger."""

    async def list_transactions(
        self, account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[Entry]:
        page = page_parameters(account_id, wanted, limit, before)
        found = await self._all(page_statement(wanted), page)
        return [each for row in found if (each := entry(row)) is not None]

    async def list_entries_of_key(
        self, account_id: UUID, key_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> EntriesOfKey:
        page = page_parameters(account_id, wanted, limit, before) | {"key_id": key_id}
        rows = await self._all(_LISTS_OF_KEY[_given(wanted)], page)
        return EntriesOfKey([each for row in rows if (each := entry(row)) is not None], rows[0]["reached"])


def page_statement(wanted: TransactionFilter) -> str:
    """Return the statement that reads a page of such entries."""
    return _LISTS[_given(wanted)]


def _given(wanted: TransactionFilter) -> tuple[bool | None, bool, bool]:
    is_refund = wanted.kind in (TransferKind.MEETING_REFUND, TransferKind.TOPUP_REFUND)
    return (
        None if wanted.kind is None else is_refund,
        wanted.made_from is not None,
        wanted.made_before is not None,
    )


def page_parameters(account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None) -> Row:
    """Return the parameters of `page_statement`."""
    return {
        "account_id": account_id,
        "book": None if wanted.kind is None else system_book(wanted.kind).value,
        "made_from": wanted.made_from,
        "made_before": wanted.made_before,
        "before": _AFTER_ALL if before is None else before,
        "limit": limit,
    }


class StatementReads(Reads):
    """Reads of an account's ledger in a range of time."""

    async def find_first_entry_at(self, account_id: UUID) -> datetime | None:
        row = await self._one(SQL["find_first_entry"], account_id=account_id)
        return None if row is None else utc(row["at"])

    async def find_entry_range(
        self, account_id: UUID, made_from: datetime, made_before: datetime
    ) -> EntryRange:
        parameters = {"account_id": account_id, "made_from": made_from, "made_before": made_before}
        row = await self._one(SQL["find_entry_range"], parameters)
        return EntryRange(1, 0, 0, 0) if row is None else EntryRange(**row)
