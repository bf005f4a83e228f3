"""Pages of an account's ledger in PostgreSQL, the newest entries first: one statement each.

A page is found by the numbers of the entries, so that the last one of a long history costs what the first
does. Refuses to lock and to judge.
"""

from typing import Any
from uuid import UUID

from meetcore.adapters.postgres.ledger import TRANSFER_COLUMNS
from meetcore.domain.ledger import TransferKind, house_book
from meetcore.ports.queries import MAX_PAGE

__all__ = ["page_parameters", "page_statement"]

_AFTER_ALL = (1 << 63) - 1  # no entry has this number

# The inner limits are for the planner: of a parameter it would expect a tenth of the table, and sort that instead of
# reading an index backwards.
_WALK = f"""SELECT * FROM (
        SELECT w.number FROM ledger_entries w
        WHERE w.account_id = %(account_id)s AND w.number < %(before)s AND {{condition}}
        ORDER BY w.number DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s"""


def _page(condition: str) -> str:
    return f"""
SELECT e.account_id, e.number, e.amount AS entry_amount, e.balance_after, e.at AS entry_at, e.hash, {TRANSFER_COLUMNS}
FROM ({_WALK.format(condition=condition)}) AS page
    JOIN ledger_entries e ON e.account_id = %(account_id)s AND e.number = page.number AND e.book = 'customer'
    JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
ORDER BY e.number DESC
"""


_LIST = _page("w.book = 'customer'")

# Of one kind: by the house's leg, whose book tells the kind; a refund goes out of the book that a charge came into.
_LIST_KIND = _page(
    """w.book <> 'customer' AND w.book = %(book)s
            AND (w.book = 'meetings' AND w.amount < 0) = %(is_refund)s"""
)


def page_statement(kind: TransferKind | None) -> str:
    """The statement that reads a page of such entries."""
    return _LIST if kind is None else _LIST_KIND


def page_parameters(
    account_id: UUID, kind: TransferKind | None, limit: int, before: int | None
) -> dict[str, Any]:
    """Its parameters."""
    return {
        "account_id": account_id,
        "book": None if kind is None else house_book(kind).value,
        "is_refund": kind is TransferKind.MEETING_REFUND,
        "before": _AFTER_ALL if before is None else before,
        "limit": limit,
    }
