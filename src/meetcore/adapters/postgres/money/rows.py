"""Money as rows: its columns, and the parameters of statements that move it.

A transfer's legs are two rows under one number; the system's leg needs no running balance, because the system's books are
summed, not spent from.

In statements `locked` is an account under its lock; other tables are read by a snapshot taken before the lock was waited for,
which `seen_version` shows. `guard` is the account where the statement's condition holds, and nothing where it does not; writes
under the account's lock need none. Rows that are written are named by parameters, and `guard` is only asked whether it is
there: joined with it, a table that was empty when the statement was planned would be read through for ever.
"""

from datetime import date
from typing import Final
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.money import holds, ledger

FUNDS = Columns(ledger.Funds, "a", "funds_", renamed={"account_id": "id"})
# What no posting changes of an account: the threshold is the registry's.
_UNCHANGED = ("account_id", "low_threshold")
FUNDS_AFTER = Columns(ledger.Funds, "w", "", without=_UNCHANGED)
FUNDS_AFTER_PARAMETERS = Columns(ledger.Funds, "a", "funds_", without=_UNCHANGED)
_KIND = {"kind": ledger.TransferKind}
TRANSFER = Columns(
    ledger.Transfer, "t", "transfer_", nested={"reference": "reference_"},
    sets=_KIND | {"source": ledger.Book, "destination": ledger.Book},
)  # fmt: skip
ENTRY = Columns(ledger.Entry, "e", "entry_", renamed={"key_id": "chain_key"}, without=("transfer",))
HOLD = Columns(holds.Hold, "hold", "hold_", nested={"reference": "reference_"}, sets=_KIND)
# Usage is stored once for each cap, under the key that it is counted under.
USAGE = Columns(holds.CapUsage, "u", "usage_", renamed={"cap_key_id": "api_key_id"}, without=("api_key_id",))

MONEY: Final = {
    "ENTRY": ENTRY, "FUNDS": FUNDS, "FUNDS_AFTER": FUNDS_AFTER, "FUNDS_AFTER_PARAMETERS": FUNDS_AFTER_PARAMETERS,
    "HOLD": HOLD, "TRANSFER": TRANSFER, "USAGE": USAGE,
}  # fmt: skip
"""What the placeholders of statements about money stand for."""


def entry(row: Row) -> ledger.Entry | None:
    """Return a customer's entry with its transfer, if the row has one."""
    transfer = TRANSFER.find(row)
    if transfer is None:
        return None
    return ENTRY.read(row | {"entry_chain_key": row["entry_chain_key"] or b""}, transfer=transfer)


def entry_parameters(entry: ledger.Entry) -> Row:
    """Return the parameters of the statements that append an entry."""
    return (
        TRANSFER.parameters(entry.transfer)
        | ENTRY.parameters(entry)
        | {"entry_chain_key": entry.key_id or None, "system_book": system_book(entry)}
    )


def system_book(entry: ledger.Entry) -> str:
    """Return the book of the transfer's other leg."""
    transfer = entry.transfer
    return (transfer.source if transfer.signed_amount > 0 else transfer.destination).value


def usage(row: Row, api_key_id: UUID, day: date) -> holds.CapUsage:
    """Return the usage of a key's cap on a day; a day without a row is unused."""
    spent, held, first_key_id = row["usage_spent"], row["usage_held"], row["key_first_key_id"]
    return holds.CapUsage(api_key_id, day, spent or 0, held or 0, first_key_id or api_key_id)
