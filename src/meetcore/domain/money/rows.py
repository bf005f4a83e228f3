"""The flat form of a ledger entry, for a table of one's own: a dict with one value for each column.

The instant is in UTC to the microsecond and needs a column that keeps its time zone, or a conversion that
brings it back: the hash covers it, and one without a zone is refused. `amount` is what the transfer moves,
without a sign. Which columns must be unique is in docs/embedding.md.
"""

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Protocol, TypedDict
from uuid import UUID

from meetcore.domain.money.hash_chain import Entry, check_instant
from meetcore.domain.money.transfers import Book, Reference, Transfer, TransferKind

__all__ = ["EntryRow", "Row", "from_row", "to_row"]


class EntryRow(TypedDict):
    """The columns of an entry. Texts have at most 300 characters, `hash` 32 bytes, `key_id` 4 or none."""

    account_id: UUID
    number: int
    transfer_id: UUID
    operation: str
    kind: str
    amount: int
    source: str
    destination: str
    reference_type: str
    reference_id: str
    reverses: UUID | None
    api_key_id: UUID | None
    cap_day: date | None
    balance_after: int
    at: datetime
    hash: bytes
    key_id: bytes


class Row(Protocol):
    """What a driver returns for a row: a dict, a `sqlite3.Row`, a mapping of SQLAlchemy."""

    def __getitem__(self, column: str, /) -> Any:
        """Return the value of a column."""


def to_row(entry: Entry) -> EntryRow:
    """Return the row of an entry; `ValueError` for an instant without a time zone."""
    check_instant(entry.at)
    transfer = entry.transfer
    return {
        "account_id": entry.account_id,
        "number": entry.number,
        "transfer_id": transfer.id,
        "operation": transfer.operation,
        "kind": transfer.kind.value,
        "amount": transfer.amount,
        "source": transfer.source.value,
        "destination": transfer.destination.value,
        "reference_type": transfer.reference.type,
        "reference_id": transfer.reference.id,
        "reverses": transfer.reverses,
        "api_key_id": transfer.api_key_id,
        "cap_day": transfer.cap_day,
        "balance_after": entry.balance_after,
        "at": entry.at.astimezone(UTC),
        "hash": entry.hash,
        "key_id": entry.key_id,
    }


def from_row(row: Row, *kinds: type[StrEnum]) -> Entry:
    """Return the entry of a row, which may have further columns.

    `kinds` are the caller's own kinds of transfers, beside those of `TransferKind`. Raises `ValueError` for a
    kind or a book of neither, and for an instant without a time zone.
    """
    check_instant(row["at"])
    transfer = Transfer(
        row["transfer_id"],
        row["operation"],
        _member(row["kind"], TransferKind, *kinds),
        row["amount"],
        _member(row["source"], Book, *kinds),
        _member(row["destination"], Book, *kinds),
        Reference(row["reference_type"], row["reference_id"]),
        row["reverses"],
        row["api_key_id"],
        row["cap_day"],
    )
    return Entry(
        row["account_id"],
        row["number"],
        transfer,
        transfer.signed_amount,
        row["balance_after"],
        row["at"],
        bytes(row["hash"]),  # some drivers return a memoryview
        bytes(row["key_id"]),
    )


def _member(value: str, *sets: type[StrEnum]) -> StrEnum:
    for each in sets:
        for member in each:
            if member.value == value:
                return member
    raise ValueError(f"{value!r} is not in {', '.join(each.__name__ for each in sets)}")
